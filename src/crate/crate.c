/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The state machine of one crate. Everything that it waits for is in one epoll, whose fd is what
 * the owner polls:
 *
 *   init's link   READY, STARTED, EXITED, FAILED, or end of file
 *   two streams   output, read while not paused
 *   stdin         while there is data that the job has not taken
 *   the pidfd     init is dead, and with it everything in the crate
 *   the timer     the nearest of: deadline, next step of the kill ladder, next look at the disk
 *
 * A result stands when the main process has been reaped by init (or init is dead) and the
 * streams are at their end.
 */

#include "crate/crate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "basic/time-util.h"
#include "crate/crate-internal.h"
#include "plan/job-wire.h"

#define CRATE_MAKE_USEC                                                                            \
        (30 * USEC_PER_SEC)                 /* to be ready, on a host that is short of everything  \
                                             */
#define CRATE_GRACE_USEC (2 * USEC_PER_SEC) /* between TERM and KILL */
#define CRATE_KILL_USEC (1 * USEC_PER_SEC)  /* between killing the job and killing init */
#define CRATE_DRAIN_USEC                                                                           \
        (5 * USEC_PER_SEC) /* for what is left in the pipes of a job that has ended */
#define CRATE_SAMPLE_MIN_USEC (20 * USEC_PER_MSEC)
#define CRATE_SAMPLE_MAX_USEC (500 * USEC_PER_MSEC)
#define CRATE_READ_SIZE 65536U
#define CRATE_READS_MAX 16U /* of one stream before the others get their turn */

enum {
        CRATE_STATE_MAKING = 1U << 0,
        CRATE_STATE_READY = 1U << 1,
        CRATE_STATE_RUNNING = 1U << 2,
        CRATE_STATE_ENDED = 1U << 3, /* no job any more; streams may still hold output */
        CRATE_STATE_DONE = 1U << 4,  /* on_end was called */
};

typedef enum CrateSource {
        SOURCE_INIT,
        SOURCE_STDOUT, /* + CrateStream */
        SOURCE_STDERR,
        SOURCE_STDIN,
        SOURCE_TIMER,
        SOURCE_PID,
} CrateSource;

/* How far the ending of the job has come. */
typedef enum CrateLadder {
        LADDER_NONE,
        LADDER_TERM, /* TERM was sent */
        LADDER_KILL, /* the job was killed by init */
        LADDER_INIT, /* init was killed */
} CrateLadder;

struct Crate {
        Launcher *launcher;
        uint32_t id;
        uint32_t state;
        CrateJob job;
        CrateCallbacks callbacks;
        void *userdata;

        int epoll_fd, timer_fd;
        Link init;
        int pid_fd;
        int private_fd; /* the crate's tmpfs, for fstatfs only */
        int stream_fds[2];
        bool paused[2];
        int stdin_fd;
        size_t stdin_done;
        int job_fd, script_fd; /* memfds, until they are sent */
        const CgroupCrate *cgroup;

        CrateLadder ladder;
        bool dead; /* the job's processes are known to be gone, or are not waited for any longer */
        bool cancelled;
        int cancel_signal;
        uint64_t start_usec;                                          /* of the job */
        uint64_t deadline_usec, ladder_usec, drain_usec, sample_usec; /* 0: none */
        uint64_t sample_interval_usec;
        bool ended; /* the result stands, on_end is still to be called */
        CrateResult result;
};

void crate_job_init(CrateJob *job) {
        *job = (CrateJob){.capture = CAPTURE_DEFAULT};
        limits_init(&job->limits);
}

void crate_job_done(CrateJob *job) {
        strv_done(&job->argv);
        strv_done(&job->env);
        free(job->command);
        free(job->cwd);
        free(job->stdin_data);
        *job = (CrateJob){};
}

static int memdup(const char *data, size_t size, char **ret_copy) {
        char *copy;

        if (!data)
                return 0;
        copy = malloc(size + 1);
        if (!copy)
                return error_origin(-ENOMEM);
        memcpy(copy, data, size);
        copy[size] = 0;
        *ret_copy = copy;
        return 0;
}

