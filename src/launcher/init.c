/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/init.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/time-util.h"
#include "ipc/link.h"
#include "launcher/init-tree.h"
#include "launcher/job.h"
#include "launcher/net-counters.h"
#include "launcher/seal.h"
#include "launcher/verify.h"

/* Where init's own fds lie, above those of a job. */
#define INIT_FD_FIRST 20
#define INIT_FD_END 23

enum {
        INIT_STATE_READY = 1U << 0,
        INIT_STATE_RUNNING = 1U << 1,
};

typedef struct Init {
        Link link;
        int signal_fd;
        Job job;
        bool has_listens;
        bool done;
        InitExited exited; /* what is known of the job's end, to be sent with it */
} Init;

static _noreturn_ void init_fail(int control_fd, const ProtoFailure *failure) {
        (void) frame_send(control_fd, INIT_FAILED, 0, failure, sizeof(*failure), NULL, 0);
        _exit(EXIT_FAILURE);
}

/* Everything that the launcher had open is closed, but for what init keeps, each at its own number.
 */
static void init_close_fds(InitContext *context) {
        int *keep[] = {&context->control_fd, &context->setup_fd, &context->subuid_fd};

        /* First out of the way of all the numbers, so that none is overwritten before it is moved.
         */
        for (size_t i = 0; i < ELEMENTSOF(keep); i++)
                if (*keep[i] >= 0) {
                        *keep[i] = fcntl(*keep[i], F_DUPFD_CLOEXEC, INIT_FD_END);
                        if (*keep[i] < 0)
                                _exit(EXIT_FAILURE);
                }
        if (close_range(0, INIT_FD_END - 1, 0) < 0)
                _exit(EXIT_FAILURE);
        for (size_t i = 0; i < ELEMENTSOF(keep); i++)
                if (*keep[i] >= 0) {
                        *keep[i] = dup3(*keep[i], INIT_FD_FIRST + (int) i, O_CLOEXEC);
                        if (*keep[i] < 0)
                                _exit(EXIT_FAILURE);
                }
        if (close_range(INIT_FD_END, ~0U, 0) < 0)
                _exit(EXIT_FAILURE);
}

/* Waits for that byte. Anything else, end of file above all, means abort. */
static void setup_expect(int fd, char expected) {
        char byte;
        ssize_t n;

        do
                n = read(fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1 || byte != expected)
                _exit(EXIT_FAILURE);
}

/* The launcher has ended: its descriptors are closed after its memory is given up. */
static void setup_expect_end(int fd) {
        char byte;
        ssize_t n;

        do
                n = read(fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n != 0)
                _exit(EXIT_FAILURE);
}

/* The inner ids. Capabilities stay, since the former id is not root of this namespace. Makes init
 * not dumpable on the way. */
static int init_take_ids(ProtoFailure *ret_failure) {
        if (syscall(SYS_setresgid, INIT_GID, INIT_GID, INIT_GID) < 0)
                return failure_here(ret_failure, "setresgid", "");
        if (syscall(SYS_setresuid, INIT_UID, INIT_UID, INIT_UID) < 0)
                return failure_here(ret_failure, "setresuid", "");
        return 0;
}

/* fds 0 to 2 exist, as everywhere, but lead nowhere. */
static int init_null_stdio(ProtoFailure *ret_failure) {
        int fd;

        do {
                fd = open("/dev/null", O_RDWR);
                if (fd < 0)
                        return failure_here(ret_failure, "open-null", "/dev/null");
        } while (fd < 2);
        return 0;
}

static int init_late_stage(const InitContext *context, int private_fd, ProtoFailure *ret_failure) {
        if (!context->has_late)
                return 0;
        if (write(context->setup_fd, &(char){SETUP_TREE}, 1) != 1)
                return failure_here(ret_failure, "setup-channel", "");
        setup_expect(context->setup_fd, SETUP_LATE_DONE);
        return init_late(&context->plan, private_fd, ret_failure);
}

/* What the host is shown of the crate: its processes, and its private files, if it has any. */
typedef struct InitView {
        int fds[2];
        size_t n_fds;
} InitView;

static int init_open_view(int private_fd, InitView *ret_view, ProtoFailure *ret_failure) {
        InitView view = {.fds = {open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)}, .n_fds = 1};

        if (view.fds[0] < 0)
                return failure_here(ret_failure, "open-proc", "/proc");
        if (private_fd >= 0)
                view.fds[view.n_fds++] = private_fd;
        *ret_view = view;
        return 0;
}

