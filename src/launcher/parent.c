/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "ipc/link.h"
#include "launcher/outer.h"
#include "launcher/own-cgroup.h"

#define LAUNCHER_LINK_FD 3
/* How long launchers may take to end once their links have. */
#define PARENT_END_MSEC 1000
/* One for each template, and those that were replaced and still have crates. */
#define PARENT_LAUNCHERS_MAX 256U

enum {
        PARENT_STATE_SETUP = 1U << 0,
        PARENT_STATE_READY = 1U << 1,
};

typedef struct Parent {
        Link link;
        int signal_fd;
        int listen_fd;
        const ParentConfig *config;
        LauncherContext context;
        pid_t launchers[PARENT_LAUNCHERS_MAX];
        size_t n_launchers;
} Parent;

static int parent_send_ready(Parent *parent, int jobs_fd) {
        ParentReady ready = {
                .pid = (uint32_t) getpid(),
                .mode = parent->context.mode,
                .subuid_base = parent->context.subuid_base,
                .subuid_count = parent->context.subuid_count,
        };

        return error_fold(link_send(&parent->link, PARENT_READY, 0, &ready, sizeof(ready), &jobs_fd,
                                    jobs_fd >= 0 ? 1 : 0));
}

/* The service's own subtree: launcher/ is entered, jobs/ given away. A host without cgroup2 has
 * neither, and that is the broker's to judge. */