/* What is needed after the job's memfds are made: not its argv and environment. */
static int crate_copy_job(Crate *crate, const CrateJob *job) {
        crate->job = (CrateJob){
                .stdin_mode = job->stdin_mode,
                .stdin_size = job->stdin_size,
                .tty = job->tty,
                .rows = job->rows,
                .columns = job->columns,
                .limits = job->limits,
                .on_hit = job->on_hit,
                .capture = job->capture,
        };
        return memdup(job->stdin_data, job->stdin_size, &crate->job.stdin_data);
}

/* --- the epoll --- */

static int crate_watch(Crate *crate, int fd, CrateSource source, uint32_t events) {
        struct epoll_event event = {.events = events, .data.u32 = (uint32_t) source};

        return epoll_ctl(crate->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0
                       ? error_origin(negative_errno())
                       : 0;
}

/* Out of the epoll before it is closed: a copy of the fd elsewhere would keep it in. */
static void crate_unwatch(Crate *crate, int *fd) {
        if (*fd < 0)
                return;
        (void) epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
        *fd = fd_close(*fd);
}

static uint64_t nearest(uint64_t a, uint64_t b) {
        return a == 0 ? b : b == 0 || a < b ? a : b;
}

static int crate_arm_timer(Crate *crate) {
        uint64_t usec = nearest(nearest(crate->deadline_usec, crate->ladder_usec),
                                nearest(crate->drain_usec, crate->sample_usec));
        struct itimerspec spec = {
                .it_value = {.tv_sec = (time_t) (usec / USEC_PER_SEC),
                             .tv_nsec = (long) (usec % USEC_PER_SEC * NSEC_PER_USEC)},
        };

        return timerfd_settime(crate->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0
                       ? error_origin(negative_errno())
                       : 0;
}

/* --- ending --- */

/* The job's time so far, for evidence. */
static uint64_t crate_age_usec(const Crate *crate) {
        return crate->start_usec > 0 ? now_usec() - crate->start_usec : 0;
}

/* Kills init, and with it everything in its pid namespace. Without a pidfd yet, the end of its link
 * does the same. */
static void crate_kill_init(Crate *crate) {
        crate->ladder = LADDER_INIT;
        crate->ladder_usec = 0;
        if (crate->pid_fd >= 0)
                (void) pidfd_send_signal(crate->pid_fd, SIGKILL, NULL, 0);
        crate_unwatch(crate, &crate->init.fd);
}

static int crate_send_signal(Crate *crate, int number) {
        InitSignal message = {.signal = number};

        return link_send(&crate->init, INIT_SIGNAL, 0, &message, sizeof(message), NULL, 0);
}

/* Ends the job: by TERM first if there is to be grace. Init answers with EXITED; if it does not, it
 * is killed itself. */
static void crate_end_job(Crate *crate, bool grace) {
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
static void crate_breach(Crate *crate, LimitName name, uint64_t observed, bool grace) {
        crate->result.limits[name].hits++;
        if (crate->result.limit == _LIMIT_INVALID) {
                crate->result.limit = name;
                crate->result.limit_observed = observed;
        }
        crate_end_job(crate, grace);
}

static void crate_release(Crate *crate) {
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

static void crate_finish_if_drained(Crate *crate) {
        if (crate->state == CRATE_STATE_ENDED && crate->dead && crate->stream_fds[0] < 0 &&
            crate->stream_fds[1] < 0)
                crate_finish(crate);
}

/* The job is over; what is left in the pipes is still to be read. */
static void crate_end(Crate *crate) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate->state = CRATE_STATE_ENDED;
        crate->deadline_usec = crate->sample_usec = 0;
        crate->drain_usec = now_usec() + CRATE_DRAIN_USEC;
        crate_unwatch(crate, &crate->stdin_fd);
}

/* Ends without a job's own end: could not be made, or was lost. */
static void crate_abort(Crate *crate, CrateOutcome outcome) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate->result.outcome = outcome;
        crate_end(crate);
        crate_unwatch(crate, &crate->stream_fds[0]);
        crate_unwatch(crate, &crate->stream_fds[1]);
        crate_unwatch(crate, &crate->init.fd);
        crate_finish(crate);
}

/* --- limits that are looked at --- */

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
static void crate_sample_disk(Crate *crate) {
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

static void crate_init_limits(Crate *crate) {
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

/* --- streams --- */

static void crate_on_chunk(Crate *crate, CrateStream stream, const char *data, size_t size) {
        Capture *capture = stream == CRATE_STDOUT ? &crate->result.out : &crate->result.err;
        uint64_t max = crate->job.limits.max[LIMIT_OUTPUT], total;

        if (crate->result.limit == LIMIT_OUTPUT)
                return;

        total = crate->result.out.total + crate->result.err.total;
        if (max != LIMIT_UNLIMITED && size > max - total) {
                uint64_t observed = total + size;

                size = (size_t) (max - total);
                crate_breach(crate, LIMIT_OUTPUT, observed, false);
        }
        if (capture_add(capture, data, size) < 0) {
                crate_abort(crate, CRATE_LOST);
                return;
        }
        if (crate->result.limit == LIMIT_OUTPUT)
                capture_end(capture);
        if (size == 0)
                return;
        crate->result.limits[LIMIT_OUTPUT].peak = total + size;
        if (crate->callbacks.on_output)
                crate->callbacks.on_output(crate, stream, data, size, crate->userdata);
}

static void crate_read_stream(Crate *crate, CrateStream stream) {
        _uninitialized_ char buffer[CRATE_READ_SIZE];

        for (unsigned i = 0; i < CRATE_READS_MAX; i++) {
                ssize_t n;

                if (crate->stream_fds[stream] < 0 || crate->paused[stream])
                        return;
                n = read(crate->stream_fds[stream], buffer, sizeof(buffer));
                if (n > 0) {
                        crate_on_chunk(crate, stream, buffer, (size_t) n);
                        if ((size_t) n < sizeof(buffer) && crate->state < CRATE_STATE_ENDED)
                                return;
                        continue;
                }
                if (n < 0 && errno == EINTR)
                        continue;
                if (n == 0 || errno != EAGAIN)
                        crate_unwatch(crate, &crate->stream_fds[stream]);
                return;
        }
}

static void crate_write_stdin(Crate *crate) {
        size_t left = crate->job.stdin_size - crate->stdin_done;
        ssize_t n = 0;

        if (left > 0) {
                n = write(crate->stdin_fd, crate->job.stdin_data + crate->stdin_done, left);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
        }
        /* EPIPE: the job does not want the rest. */
        if (n < 0 || (size_t) n == left) {
                crate_unwatch(crate, &crate->stdin_fd);
                return;
        }
        crate->stdin_done += (size_t) n;
}

int crate_pause_output(Crate *crate, CrateStream stream, bool pause) {
        int fd = crate->stream_fds[stream];

        if (crate->paused[stream] == pause)
                return 0;
        crate->paused[stream] = pause;
        if (fd < 0)
                return 0;
        /* Out of the epoll, not just without events: EPOLLHUP would be reported all the same, again
         * and again. */
        if (pause)
                return epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, fd, NULL) < 0
                               ? error_origin(negative_errno())
                               : 0;
        return crate_watch(crate, fd, SOURCE_STDOUT + stream, EPOLLIN);
}

int crate_take_stdin(Crate *crate) {
        return TAKE_FD(crate->stdin_fd);
}

/* --- what init says --- */

static int on_init_failed(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        ProtoFailure failure;

        memcpy(&failure, frame->payload, sizeof(failure));
        failure.step[sizeof(failure.step) - 1] = 0;
        failure.path[sizeof(failure.path) - 1] = 0;
        crate_on_failed(crate, &failure);
        return 0;
}

static int crate_send_job(Crate *crate) {
        InitJob message = {.rows = crate->job.rows, .columns = crate->job.columns};
        int fds[3], r;
        size_t n = 0;

        fds[n++] = crate->job_fd;
        if (crate->job.stdin_mode != CRATE_STDIN_NULL)
                message.flags |= INIT_JOB_STDIN_PIPE;
        if (crate->job.tty)
                message.flags |= INIT_JOB_TTY;
        if (crate->script_fd >= 0) {
                message.flags |= INIT_JOB_SCRIPT;
                fds[n++] = crate->script_fd;
        }
        if (crate->cgroup) {
                message.flags |= INIT_JOB_CGROUP;
                fds[n++] = cgroup_crate_exec_fd(crate->cgroup);
        }
        r = link_send(&crate->init, INIT_JOB, crate->id, &message, sizeof(message), fds, n);
        crate->job_fd = fd_close(crate->job_fd);
        crate->script_fd = fd_close(crate->script_fd);
        return r != 0 ? error_origin(-ECONNABORTED) : 0;
}

/* init has checked itself; what it reports is compared once more, since a crate weaker than its
 * plan is never used. */
static bool report_is_sound(const InitReport *report) {
        return (report->cap_effective | report->cap_permitted | report->cap_inheritable |
                report->cap_bounding | report->cap_ambient) == 0 &&
               report->no_new_privs == 1 && report->seccomp_mode == 2 && report->uid == 1000 &&
               report->gid == 1000 && report->n_interfaces == 1;
}

static int on_init_ready(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        InitReport report;

        memcpy(&report, frame->payload, sizeof(report));
        if (!report_is_sound(&report))
                return error_origin(-EPERM);
        if (frame->n_fds > 0)
                crate->private_fd = TAKE_FD(frame->fds[0]);
        crate->state = CRATE_STATE_READY;
        crate->init.state = CRATE_STATE_READY;
        return crate_send_job(crate);
}

static int set_nonblocking(int fd) {
        return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? error_origin(negative_errno()) : 0;
}

/* The host's ends: stdin if it is piped, then the two streams. */
static int crate_take_streams(Crate *crate, Frame *frame) {
        bool piped = crate->job.stdin_mode != CRATE_STDIN_NULL;
        size_t n = 0;
        int r;

        if (frame->n_fds != (piped ? 3U : 2U))
                return error_origin(-EBADMSG);
        if (piped)
                crate->stdin_fd = TAKE_FD(frame->fds[n++]);
        for (size_t i = 0; i < 2; i++) {
                crate->stream_fds[i] = TAKE_FD(frame->fds[n++]);
                r = set_nonblocking(crate->stream_fds[i]);
                if (r == 0 && !crate->paused[i])
                        r = crate_watch(crate, crate->stream_fds[i],
                                        SOURCE_STDOUT + (CrateSource) i, EPOLLIN);
                if (r < 0)
                        return error_trace(r);
        }
        if (crate->job.stdin_mode != CRATE_STDIN_DATA)
                return 0;
        r = set_nonblocking(crate->stdin_fd);
        return r < 0 ? error_trace(r) : crate_watch(crate, crate->stdin_fd, SOURCE_STDIN, EPOLLOUT);
}

static int on_init_started(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        uint64_t wall = crate->job.limits.max[LIMIT_WALL_TIME];
        int r;

        crate->state = CRATE_STATE_RUNNING;
        crate->init.state = CRATE_STATE_RUNNING;
        crate->start_usec = now_usec();
        crate->deadline_usec = wall != LIMIT_UNLIMITED ? crate->start_usec + wall : 0;
        crate->sample_interval_usec = CRATE_SAMPLE_MIN_USEC;
        crate->sample_usec = crate->start_usec + crate->sample_interval_usec;

        if (crate->job.tty) {
                if (frame->n_fds != 1)
                        return error_origin(-EBADMSG);
                crate->stdin_fd = TAKE_FD(frame->fds[0]);
        } else {
                r = crate_take_streams(crate, frame);
                if (r < 0)
                        return error_trace(r);
        }
        if (crate->callbacks.on_started)
                crate->callbacks.on_started(crate, crate->userdata);
        if (crate->cancelled)
                crate_end_job(crate, false);
        return 0;
}

static const char *exec_step_name(uint32_t step) {
        switch (step) {
        case INIT_EXEC_STEP_EXEC:
                return "exec";
        case INIT_EXEC_STEP_CWD:
                return "cwd";
        case INIT_EXEC_STEP_STDIO:
                return "stdio";
        case INIT_EXEC_STEP_LIMITS:
                return "limits";
        default:
                return "clone";
        }
}

static void crate_explain_exec(Crate *crate, const InitExited *exited) {
        const char *step = exec_step_name(exited->step), *remedy = NULL;
        const char *what =
                exited->step == INIT_EXEC_STEP_CWD ? crate->job.cwd : crate->job.argv.items[0];
        const char *text = strerror(exited->error);

        if (exited->step == INIT_EXEC_STEP_CWD)
                remedy = "give a folder that exists in the crate; the workspace is /workspace";
        else if (exited->file_exists)
                text = "its interpreter (the #! line or the dynamic loader) is missing in the "
                       "crate",
                remedy = "use an interpreter below /usr, or a template that has it";
        else if (exited->error == ENOENT)
                text = "no such command in the crate",
                remedy = "only what the template shows is there: the host's /usr and the "
                         "workspace, not your home";
        else if (exited->error == EACCES)
                text = "it is not executable",
                remedy = "set its execute bit, or run it by its interpreter";
        else if (exited->error == ENOEXEC)
                text = "it is no program and has no #! line",
                remedy = "give it a #! line, or run it by its interpreter";
        else if (exited->error == E2BIG)
                text = "arguments and environment are too large together",
                remedy = "pass large data by stdin or a file";

        (void) crate_error_set(&crate->result.error, step, exited->error, what, remedy,
                               "%s%s cannot be %s: %s",
                               exited->step == INIT_EXEC_STEP_CWD ? "the working directory " : "",
                               what, exited->step == INIT_EXEC_STEP_CWD ? "entered" : "run", text);
}

static int on_init_exited(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        CrateResult *result = &crate->result;
        InitExited exited;

        memcpy(&exited, frame->payload, sizeof(exited));
        crate->dead = true;
        result->cpu_usec = exited.utime_usec + exited.stime_usec;
        result->memory_peak_bytes = exited.max_rss_bytes;
        result->wall_usec = exited.wall_usec;

        if (exited.what == INIT_EXITED_EXEC_FAILED) {
                result->outcome = CRATE_EXEC_FAILED;
                crate_explain_exec(crate, &exited);
        } else if (WIFSIGNALED(exited.wait_status)) {
                result->outcome = CRATE_SIGNALED;
                result->signal = WTERMSIG(exited.wait_status);
        } else {
                result->outcome = CRATE_EXITED;
                result->exit_code = WEXITSTATUS(exited.wait_status);
        }

        crate_sample_disk(crate);
        crate_end(crate);
        crate->init.state = CRATE_STATE_ENDED;
        return 0;
}

static const LinkPermit init_permits[] = {
        {INIT_READY, CRATE_STATE_MAKING, sizeof(InitReport), sizeof(InitReport), 0, 1,
         on_init_ready},
        {INIT_FAILED, CRATE_STATE_MAKING, sizeof(ProtoFailure), sizeof(ProtoFailure), 0, 0,
         on_init_failed},
        {INIT_STARTED, CRATE_STATE_READY, sizeof(InitStarted), sizeof(InitStarted), 1, 3,
         on_init_started},
        {INIT_EXITED, CRATE_STATE_READY | CRATE_STATE_RUNNING, sizeof(InitExited),
         sizeof(InitExited), 0, 0, on_init_exited},
};

static void crate_lose(Crate *crate, const char *text) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        if (!crate->result.error.text)
                (void) crate_error_set(&crate->result.error, "init", 0, NULL, NULL, "%s", text);
        crate->result.outcome = CRATE_LOST;
        crate_end(crate);
}

static void crate_on_init(Crate *crate) {
        int r;

        do
                r = link_dispatch(&crate->init, MSG_DONTWAIT);
        while (r == 0 && crate->init.fd >= 0);
        if (r == LINK_E_AGAIN || crate->init.fd < 0)
                return;

        crate_unwatch(crate, &crate->init.fd);
        if (r != LINK_E_EOF) {
                /* The peer is not what it should be. */
                crate_kill_init(crate);
                crate_lose(crate, "the crate's init broke the protocol and was killed");
        } else
                crate_lose(crate, "the crate's init was killed");
}

/* Nothing of the crate runs any more. init's last words may still be in its link, output in its
 * pipes. */
static void crate_on_dead(Crate *crate) {
        crate->dead = true;
        if (crate->init.fd >= 0)
                crate_on_init(crate);
        crate_lose(crate, "the crate's init was killed");
}

/* --- the timer --- */

static bool due(uint64_t *usec, uint64_t now) {
        if (*usec == 0 || now < *usec)
                return false;
        *usec = 0;
        return true;
}

static void crate_on_deadline(Crate *crate) {
        if (crate->state == CRATE_STATE_RUNNING) {
                crate_breach(crate, LIMIT_WALL_TIME, crate_age_usec(crate), true);
                return;
        }
        (void) crate_error_set(&crate->result.error, "make", ETIMEDOUT, NULL,
                               "look whether this host is overloaded",
                               "the crate was not ready after %" PRIu64 " s",
                               (uint64_t) (CRATE_MAKE_USEC / USEC_PER_SEC));
        crate_kill_init(crate);
        crate_abort(crate, CRATE_LOST);
}

static void crate_on_timer(Crate *crate) {
        uint64_t expirations, now = now_usec();

        /* Level-triggered: how often it expired does not matter, only that the fd is quiet again.
         */
        if (read(crate->timer_fd, &expirations, sizeof(expirations)) < 0)
                expirations = 0;
        if (due(&crate->deadline_usec, now))
                crate_on_deadline(crate);
        if (due(&crate->sample_usec, now)) {
                crate_sample_disk(crate);
                if (crate->state == CRATE_STATE_RUNNING)
                        crate->sample_usec = now + crate->sample_interval_usec;
        }
        if (due(&crate->ladder_usec, now)) {
                if (crate->ladder == LADDER_TERM)
                        crate_end_job(crate, false);
                else
                        crate_kill_init(crate);
        }
        if (due(&crate->drain_usec, now)) {
                bool by_force = crate->cancelled || crate->result.limit != _LIMIT_INVALID;

                /* A paused stream waits for its owner, however long. But the end of a job that was
                 * ended must not depend on a reader that has stopped. */
                for (size_t i = 0; i < 2; i++)
                        if (!crate->paused[i] || by_force)
                                crate_unwatch(crate, &crate->stream_fds[i]);
                crate->dead = true;
                if (crate->stream_fds[0] >= 0 || crate->stream_fds[1] >= 0)
                        crate->drain_usec = now + CRATE_DRAIN_USEC;
        }
}

/* --- dispatch --- */

static void crate_on_event(Crate *crate, CrateSource source) {
        switch (source) {
        case SOURCE_INIT:
                crate_on_init(crate);
                break;
        case SOURCE_STDOUT:
        case SOURCE_STDERR:
                crate_read_stream(crate, (CrateStream) (source - SOURCE_STDOUT));
                break;
        case SOURCE_STDIN:
                if (crate->stdin_fd >= 0)
                        crate_write_stdin(crate);
                break;
        case SOURCE_TIMER:
                crate_on_timer(crate);
                break;
        case SOURCE_PID:
                (void) epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, crate->pid_fd, NULL);
                crate_on_dead(crate);
                break;
        }
}

/*
 * What ends every entry from outside: the timer is set anew, and if the result stands the owner
 * hears of it. The owner may free the crate in that call, so nothing is touched after it.
 */
static void crate_settle(Crate *crate) {
        crate_finish_if_drained(crate);
        if (crate->state < CRATE_STATE_DONE)
                (void) crate_arm_timer(crate);
        if (crate->ended) {
                crate->ended = false;
                crate->callbacks.on_end(crate, crate->userdata);
        }
}

int crate_dispatch(Crate *crate) {
        struct epoll_event events[8];
        int n;

        n = epoll_wait(crate->epoll_fd, events, ELEMENTSOF(events), 0);
        if (n < 0)
                return errno == EINTR ? 0 : error_origin(negative_errno());

        for (int i = 0; i < n; i++)
                crate_on_event(crate, (CrateSource) events[i].data.u32);
        /* The end of the job often comes with the last output: what is there is read now. */
        if (crate->state == CRATE_STATE_ENDED)
                for (int i = 0; i < 2; i++)
                        crate_read_stream(crate, (CrateStream) i);
        crate_settle(crate);
        return 0;
}

/* --- what the launcher says --- */

void crate_on_made(Crate *crate, int pid_fd) {
        crate->pid_fd = pid_fd;
        if (crate_watch(crate, pid_fd, SOURCE_PID, EPOLLIN) < 0)
                crate->ladder = LADDER_INIT;
        if (crate->ladder == LADDER_INIT)
                (void) pidfd_send_signal(pid_fd, SIGKILL, NULL, 0);
}

void crate_on_failed(Crate *crate, const ProtoFailure *failure) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate_error_done(&crate->result.error);
        (void) crate_explain_failure(failure, &crate->result.error);
        crate_abort(crate, CRATE_LOST);
        crate_settle(crate);
}