static int init_set_up(InitContext *context, InitView *ret_view, InitReport *ret_report,
                       ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int private_fd = -EBADF;
        uint32_t abi;
        int r;

        r = init_take_ids(ret_failure);
        if (r < 0)
                return error_trace(r);
        r = init_null_stdio(ret_failure);
        if (r < 0)
                return error_trace(r);
        r = init_tree(&context->plan, &private_fd, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = init_late_stage(context, private_fd, ret_failure);
        if (r < 0)
                return error_trace(r);
        (void) umask(0022);
        r = seal(&context->plan, context->landlock_abi, !context->has_cgroup, &abi, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = verify(&context->plan, context->has_cgroup, ret_report, ret_failure);
        if (r < 0)
                return error_trace(r);

        r = init_open_view(private_fd, ret_view, ret_failure);
        if (r < 0)
                return error_trace(r);

        (void) TAKE_FD(private_fd);
        ret_report->landlock_abi = abi;
        return 0;
}

static void init_send_exited(Init *init) {
        InitExited *exited = &init->exited;
        struct rusage usage = {};

        (void) getrusage(RUSAGE_CHILDREN, &usage);
        exited->utime_usec =
                (uint64_t) usage.ru_utime.tv_sec * USEC_PER_SEC + (uint64_t) usage.ru_utime.tv_usec;
        exited->stime_usec =
                (uint64_t) usage.ru_stime.tv_sec * USEC_PER_SEC + (uint64_t) usage.ru_stime.tv_usec;
        exited->max_rss_bytes = (uint64_t) usage.ru_maxrss * 1024U;
        (void) link_send(&init->link, INIT_EXITED, 0, exited, sizeof(*exited), NULL, 0);
        init->done = true;
}

static int init_on_job(void *userdata, Frame *frame) {
        Init *init = userdata;
        int r;

        r = job_start(&init->job, init->link.fd, frame, &init->exited);
        if (r == JOB_E_EXEC_FAILED)
                init_send_exited(init);
        init->link.state = INIT_STATE_RUNNING;
        return 0;
}

static int init_on_signal(void *userdata, Frame *frame) {
        Init *init = userdata;
        InitSignal message;

        memcpy(&message, frame->payload, sizeof(message));
        /* The group leads: the job's main process is the leader of a session of its own. */
        if (init->job.pid > 0 && message.signal > 0 && message.signal < NSIG)
                (void) kill(-init->job.pid, message.signal);
        return 0;
}

/*
 * What it forks from now on inherits that. Init is the one that buries all who lose their parent:
 * it leaves the session of its launcher, for where sessions share the processors alike, the
 * launcher would pay for it.
 */
static int init_on_yield(void *userdata, Frame *frame) {
        Init *init = userdata;
        InitYield message;

        memcpy(&message, frame->payload, sizeof(message));
        if (message.n_groups > ELEMENTSOF(message.groups))
                return -EBADMSG;
        (void) setsid();
        (void) setpriority(PRIO_PROCESS, 0, message.nice);
        if (init->job.pid > 0)
                (void) setpriority(PRIO_PGRP, (id_t) init->job.pid, message.nice);
        for (uint32_t i = 0; i < message.n_groups; i++)
                if (message.groups[i] > 1)
                        (void) setpriority(PRIO_PGRP, (id_t) message.groups[i], message.nice);
        return 0;
}

static const LinkPermit init_permits[] = {
        {INIT_JOB, INIT_STATE_READY, sizeof(InitJob), sizeof(InitJob), 1, 3, init_on_job},
        {INIT_SIGNAL, INIT_STATE_RUNNING, sizeof(InitSignal), sizeof(InitSignal), 0, 0,
         init_on_signal},
        {INIT_YIELD, INIT_STATE_RUNNING, sizeof(InitYield), sizeof(InitYield), 0, 0, init_on_yield},
};

/* What a process that has ended called itself. */
static void init_read_name(pid_t pid, char ret_name[PROTO_NAME_MAX]) {
        char path[32];
        ssize_t n;
        int fd;

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, ret_name, PROTO_NAME_MAX - 1) : 0;
        ret_name[n > 0 ? n : 0] = 0;
        ret_name[strcspn(ret_name, "\n")] = 0;
        (void) fd_close(fd);
}

/* Waits for a process that has ended. Its name is there until then only. */
static pid_t init_wait(Init *init, int *ret_status, int options) {
        char name[PROTO_NAME_MAX] = "";
        struct rusage usage;
        siginfo_t info = {};
        uint64_t rss;
        pid_t pid;

        if (init->job.has_cgroup && waitid(P_ALL, 0, &info, options | WEXITED | WNOWAIT) == 0 &&
            info.si_pid > 0 && info.si_code == CLD_KILLED && info.si_status == SIGKILL)
                init_read_name(info.si_pid, name);
        pid = wait4(name[0] ? info.si_pid : -1, ret_status, options, &usage);
        rss = pid > 0 ? (uint64_t) usage.ru_maxrss * 1024U : 0;
        if (name[0] && rss > init->exited.killed_rss_bytes) {
                init->exited.killed_rss_bytes = rss;
                init->exited.killed_pid = (uint32_t) pid;
                memcpy(init->exited.killed_name, name, sizeof(name));
        }
        return pid;
}

/* A command that did well has missed nothing, so it need not wait for the count. */
static void init_count_net(Init *init, bool failed) {
        InitExited *exited = &init->exited;
        NetCounters counters = {};

        if (init->has_listens || failed)
                net_counters_read(&counters);
        if (init->has_listens) {
                exited->net_refused = counters.refused;
                exited->net_unrouted = counters.unrouted;
        } else
                exited->net_missed = counters.unrouted + counters.unheard;
}

/* The main process has ended: everything else in the crate goes with it, so that no stream stays
 * open. */
static void init_finish(Init *init, int wait_status) {
        InitExited *exited = &init->exited;
        int status;
        pid_t pid;

        exited->what = INIT_EXITED_EXITED;
        exited->wait_status = wait_status;
        exited->wall_usec = now_usec() - init->job.start_usec;
        exited->n_processes = 1;
        (void) kill(-1, SIGKILL);
        do {
                pid = init_wait(init, &status, __WALL);
                exited->n_processes += pid > 0;
        } while (pid > 0 || (pid < 0 && errno == EINTR));
        init->job.pid = 0;
        init_count_net(init, wait_status != 0);
        init_send_exited(init);
}

static void init_reap(Init *init) {
        struct signalfd_siginfo info;
        int status;
        pid_t pid;

        /* What it says does not matter, only that there is something to reap. */
        if (read(init->signal_fd, &info, sizeof(info)) < 0 && errno != EAGAIN)
                init->done = true;
        while ((pid = init_wait(init, &status, WNOHANG | __WALL)) > 0)
                if (pid == init->job.pid) {
                        init_finish(init, status);
                        return;
                }
}

static void init_loop(Init *init) {
        while (!init->done) {
                struct pollfd fds[] = {
                        {.fd = init->link.fd, .events = POLLIN},
                        {.fd = init->signal_fd, .events = POLLIN},
                };

                if (poll(fds, ELEMENTSOF(fds), -1) < 0 && errno != EINTR)
                        return;
                /* The host is gone, or is not what it should be: the crate ends, and with it
                 * everything in it. */
                if (fds[0].revents != 0 && link_dispatch(&init->link, MSG_DONTWAIT) != 0)
                        return;
                if (fds[1].revents != 0 && !init->done)
                        init_reap(init);
        }
}

/* Once nobody is left in a scope the service manager removes it, and with it what the host has yet
 * to read. So the last one waits until the host has read it, which it says by closing its side, or
 * has gone; a host that was stopped finds all as it was. */
static void init_wait_for_host(const Init *init) {
        struct pollfd fd = {.fd = init->link.fd, .events = POLLRDHUP};

        while (poll(&fd, 1, -1) < 0 && errno == EINTR)
                ;
}

static int init_open_signals(ProtoFailure *ret_failure) {
        sigset_t all;
        int fd;

        (void) sigfillset(&all);
        if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
                return failure_here(ret_failure, "signals", "");
        (void) sigemptyset(&all);
        (void) sigaddset(&all, SIGCHLD);
        fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? failure_here(ret_failure, "signals", "") : fd;
}

_noreturn_ void init_run(InitContext *context) {
        Init init = {
                .link = {.name = "host",
                         .permits = init_permits,
                         .n_permits = ELEMENTSOF(init_permits),
                         .state = INIT_STATE_READY},
        };
        ProtoFailure failure;
        InitReport report;
        InitView view;

        init_close_fds(context);
        setup_expect(context->setup_fd, SETUP_GO);
        init.link.fd = context->control_fd;
        init.link.userdata = &init;
        init.has_listens = context->has_listens;
        init.job.is_closed = !context->has_cgroup;
        init.signal_fd = init_open_signals(&failure);
        if (init.signal_fd < 0 || init_set_up(context, &view, &report, &failure) < 0)
                init_fail(context->control_fd, &failure);

        if (context->is_heir)
                setup_expect_end(context->setup_fd);
        (void) close(context->setup_fd);
        if (frame_send(context->control_fd, INIT_READY, 0, &report, sizeof(report), view.fds,
                       view.n_fds) != 0)
                _exit(EXIT_FAILURE);
        for (size_t i = 0; i < view.n_fds; i++)
                (void) close(view.fds[i]);

        init_loop(&init);
        if (init.done && context->has_cgroup)
                init_wait_for_host(&init);
        _exit(EXIT_SUCCESS);
}