static int parent_make_cgroups(Parent *parent, int *ret_jobs_fd, ProtoFailure *ret_failure) {
        _cleanup_(own_cgroup_done) OwnCgroup own = OWN_CGROUP_NULL;
        struct stat st;
        int r;

        r = own_cgroup_make(&own, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = outer_enter_cgroup(own.launcher_fd, ret_failure);
        if (r < 0 || own.jobs_fd < 0)
                return error_trace(r);
        r = own_cgroup_give(&own, parent->config->uid, parent->config->gid, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (fstat(own.jobs_fd, &st) < 0)
                return failure_here(ret_failure, "cgroup-make", "jobs");
        parent->context.jobs_device = st.st_dev;
        parent->context.jobs_inode = st.st_ino;
        *ret_jobs_fd = TAKE_FD(own.jobs_fd);
        return 0;
}

static int parent_begin(Parent *parent, Frame *frame, int *ret_jobs_fd, ProtoFailure *ret_failure) {
        bool is_root = geteuid() == 0;
        int r;

        /* As a plain user one needs the user namespace for a cgroup namespace; root must make the
         * cgroups before it gives up the right to give them away. */
        if (parent->config->is_service) {
                if (frame->n_fds > 0)
                        return failure_set(ret_failure, EBADMSG, "begin", "");
                r = parent_make_cgroups(parent, ret_jobs_fd, ret_failure);
                if (r < 0)
                        return error_trace(r);
        }
        r = outer_enter(&parent->context.mode, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (!parent->config->is_service) {
                r = outer_enter_cgroup(frame->n_fds > 0 ? frame->fds[0] : -EBADF, ret_failure);
                if (r < 0)
                        return error_trace(r);
        }
        if (is_root != (parent->context.mode == LAUNCHER_MODE_ROOT))
                return failure_set(ret_failure, EINVAL, "begin", "");
        parent->context.has_entered = true;
        return 0;
}

static int parent_on_begin(void *userdata, Frame *frame) {
        _cleanup_(fd_closep) int jobs_fd = -EBADF;
        Parent *parent = userdata;
        ProtoFailure failure;
        int r;

        r = parent_begin(parent, frame, &jobs_fd, &failure);
        if (r < 0) {
                (void) link_send(&parent->link, PARENT_FAILED, 0, &failure, sizeof(failure), NULL,
                                 0);
                return error_trace(r);
        }
        parent->link.state = PARENT_STATE_READY;
        return error_trace(parent_send_ready(parent, jobs_fd));
}

/* In the launcher to be: nothing of the parent's stays open. */
static _noreturn_ void become_launcher(const Parent *parent, int link_fd) {
        if (link_fd != LAUNCHER_LINK_FD && dup2(link_fd, LAUNCHER_LINK_FD) < 0)
                _exit(EXIT_FAILURE);
        if (fcntl(LAUNCHER_LINK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
            close_range(LAUNCHER_LINK_FD + 1, ~0U, 0) < 0)
                _exit(EXIT_FAILURE);
        _exit(launcher_run_in(&parent->context, LAUNCHER_LINK_FD) < 0 ? EXIT_FAILURE
                                                                      : EXIT_SUCCESS);
}

static bool is_link(int fd) {
        int domain = 0, type = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

static int parent_on_launcher(void *userdata, Frame *frame) {
        Parent *parent = userdata;
        ProtoFailure failure;
        pid_t pid;

        if (!is_link(frame->fds[0]))
                return error_origin(-EBADMSG);
        errno = EAGAIN;
        pid = parent->n_launchers == PARENT_LAUNCHERS_MAX ? -1 : process_fork();
        if (pid == 0)
                become_launcher(parent, frame->fds[0]);
        if (pid > 0) {
                parent->launchers[parent->n_launchers++] = pid;
                return 0;
        }
        /* Told where the launcher itself would have told it. */
        (void) failure_here(&failure, "fork-launcher", "");
        (void) frame_send(frame->fds[0], LAUNCHER_FAILED, 0, &failure, sizeof(failure), NULL, 0);
        return 0;
}

static const LinkPermit parent_permits[] = {
        {PARENT_BEGIN, PARENT_STATE_SETUP, 0, 0, 0, 1, parent_on_begin},
        {PARENT_LAUNCHER, PARENT_STATE_READY, 0, 0, 1, 1, parent_on_launcher},
};

static void parent_reap(Parent *parent) {
        struct signalfd_siginfo info;
        pid_t pid;

        while (read(parent->signal_fd, &info, sizeof(info)) > 0)
                ;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
                for (size_t i = 0; i < parent->n_launchers; i++)
                        if (parent->launchers[i] == pid) {
                                parent->launchers[i] = parent->launchers[--parent->n_launchers];
                                break;
                        }
}

/* One broker at a time. Whoever else comes sees the end of its connection. */
static void parent_refuse(const Parent *parent) {
        (void) fd_close(accept4(parent->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

static int parent_loop(Parent *parent) {
        for (;;) {
                struct pollfd polls[] = {
                        {.fd = parent->link.fd, .events = POLLIN},
                        {.fd = parent->signal_fd, .events = POLLIN},
                        {.fd = parent->listen_fd, .events = POLLIN},
                };
                int r;

                if (poll(polls, ELEMENTSOF(polls), -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        return error_origin(negative_errno());
                }
                if (polls[1].revents)
                        parent_reap(parent);
                if (polls[0].revents) {
                        r = link_dispatch(&parent->link, MSG_DONTWAIT);
                        if (r == LINK_E_EOF)
                                return 0;
                        if (r != 0 && r != LINK_E_AGAIN)
                                return error_fold(r);
                } else if (polls[2].revents)
                        parent_refuse(parent);
        }
}

/* Launchers end when their links do, which the host has closed as well. */
static void parent_done(Parent *parent) {
        struct pollfd poll_fd = {.fd = parent->signal_fd, .events = POLLIN};

        link_done(&parent->link);
        parent_reap(parent);
        while (parent->n_launchers > 0 && poll(&poll_fd, 1, PARENT_END_MSEC) > 0)
                parent_reap(parent);
        for (size_t i = 0; i < parent->n_launchers; i++) {
                (void) kill(parent->launchers[i], SIGKILL);
                (void) waitpid(parent->launchers[i], NULL, 0);
        }
        (void) fd_close(parent->signal_fd);
}

/* SIGCHLD is read from a descriptor; launchers reset all signals themselves. */
static int open_signals(int *ret_fd) {
        sigset_t set;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
                return error_origin(negative_errno());
        *ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return *ret_fd < 0 ? error_origin(negative_errno()) : 0;
}

int parent_run(const ParentConfig *config, int link_fd) {
        Parent parent = {
                .link = {.fd = link_fd,
                         .name = "host",
                         .permits = parent_permits,
                         .n_permits = ELEMENTSOF(parent_permits),
                         .state = PARENT_STATE_SETUP},
                .signal_fd = -EBADF,
                .listen_fd = config->listen_fd,
                .config = config,
                .context = config->context,
        };
        int r;

        parent.link.userdata = &parent;
        /* A terminal's Ctrl-C is the host's to handle. */
        (void) setsid();
        r = open_signals(&parent.signal_fd);
        if (r < 0)
                return error_trace(r);
        r = parent_loop(&parent);
        parent_done(&parent);
        return error_trace(r);
}