void crate_on_gone(Crate *crate) {
        crate_on_dead(crate);
        crate_settle(crate);
}

void crate_on_launcher_lost(Crate *crate, const CrateError *error) {
        crate->launcher = NULL;
        /* One that was made does not need its launcher: its pidfd tells of its end. */
        if (crate->pid_fd >= 0)
                return;
        if (crate->state < CRATE_STATE_ENDED && !crate->result.error.text)
                (void) crate_error_set(&crate->result.error, error->step, error->error, error->path,
                                       error->remedy, "%s", error->text ?: "the launcher ended");
        crate_abort(crate, CRATE_LOST);
        crate->dead = true;
        crate_settle(crate);
}

/* --- making and freeing --- */

static void crate_name_job(CrateResult *result) {
        static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
        unsigned char random[16];
        char *p = result->job;

        if (getrandom(random, sizeof(random), 0) != sizeof(random))
                memset(random, 0, sizeof(random));
        *p++ = 'j';
        *p++ = '-';
        for (size_t i = 0; i < sizeof(random); i++)
                *p++ = digits[random[i] % 32];
        *p = 0;
}

/*
 * The shell text goes in a memfd that becomes fd 3 of the shell. Its first words close that fd
 * again: the shell reads the text through a descriptor of its own, and nothing that it starts
 * inherits one.
 */
