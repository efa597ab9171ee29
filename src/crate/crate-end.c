/* SPDX-License-Identifier: Apache-2.0 */

/* The ways to the end of a job: limits that are met, the kill ladder, and the result. */

#include "crate/crate-state.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/vfs.h>

#include "basic/error.h"

#define CRATE_GRACE_USEC (2 * USEC_PER_SEC) /* between TERM and KILL */
#define CRATE_KILL_USEC (1 * USEC_PER_SEC)  /* between killing the job and killing init */
#define CRATE_SAMPLE_MAX_USEC (500 * USEC_PER_MSEC)

/* The job's time so far, for evidence. */
uint64_t crate_age_usec(const Crate *crate) {
        return crate->start_usec > 0 ? now_usec() - crate->start_usec : 0;
}

/* Kills init, and with it everything in its pid namespace. Without a pidfd yet, the end of its link
 * does the same. */
void crate_kill_init(Crate *crate) {
        crate->ladder = LADDER_INIT;
        crate->ladder_usec = now_usec() + CRATE_KILL_USEC;
        if (crate->pid_fd >= 0)
                (void) pidfd_send_signal(crate->pid_fd, SIGKILL, NULL, 0);
        crate_unwatch(crate, &crate->init.fd);
}

/* Not even that was told of: a launcher that does not answer must not hold up its host. */
void crate_give_up(Crate *crate) {
        crate->dead = true;
        crate_lose(crate, "nothing has told of the end of the crate's init");
}

int crate_send_signal(Crate *crate, int number) {
        InitSignal message = {.signal = number};

        return link_send(&crate->init, INIT_SIGNAL, 0, &message, sizeof(message), NULL, 0);
}

/* Ends the job: by TERM first if there is to be grace. Init answers with EXITED; if it does not, it
 * is killed itself. */
void crate_end_job(Crate *crate, bool grace) {
        CrateLadder step = grace ? LADDER_TERM : LADDER_KILL;

        if (crate->ladder >= step || crate->state >= CRATE_STATE_ENDED)
                return;
        if (crate->state != CRATE_STATE_RUNNING ||
            crate_send_signal(crate, grace ? SIGTERM : SIGKILL) != 0) {
                crate_kill_init(crate);
                return;
        }
        /* A stopped job does not act on TERM. */
        if (grace)
                (void) crate_send_signal(crate, SIGCONT);
        crate->ladder = step;
        crate->ladder_usec = now_usec() + (grace ? CRATE_GRACE_USEC : CRATE_KILL_USEC);
}

/* A limit was met. The first one is what the record names. */
void crate_breach(Crate *crate, LimitName name, uint64_t observed, bool grace) {
        crate->result.limits[name].hits++;
        if (crate->result.limit == _LIMIT_INVALID) {
                crate->result.limit = name;
                crate->result.limit_observed = observed;
        }
        crate_end_job(crate, grace);
}

void crate_release(Crate *crate) {
        crate->stream_fds[0] = fd_close(crate->stream_fds[0]);
        crate->stream_fds[1] = fd_close(crate->stream_fds[1]);
        crate->stdin_fd = fd_close(crate->stdin_fd);
        crate->init.fd = fd_close(crate->init.fd);
        crate->private_fd = fd_close(crate->private_fd);
        crate->job_fd = fd_close(crate->job_fd);
        crate->script_fd = fd_close(crate->script_fd);
}

static void crate_decide_outcome(Crate *crate) {
        CrateResult *result = &crate->result;

        if (result->outcome == CRATE_SIGNALED && result->signal == SIGXFSZ &&
            result->limit == _LIMIT_INVALID &&
            crate->job.limits.max[LIMIT_FILE_SIZE] != LIMIT_UNLIMITED) {
                result->limits[LIMIT_FILE_SIZE].hits++;
                result->limit = LIMIT_FILE_SIZE;
                result->limit_observed = crate->job.limits.max[LIMIT_FILE_SIZE];
        }
        if (result->outcome == CRATE_SIGNALED && result->signal == SIGSYS)
                (void) crate_result_add_evidence(
                        result, crate_age_usec(crate), "seccomp",
                        "seccomp: architecture not allowed: the program made a system call of "
                        "another architecture than this host's");
        if (result->outcome == CRATE_EXEC_FAILED)
                return;
        if (result->limit != _LIMIT_INVALID)
                result->outcome = CRATE_LIMIT;
        else if (crate->cancelled) {
                result->outcome = CRATE_CANCELLED;
                result->signal = crate->cancel_signal;
        }
}

