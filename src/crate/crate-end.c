/* SPDX-License-Identifier: Apache-2.0 */

/* The ways to the end of a job: limits that are met, the kill ladder, and the result. */

#include "crate/crate-state.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>

#include "basic/error.h"

#define CRATE_GRACE_USEC (2 * USEC_PER_SEC) /* between TERM and KILL */
#define CRATE_LINE_MAX 201U                 /* of the last output, as evidence */
#define CRATE_KILL_USEC (1 * USEC_PER_SEC)  /* between killing the job and killing init */

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
        /* The end of many processes is much work, and nobody waits for it as for a reply. */
        crate_yield(crate);
        if (crate->state != CRATE_STATE_RUNNING ||
            crate_send_signal(crate, grace ? SIGTERM : SIGKILL) != 0) {
                crate_kill_init(crate);
                return;
        }
        /* All of the job at once, not only what still is in its first session. */
        if (!grace && crate->cgroup)
                (void) cgroup_crate_kill_job(crate->cgroup);
        /* A stopped job does not act on TERM. */
        if (grace)
                (void) crate_send_signal(crate, SIGCONT);
        crate->ladder = step;
        crate->ladder_usec = now_usec() + (grace ? CRATE_GRACE_USEC : CRATE_KILL_USEC);
}

void crate_breach_at(Crate *crate, const CrateBreach *breach, bool grace) {
        if (crate->state > CRATE_STATE_RUNNING)
                return;
        /* The first one is what the record names. */
        if (crate->result.limit.name == _LIMIT_INVALID)
                crate->result.limit = *breach;
        crate_end_job(crate, grace);
}

void crate_breach(Crate *crate, LimitName name, uint64_t observed, bool grace) {
        CrateLimitState *state = &crate->result.limits[name];
        CrateBreach breach = {
                .name = name,
                .max = state->max,
                .observed = observed,
                .level = CRATE_LEVEL_JOB,
                .enforced_by = state->enforced_by,
        };

        state->hits++;
        crate_breach_at(crate, &breach, grace);
}

void crate_hit(Crate *crate, LimitName name, uint64_t observed, uint64_t hits) {
        if (crate->job.on_hit == ON_HIT_REFUSE)
                crate->result.limits[name].hits = hits;
        else
                crate_breach(crate, name, observed, false);
}

void crate_end_for(Crate *crate, const CrateBreach *breach) {
        crate_breach_at(crate, breach, false);
        (void) crate_arm_timer(crate);
}

void crate_release(Crate *crate) {
        crate->stream_fds[0] = fd_close(crate->stream_fds[0]);
        crate->stream_fds[1] = fd_close(crate->stream_fds[1]);
        crate->stdin_fd = fd_close(crate->stdin_fd);
        crate->init.fd = fd_close(crate->init.fd);
        crate_stop_measuring(crate);
        crate->private_fd = fd_close(crate->private_fd);
        crate->proc_fd = fd_close(crate->proc_fd);
        crate->job_fd = fd_close(crate->job_fd);
        crate->script_fd = fd_close(crate->script_fd);
        crate_release_egress(crate);
}

static void crate_decide_outcome(Crate *crate) {
        CrateResult *result = &crate->result;

        if (result->outcome == CRATE_SIGNALED && result->signal == SIGXFSZ &&
            result->limit.name == _LIMIT_INVALID &&
            crate->job.limits.max[LIMIT_FILE_SIZE] != LIMIT_UNLIMITED) {
                result->limits[LIMIT_FILE_SIZE].hits++;
                result->limit = (CrateBreach){
                        .name = LIMIT_FILE_SIZE,
                        .max = crate->job.limits.max[LIMIT_FILE_SIZE],
                        .observed = crate->job.limits.max[LIMIT_FILE_SIZE],
                        .enforced_by = result->limits[LIMIT_FILE_SIZE].enforced_by,
                };
        }
        if (result->outcome == CRATE_SIGNALED && result->signal == SIGSYS)
                (void) crate_result_add_evidence(
                        result, crate_age_usec(crate), "seccomp",
                        "seccomp: architecture not allowed: the program made a system call of "
                        "another architecture than this host's");
        if (result->outcome == CRATE_EXEC_FAILED)
                return;
        if (result->limit.name != _LIMIT_INVALID)
                result->outcome = CRATE_LIMIT;
        else if (crate->cancelled) {
                result->outcome = CRATE_CANCELLED;
                result->signal = crate->cancel_signal;
        }
}

/* The last line of a stream, for those who only see the evidence, without what a terminal would
 * obey. False: there is none. */
static bool note_last_line(CrateResult *result, uint64_t usec, const char *kind,
                           const Capture *capture) {
        char text[CRATE_LINE_MAX], *line = text;
        size_t n;

        n = capture_last(capture, text, sizeof(text) - 1);
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
                n--;
        if (n == 0)
                return false;
        text[n] = 0;
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char) text[i], next = (unsigned char) text[i + 1];

                if (c == '\n')
                        line = text + i + 1;
                else if (c == 0 || c == '\t')
                        text[i] = ' ';
                else if (c < ' ' || c == 0x7f)
                        text[i] = '?';
                else if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* C1 controls */
                        text[i] = text[i + 1] = '?';
        }
        (void) crate_result_add_evidence(result, usec, kind, "%s", line);
        return true;
}

static void note_last_output(Crate *crate) {
        CrateResult *result = &crate->result;
        uint64_t usec = crate_age_usec(crate);

        if (result->outcome == CRATE_LIMIT && !note_last_line(result, usec, "stderr", &result->err))
                (void) note_last_line(result, usec, "stdout", &result->out);
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
        note_last_output(crate);
        crate_release(crate);
        crate->ended = true;
}

void crate_finish_if_drained(Crate *crate) {
        if (crate->state == CRATE_STATE_ENDED && crate->dead && crate->stream_fds[0] < 0 &&
            crate->stream_fds[1] < 0 && crate->egress.id == 0)
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
        crate_end_egress(crate);
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
        /* init may have fallen to a ceiling above the job's. */
        crate_look_back(crate);
        if (!crate->result.error.text && crate->result.limit.name == _LIMIT_INVALID)
                (void) crate_error_set(&crate->result.error, "init", 0, NULL, NULL, "%s", text);
        crate->result.outcome = CRATE_LOST;
        crate_end(crate);
}

void crate_init_limits(Crate *crate) {
        static const LimitName unseen[] = {
                LIMIT_CPUS,        LIMIT_OPEN_FILES,   LIMIT_FILE_SIZE,
                LIMIT_IO_READ_BPS, LIMIT_IO_WRITE_BPS,
        };

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                crate->result.limits[name] = (CrateLimitState){
                        .max = crate->job.limits.max[name],
                        .enforced_by = limit_means_to_string(crate->means.of[name]),
                };
        /* Nothing keeps the peaks of these. */
        for (size_t i = 0; i < ELEMENTSOF(unseen); i++)
                crate->result.limits[unseen[i]].peak = LIMIT_UNLIMITED;
        crate->result.limits_known = true;
}