static int crate_make_script(Crate *crate, const CrateJob *job, StrV *argv) {
        static const char prefix[] = "exec 3<&-; ";
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&text, prefix);
        if (r == 0)
                r = strbuf_append(&text, job->command, job->command_size);
        if (r == 0)
                r = memfd_new_sealed("command", text.data, text.size, &crate->script_fd);
        if (r == 0)
                r = strv_append(argv, "/bin/sh");
        if (r == 0)
                r = strv_append(argv, "/dev/fd/3");
        return r < 0 ? error_trace(r) : 0;
}

static int crate_make_job(Crate *crate, const CrateJob *job) {
        char *no_env[] = {NULL};
        int r;

        r = job->command ? crate_make_script(crate, job, &crate->job.argv)
                         : strv_copy(&crate->job.argv, &job->argv);
        if (r < 0)
                return error_trace(r);
        crate->job.cwd = strdup(job->cwd ?: "/workspace");
        if (!crate->job.cwd)
                return error_origin(-ENOMEM);
        return job_wire_to_memfd(crate->job.argv.items, job->env.items ?: no_env, crate->job.cwd,
                                 &crate->job_fd);
}

/*
 * A user's groups cannot be dropped without privilege: what they may read, the crate may read as
 * far as its mounts show it. The record says so.
 */