/* Nothing more will come. on_end follows from the end of the dispatch. */
static void crate_finish(Crate *crate) {
        if (crate->state == CRATE_STATE_DONE)
                return;
        crate->state = CRATE_STATE_DONE;
        crate->deadline_usec = crate->ladder_usec = crate->drain_usec = crate->sample_usec = 0;
        (void) crate_arm_timer(crate);
        if (crate->result.wall_usec == 0)
                crate->result.wall_usec = crate_age_usec(crate);
        crate->result.limits[LIMIT_WALL_TIME].peak = crate->result.wall_usec;
        crate_decide_outcome(crate);
        crate_release(crate);
        crate->ended = true;
}

void crate_finish_if_drained(Crate *crate) {
        if (crate->state == CRATE_STATE_ENDED && crate->dead && crate->stream_fds[0] < 0 &&
            crate->stream_fds[1] < 0)
                crate_finish(crate);
}

/* The job is over; what is left in the pipes is still to be read. */
void crate_end(Crate *crate) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate->state = CRATE_STATE_ENDED;
        crate->deadline_usec = crate->sample_usec = 0;
        crate->drain_usec = now_usec() + CRATE_DRAIN_USEC;
        crate_unwatch(crate, &crate->stdin_fd);
}

/* Ends without a job's own end: could not be made, or was lost. */
void crate_abort(Crate *crate, CrateOutcome outcome) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate->result.outcome = outcome;
        crate_end(crate);
        crate_unwatch(crate, &crate->stream_fds[0]);
        crate_unwatch(crate, &crate->stream_fds[1]);
        crate_unwatch(crate, &crate->init.fd);
        crate_finish(crate);
}

/* It could not be made. Does not settle: this may be called from deep inside of a dispatch. */
void crate_fail(Crate *crate, const ProtoFailure *failure) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate_error_done(&crate->result.error);
        (void) crate_explain_failure(failure, &crate->result.error);
        crate_abort(crate, CRATE_LOST);
}

void crate_lose(Crate *crate, const char *text) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        if (!crate->result.error.text)
                (void) crate_error_set(&crate->result.error, "init", 0, NULL, NULL, "%s", text);
        crate->result.outcome = CRATE_LOST;
        crate_end(crate);
}

static void crate_note_usage(Crate *crate, LimitName name, uint64_t used, uint64_t left) {
        CrateLimitState *limit = &crate->result.limits[name];

        if (used > limit->peak)
                limit->peak = used;
        if (left > 0)
                return;
        if (crate->job.on_hit == ON_HIT_REFUSE) {
                limit->hits++;
                return;
        }
        crate_breach(crate, name, used, false);
}

/* The private tmpfs: a full one has refused something. Unchanged usage makes the looks rarer. */
void crate_sample_disk(Crate *crate) {
        struct statfs fs;
        uint64_t used, before = crate->result.limits[LIMIT_DISK].peak;

        if (crate->private_fd < 0 || fstatfs(crate->private_fd, &fs) < 0)
                return;
        used = (uint64_t) (fs.f_blocks - fs.f_bfree) * (uint64_t) fs.f_bsize;
        if (fs.f_blocks > 0)
                crate_note_usage(crate, LIMIT_DISK, used, (uint64_t) fs.f_bfree);
        if (fs.f_files > 0)
                crate_note_usage(crate, LIMIT_INODES, (uint64_t) (fs.f_files - fs.f_ffree),
                                 (uint64_t) fs.f_ffree);

        crate->sample_interval_usec =
                used > before ? CRATE_SAMPLE_MIN_USEC : crate->sample_interval_usec * 2;
        if (crate->sample_interval_usec > CRATE_SAMPLE_MAX_USEC)
                crate->sample_interval_usec = CRATE_SAMPLE_MAX_USEC;
}

void crate_init_limits(Crate *crate) {
        static const struct {
                LimitName name;
                const char *enforced_by;
        } enforced[] = {
                {LIMIT_WALL_TIME, "timer"},   {LIMIT_DISK, "mount"},       {LIMIT_INODES, "mount"},
                {LIMIT_OPEN_FILES, "rlimit"}, {LIMIT_FILE_SIZE, "rlimit"}, {LIMIT_OUTPUT, "broker"},
        };

        for (size_t i = 0; i < ELEMENTSOF(enforced); i++)
                crate->result.limits[enforced[i].name] = (CrateLimitState){
                        .max = crate->job.limits.max[enforced[i].name],
                        .enforced_by = enforced[i].enforced_by,
                };
}
