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
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "basic/error.h"
#include "crate/crate-state.h"
#include "plan/job-wire.h"

/* To be ready, on a host that is short of everything. */
#define CRATE_MAKE_USEC (30 * USEC_PER_SEC)

/* --- the epoll and the timer --- */

int crate_watch(Crate *crate, int fd, CrateSource source, uint32_t events) {
        struct epoll_event event = {.events = events, .data.u32 = (uint32_t) source};

        return epoll_ctl(crate->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0
                       ? error_origin(negative_errno())
                       : 0;
}

/* Out of the epoll before it is closed: a copy of the fd elsewhere would keep it in. */
void crate_unwatch(Crate *crate, int *fd) {
        if (*fd < 0)
                return;
        (void) epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
        *fd = fd_close(*fd);
}

static uint64_t nearest(uint64_t a, uint64_t b) {
        return a == 0 ? b : b == 0 || a < b ? a : b;
}

int crate_arm_timer(Crate *crate) {
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

/*
 * What is in the pipes is read, and they are closed: a pipe holds no more than is read here at
 * once. A paused stream waits for its owner, however long; but the end of a job that was ended must
 * not depend on a reader that has stopped.
 */
static void crate_on_drained(Crate *crate, uint64_t now) {
        bool by_force = crate->cancelled || crate->result.limit.name != _LIMIT_INVALID;

        crate->dead = true;
        crate_release_egress(crate);
        for (size_t i = 0; i < 2; i++) {
                crate_read_stream(crate, (CrateStream) i);
                if (!crate->paused[i] || by_force)
                        crate_unwatch(crate, &crate->stream_fds[i]);
        }
        if (crate->stream_fds[0] >= 0 || crate->stream_fds[1] >= 0)
                crate->drain_usec = now + CRATE_DRAIN_USEC;
}

static void crate_on_timer(Crate *crate) {
        uint64_t expirations, now = now_usec();

        /* Level-triggered: how often it expired does not matter, only that the fd is quiet again.
         */
        if (read(crate->timer_fd, &expirations, sizeof(expirations)) < 0)
                expirations = 0;
        if (due(&crate->deadline_usec, now))
                crate_on_deadline(crate);
        if (due(&crate->sample_usec, now))
                crate_look(crate);
        if (due(&crate->ladder_usec, now)) {
                if (crate->ladder == LADDER_TERM)
                        crate_end_job(crate, false);
                else if (crate->ladder == LADDER_KILL)
                        crate_kill_init(crate);
                else
                        crate_give_up(crate);
        }
        if (due(&crate->drain_usec, now))
                crate_on_drained(crate, now);
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
        case SOURCE_CGROUP:
                crate_check_cgroup(crate);
                break;
        case SOURCE_MEASURED:
                crate_on_measured(crate);
                break;
        }
}

/*
 * What ends every entry from outside: the timer is set anew, and if the result stands the owner
 * hears of it. The owner may free the crate in that call, so nothing is touched after it.
 */
void crate_settle(Crate *crate) {
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
        crate_begin_egress(crate);
        crate_settle(crate);
}

void crate_on_failed(Crate *crate, const ProtoFailure *failure) {
        crate_fail(crate, failure);
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
        int ours = -EBADF, r;

        r = plan_to_memfd(spec->plan, &plan_fd);
        if (r == 0)
                r = link_pair(&ours, &theirs);
        if (r < 0)
                return error_trace(r);
        crate->init = (Link){
                .fd = ours,
                .name = "init",
                .permits = crate_init_permits,
                .n_permits = crate_n_init_permits,
                .state = CRATE_STATE_MAKING,
                .userdata = crate,
        };
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

static int crate_note_limits(Crate *crate, const StrV *notes) {
        int r = 0;

        for (size_t i = 0; r == 0 && notes && i < notes->n_items; i++)
                r = crate_result_add_evidence(&crate->result, 0, "limits", "%s", notes->items[i]);
        return r < 0 ? error_trace(r) : 0;
}

static int crate_take_means(Crate *crate, const LimitsMeans *means, const Limits *limits,
                            CrateError *ret_error) {
        const LimitsHost host = {.can_sample = true};

        if (means) {
                crate->means = *means;
                return 0;
        }
        return limits_means_decide(&host, limits, &crate->means, NULL, ret_error);
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
                .proc_fd = -EBADF,
                .private_fd = -EBADF,
                .stream_fds = {-EBADF, -EBADF},
                .stdin_fd = -EBADF,
                .job_fd = -EBADF,
                .script_fd = -EBADF,
        };
        crate_result_init(&crate->result);
        r = crate_take_egress(crate, spec);
        if (r < 0)
                return error_trace(r);
        memcpy(crate->result.plan_digest, spec->plan_digest, PLAN_DIGEST_SIZE);
        crate->result.workspace_rw = spec->workspace_rw;
        crate->cgroup = spec->cgroup;
        crate->result.template = spec->template ? strdup(spec->template) : NULL;
        crate->result.tenant = spec->tenant ? strdup(spec->tenant) : NULL;
        capture_init(&crate->result.out, job->capture);
        capture_init(&crate->result.err, job->capture);

        r = crate_take_means(crate, spec->means, &job->limits, ret_error);
        if (r > 0)
                return LAUNCHER_E_FAILED;
        if (r == 0)
                r = crate_note_limits(crate, spec->notes);
        if (r == 0)
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
        sampler_done(&crate->looking.sampler);
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