static int crate_note_groups(Crate *crate) {
        _cleanup_(strbuf_done) StrBuf list = STRBUF_NULL;
        gid_t groups[64];
        int n, r;

        n = geteuid() != 0 ? getgroups(ELEMENTSOF(groups), groups) : 0;
        for (int i = 0; i < n; i++)
                if (groups[i] != getegid()) {
                        r = strbuf_appendf(&list, "%s%u", list.size > 0 ? ", " : "", groups[i]);
                        if (r < 0)
                                return error_trace(r);
                }
        if (list.size == 0)
                return 0;
        return crate_result_add_evidence(
                &crate->result, 0, "groups",
                "the crate keeps the user's supplementary groups, which only root could drop: %s",
                list.data);
}

static int crate_open(Crate *crate) {
        int r;

        crate->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (crate->epoll_fd < 0)
                return error_origin(negative_errno());
        crate->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (crate->timer_fd < 0)
                return error_origin(negative_errno());
        r = crate_watch(crate, crate->timer_fd, SOURCE_TIMER, EPOLLIN);
        if (r < 0)
                return error_trace(r);
        crate->deadline_usec = now_usec() + CRATE_MAKE_USEC;
        return crate_arm_timer(crate);
}

/* Asks the launcher; theirs is init's end of the link. */
static int crate_request(Crate *crate, const CrateSpec *spec, CrateError *ret_error) {
        _cleanup_(fd_closep) int plan_fd = -EBADF, theirs = -EBADF;
        int pair[2], r;

        r = plan_to_memfd(spec->plan, &plan_fd);
        if (r < 0)
                return error_trace(r);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_origin(negative_errno());
        theirs = pair[1];
        crate->init = (Link){
                .fd = pair[0],
                .name = "init",
                .permits = init_permits,
                .n_permits = ELEMENTSOF(init_permits),
                .state = CRATE_STATE_MAKING,
                .userdata = crate,
        };
        if (fcntl(crate->init.fd, F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        r = crate_watch(crate, crate->init.fd, SOURCE_INIT, EPOLLIN);
        if (r < 0)
                return error_trace(r);
        return launcher_make(crate->launcher, crate, theirs, plan_fd,
                             crate->cgroup ? cgroup_crate_init_fd(crate->cgroup) : -EBADF,
                             &crate->id, ret_error);
}

/* Resources that ran out on our side, as a sentence. */
static int crate_new_failed(int error, CrateError *ret_error) {
        ProtoFailure failure = {.error = -error, .step = "job"};

        if (error == -E2BIG)
                return crate_error_set(
                        ret_error, "exec", E2BIG, NULL, "pass large data by stdin or a file",
                        "arguments and environment are too large together (limit %u bytes)",
                        JOB_WIRE_SIZE_MAX);
        return crate_explain_failure(&failure, ret_error);
}

int crate_new(Launcher *launcher, const CrateSpec *spec, const CrateJob *job,
              const CrateCallbacks *callbacks, void *userdata, Crate **ret_crate,
              CrateError *ret_error) {
        _cleanup_(crate_freep) Crate *crate = NULL;
        int r;

        crate = calloc(1, sizeof(*crate));
        if (!crate)
                return error_origin(-ENOMEM);
        *crate = (Crate){
                .launcher = launcher,
                .state = CRATE_STATE_MAKING,
                .callbacks = *callbacks,
                .userdata = userdata,
                .epoll_fd = -EBADF,
                .timer_fd = -EBADF,
                .init = LINK_NULL,
                .pid_fd = -EBADF,
                .private_fd = -EBADF,
                .stream_fds = {-EBADF, -EBADF},
                .stdin_fd = -EBADF,
                .job_fd = -EBADF,
                .script_fd = -EBADF,
        };
        crate_result_init(&crate->result);
        crate_name_job(&crate->result);
        memcpy(crate->result.plan_digest, spec->plan_digest, PLAN_DIGEST_SIZE);
        crate->result.workspace_rw = spec->workspace_rw;
        crate->cgroup = spec->cgroup;
        crate->result.template = spec->template ? strdup(spec->template) : NULL;
        capture_init(&crate->result.out, job->capture);
        capture_init(&crate->result.err, job->capture);

        r = crate_note_groups(crate);
        if (r == 0)
                r = crate_copy_job(crate, job);
        if (r == 0)
                r = crate_make_job(crate, job);
        if (r == 0)
                r = crate_open(crate);
        if (r == 0)
                r = crate_request(crate, spec, ret_error);
        if (r < 0)
                (void) crate_new_failed(r, ret_error);
        if (r != 0)
                return LAUNCHER_E_FAILED;

        crate_init_limits(crate);
        *ret_crate = TAKE_PTR(crate);
        return 0;
}

Crate *crate_free(Crate *crate) {
        if (!crate)
                return NULL;

        if (crate->state < CRATE_STATE_ENDED && crate->pid_fd >= 0)
                (void) pidfd_send_signal(crate->pid_fd, SIGKILL, NULL, 0);
        if (crate->launcher && crate->id != 0)
                launcher_forget(crate->launcher, crate->id);
        crate_release(crate);
        crate->pid_fd = fd_close(crate->pid_fd);
        crate->timer_fd = fd_close(crate->timer_fd);
        crate->epoll_fd = fd_close(crate->epoll_fd);
        crate_job_done(&crate->job);
        crate_result_done(&crate->result);
        free(crate);
        return NULL;
}

void crate_wait_dead(const Crate *crate, int timeout_msec) {
        struct pollfd poll_fd = {.fd = crate->pid_fd, .events = POLLIN};

        if (crate->pid_fd >= 0)
                (void) poll(&poll_fd, 1, timeout_msec);
}

int crate_get_fd(const Crate *crate) {
        return crate->epoll_fd;
}

int crate_signal(Crate *crate, int number) {
        if (crate->state != CRATE_STATE_RUNNING)
                return error_origin(-ESRCH);
        return error_fold(crate_send_signal(crate, number));
}

void crate_cancel(Crate *crate, int number, bool grace) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate->cancelled = true;
        crate->cancel_signal = number;
        if (crate->state == CRATE_STATE_MAKING || crate->state == CRATE_STATE_READY)
                crate_kill_init(crate);
        else
                crate_end_job(crate, grace);
        (void) crate_arm_timer(crate);
}

const CrateResult *crate_get_result(const Crate *crate) {
        return &crate->result;
}
