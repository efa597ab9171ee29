/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/launcher-run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "ipc/link.h"
#include "launcher/crate-make.h"
#include "launcher/seal.h"

#define LAUNCHER_CRATES_MAX 4096U
/* The least id that no user of the host has. */
#define SUBUID_MIN 65536U

enum {
        LAUNCHER_STATE_SETUP = 1U << 0,
        LAUNCHER_STATE_READY = 1U << 1,
};

typedef struct Manager {
        const LauncherContext *context;
        Link link;
        int signal_fd;
        int subuid_fd; /* held, not used: the locks on sub-uids last as long as it is open */
        bool one_shot, no_late;
        ProtoFailure prepare_failure; /* error 0: none */
        Outer outer;
        NetStock nets;
        CrateChild *crates;
        size_t n_crates;
        uint32_t landlock_abi;
        struct pollfd *polls; /* of the link, the signals and each crate */
        size_t polls_size;
} Manager;

/* They grow with the crates: each page that is touched costs a launcher of one crate as much as ten
 * system calls. */
static int manager_fit_polls(Manager *manager, size_t n_crates) {
        size_t size = 2 + n_crates;
        struct pollfd *polls;

        if (size <= manager->polls_size)
                return 0;
        size = size_max(size, 2 * manager->polls_size);
        polls = reallocarray(manager->polls, size, sizeof(*polls));
        if (!polls)
                return error_origin(-ENOMEM);
        manager->polls = polls;
        manager->polls_size = size;
        return 0;
}

static int manager_send_failure(Manager *manager, uint32_t id, const ProtoFailure *failure) {
        return error_fold(
                link_send(&manager->link, LAUNCHER_FAILED, id, failure, sizeof(*failure), NULL, 0));
}

static int manager_send_gone(Manager *manager, uint32_t id, int wait_status) {
        LauncherGone gone = {.wait_status = wait_status};

        return error_fold(
                link_send(&manager->link, LAUNCHER_GONE, id, &gone, sizeof(gone), NULL, 0));
}

/*
 * What can be done before anything was said, while the host is still building its plan. A failure
 * is kept until there is a question that it answers.
 */
static int manager_prepare(Manager *manager) {
        int r = 0;

        if (!manager->context->has_entered)
                r = outer_enter(&manager->outer.mode, &manager->prepare_failure);
        if (r == 0)
                r = outer_prepare(&manager->prepare_failure);
        if (r == 0)
                r = net_stock_add(&manager->nets, &manager->prepare_failure);
        return r < 0 ? error_trace(r) : 0;
}

/* What follows the plan, as the flags say. */
static int manager_take_fds(Manager *manager, const LauncherSetup *setup, Frame *frame,
                            int *ret_cgroup_fd, ProtoFailure *ret_failure) {
        size_t n = 1;

        if ((setup->flags & LAUNCHER_SETUP_SUBUIDS) && n < frame->n_fds)
                manager->subuid_fd = TAKE_FD(frame->fds[n++]);
        if ((setup->flags & LAUNCHER_SETUP_CGROUP) && n < frame->n_fds)
                *ret_cgroup_fd = frame->fds[n++];
        return n == frame->n_fds ? 0 : failure_set(ret_failure, EBADMSG, "setup", "");
}

static int manager_set_up(Manager *manager, const LauncherSetup *setup, Frame *frame,
                          ProtoFailure *ret_failure) {
        int cgroup_fd = -EBADF;
        PlanReader plan;
        const void *data;
        size_t size;
        int r;

        if (manager->prepare_failure.error != 0) {
                *ret_failure = manager->prepare_failure;
                return error_origin(-manager->prepare_failure.error);
        }
        r = manager_take_fds(manager, setup, frame, &cgroup_fd, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = plan_map(frame->fds[0], &data, &size);
        if (r < 0 || plan_reader_init(&plan, data, size) != 0)
                return failure_set(ret_failure, r < 0 ? -r : EBADMSG, "plan", "");
        if (setup->mode != manager->outer.mode)
                return failure_set(ret_failure, EINVAL, "mode", "");
        if (setup->net_stock > NET_STOCK_MAX)
                return failure_set(ret_failure, EINVAL, "net-stock", "");

        if (!manager->context->has_entered)
                r = outer_enter_cgroup(cgroup_fd, ret_failure);
        if (r < 0)
                return error_trace(r);
        manager->nets.target = setup->net_stock;
        manager->one_shot = setup->flags & LAUNCHER_SETUP_ONE_SHOT;
        manager->no_late = setup->flags & LAUNCHER_SETUP_NO_LATE;
        if (!manager->no_late)
                r = outer_keep_host(&manager->outer, ret_failure);
        if (r == 0)
                r = outer_enter_tree(&manager->outer, &plan, ret_failure);
        if (r < 0)
                return error_trace(r);
        return 0;
}

static int manager_on_setup(void *userdata, Frame *frame) {
        Manager *manager = userdata;
        LauncherReady ready = {.pid = (uint32_t) getpid(), .landlock_abi = manager->landlock_abi};
        ProtoFailure failure;
        LauncherSetup setup;
        int r;

        memcpy(&setup, frame->payload, sizeof(setup));
        r = manager_set_up(manager, &setup, frame, &failure);
        if (r < 0) {
                (void) manager_send_failure(manager, 0, &failure);
                return error_trace(r);
        }
        manager->link.state = LAUNCHER_STATE_READY;
        return error_fold(
                link_send(&manager->link, LAUNCHER_READY, 0, &ready, sizeof(ready), NULL, 0));
}

/* In root mode a crate never runs with an id of the host's own users, least of all root's. */
static int check_ids(const Manager *manager, const LauncherMake *make, ProtoFailure *ret_failure) {
        const LauncherContext *context = manager->context;
        bool good;

        if (manager->outer.mode == LAUNCHER_MODE_USER)
                good = make->uid == geteuid() && make->gid == getegid();
        else if (context->subuid_count > 0)
                good = make->uid == make->gid && make->uid >= context->subuid_base &&
                       make->uid - context->subuid_base < context->subuid_count;
        else
                good = make->uid >= SUBUID_MIN && make->gid >= SUBUID_MIN;
        return good ? 0 : failure_set(ret_failure, EPERM, "ids", "");
}

/* Where we are root, the kernel would let init be cloned into any cgroup of the host. */
static int check_cgroup(const Manager *manager, int cgroup_fd, ProtoFailure *ret_failure) {
        const LauncherContext *context = manager->context;
        struct statfs fs;
        struct stat st;

        if (context->jobs_inode == 0 || cgroup_fd < 0)
                return 0;
        /* jobs/TENANT/CRATE/init */
        if (fstatfs(cgroup_fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC ||
            fstatat(cgroup_fd, "../../..", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_dev != context->jobs_device || st.st_ino != context->jobs_inode)
                return failure_set(ret_failure, EPERM, "cgroup", "");
        return 0;
}

static int manager_make(Manager *manager, Frame *frame, CrateChild **ret_crate,
                        ProtoFailure *ret_failure) {
        LauncherMake message;
        CrateMake make;
        int r;

        memcpy(&message, frame->payload, sizeof(message));
        if (frame->n_fds != (message.has_cgroup ? 3U : 2U))
                return failure_set(ret_failure, EBADMSG, "make", "");
        if (manager->n_crates == LAUNCHER_CRATES_MAX)
                return failure_set(ret_failure, EAGAIN, "make", "");
        if (manager_fit_polls(manager, manager->n_crates + 1) < 0)
                return failure_set(ret_failure, ENOMEM, "make", "");
        r = check_ids(manager, &message, ret_failure);
        if (r == 0)
                r = check_cgroup(manager, message.has_cgroup ? frame->fds[2] : -EBADF, ret_failure);
        if (r < 0)
                return error_trace(r);

        make = (CrateMake){
                .id = frame->header.id,
                .uid = message.uid,
                .gid = message.gid,
                .control_fd = frame->fds[0],
                .plan_fd = frame->fds[1],
                .cgroup_fd = message.has_cgroup ? frame->fds[2] : -EBADF,
                .landlock_abi = manager->landlock_abi,
                .subuid_fd = manager->subuid_fd,
                .no_late = manager->no_late,
                .is_heir = manager->one_shot && manager->no_late && !message.has_cgroup,
        };
        r = crate_child_new(&make, &manager->nets, ret_crate, ret_failure);
        return r < 0 ? error_trace(r) : 0;
}

static int manager_on_make(void *userdata, Frame *frame) {
        Manager *manager = userdata;
        LauncherMade made = {};
        ProtoFailure failure;
        CrateChild *crate;
        int r;

        if (manager_make(manager, frame, &crate, &failure) < 0) {
                /* Every crate that was asked for is gone some time, also one that never was. */
                r = manager_send_failure(manager, frame->header.id, &failure);
                return r < 0 ? error_trace(r) : manager_send_gone(manager, frame->header.id, 0);
        }

        crate->next = manager->crates;
        manager->crates = crate;
        manager->n_crates++;
        made.pid = (uint32_t) crate->pid;
        r = listens_send(&crate->listens, &manager->link, crate->id);
        if (r < 0)
                return error_trace(r);
        r = link_send(&manager->link, LAUNCHER_MADE, crate->id, &made, sizeof(made), &crate->pid_fd,
                      1);
        if (r == 0 && crate->is_heir) {
                (void) crate_child_go(crate, &failure);
                _exit(EXIT_SUCCESS);
        }
        return error_fold(r);
}

static const LinkPermit manager_permits[] = {
        {LAUNCHER_SETUP, LAUNCHER_STATE_SETUP, sizeof(LauncherSetup), sizeof(LauncherSetup), 1, 3,
         manager_on_setup},
        {LAUNCHER_MAKE, LAUNCHER_STATE_READY, sizeof(LauncherMake), sizeof(LauncherMake), 2, 3,
         manager_on_make},
};

static int manager_reap(Manager *manager) {
        struct signalfd_siginfo info;
        int status, r;
        pid_t pid;

        if (read(manager->signal_fd, &info, sizeof(info)) < 0 && errno != EAGAIN)
                return error_origin(negative_errno());
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                for (CrateChild **p = &manager->crates; *p; p = &(*p)->next) {
                        CrateChild *crate = *p;

                        if (crate->pid != pid)
                                continue;
                        *p = crate->next;
                        manager->n_crates--;
                        r = manager_send_gone(manager, crate->id, status);
                        (void) crate_child_free(crate);
                        if (r < 0)
                                return error_trace(r);
                        break;
                }
        return 0;
}

static int manager_on_channel(Manager *manager, int fd) {
        ProtoFailure failure;

        for (CrateChild *crate = manager->crates; crate; crate = crate->next) {
                if (crate->setup_fd != fd)
                        continue;
                if (crate_child_on_setup(crate, &manager->outer, &failure) == 0) {
                        /* The only crate has all that it needs of us. */
                        if (manager->one_shot && crate->setup_fd < 0)
                                _exit(EXIT_SUCCESS);
                        return 0;
                }
                crate->setup_fd = fd_close(crate->setup_fd);
                (void) kill(crate->pid, SIGKILL);
                return manager_send_failure(manager, crate->id, &failure);
        }
        return 0;
}

static size_t manager_fill_polls(Manager *manager) {
        size_t n = 2;

        manager->polls[0] = (struct pollfd){.fd = manager->link.fd, .events = POLLIN};
        manager->polls[1] = (struct pollfd){.fd = manager->signal_fd, .events = POLLIN};
        for (CrateChild *crate = manager->crates; crate; crate = crate->next)
                if (crate->setup_fd >= 0)
                        manager->polls[n++] =
                                (struct pollfd){.fd = crate->setup_fd, .events = POLLIN};
        return n;
}

/* Nothing to do right now: the time to make what the next crate will need. True if there is more to
 * make. */
static int manager_idle(Manager *manager, bool *ret_more) {
        ProtoFailure failure;
        int r;

        *ret_more = false;
        if (manager->link.state != LAUNCHER_STATE_READY ||
            manager->nets.n_fds >= manager->nets.target)
                return 0;
        r = net_stock_add(&manager->nets, &failure);
        if (r < 0) {
                (void) manager_send_failure(manager, 0, &failure);
                return error_trace(r);
        }
        *ret_more = manager->nets.n_fds < manager->nets.target;
        return 0;
}

static int manager_step(Manager *manager, size_t n_polls) {
        int r;

        if (manager->polls[0].revents != 0) {
                r = link_dispatch(&manager->link, MSG_DONTWAIT);
                if (r != 0 && r != LINK_E_AGAIN)
                        return r == LINK_E_EOF ? -ESHUTDOWN : error_fold(r);
        }
        if (manager->polls[1].revents != 0) {
                r = manager_reap(manager);
                if (r < 0)
                        return error_trace(r);
        }
        for (size_t i = 2; i < n_polls; i++)
                if (manager->polls[i].revents != 0) {
                        r = manager_on_channel(manager, manager->polls[i].fd);
                        if (r < 0)
                                return error_trace(r);
                }
        return 0;
}

static int manager_loop(Manager *manager) {
        bool more = false;
        int r;

        for (;;) {
                size_t n_polls = manager_fill_polls(manager);
                int n = poll(manager->polls, n_polls, more ? 0 : -1);

                if (n < 0 && errno != EINTR)
                        return error_origin(negative_errno());
                if (n > 0) {
                        r = manager_step(manager, n_polls);
                        if (r < 0)
                                return r;
                        more = manager->nets.n_fds < manager->nets.target;
                        continue;
                }
                r = manager_idle(manager, &more);
                if (r < 0)
                        return error_trace(r);
        }
}

/* Ends with the host: init of each crate sees the end of its own link too, this only waits for
 * them. */
static void manager_done(Manager *manager) {
        CrateChild *next;

        link_done(&manager->link);
        for (CrateChild *crate = manager->crates; crate; crate = next) {
                next = crate->next;
                (void) kill(crate->pid, SIGKILL);
                (void) waitpid(crate->pid, NULL, __WALL);
                (void) crate_child_free(crate);
        }
        net_stock_done(&manager->nets);
        outer_done(&manager->outer);
        free(manager->polls);
}

/* Every signal at its default: what the host ignores must not reach a job. */
static int reset_signals(int *ret_signal_fd) {
        /* The kernel's struct sigaction: no handler, no flags, no mask. */
        static const unsigned long defaults[4];
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigset_t set;

        /* Not by libc, which does not touch the two signals that it keeps for threads. */
        for (int i = 1; i < NSIG; i++)
                (void) syscall(SYS_rt_sigaction, i, defaults, NULL, sizeof(uint64_t));
        /* A limit of our caller on the size of files is an error of write, and said. */
        (void) sigaction(SIGXFSZ, &ignore, NULL);
        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
                return error_origin(negative_errno());
        *ret_signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return *ret_signal_fd < 0 ? error_origin(negative_errno()) : 0;
}

/* A terminal's Ctrl-C is the host's to handle; and the limit on processes of this one caps all
 * crates together. */
static void detach(void) {
        struct rlimit limit;

        (void) setsid();
        (void) umask(0);
        if (getrlimit(RLIMIT_NPROC, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void) setrlimit(RLIMIT_NPROC, &limit);
        }
}

int launcher_run_in(const LauncherContext *context, int link_fd) {
        Manager manager = {
                .context = context,
                .link = {.fd = link_fd,
                         .name = "host",
                         .permits = manager_permits,
                         .n_permits = ELEMENTSOF(manager_permits),
                         .state = LAUNCHER_STATE_SETUP},
                .subuid_fd = -EBADF,
                .outer = OUTER_NULL,
        };
        int r;

        manager.link.userdata = &manager;
        manager.outer.mode = context->mode;
        manager.outer.roots = context->roots;

        detach();
        r = manager_fit_polls(&manager, 0);
        if (r == 0)
                r = reset_signals(&manager.signal_fd);
        if (r < 0)
                return error_trace(r);
        manager.landlock_abi = landlock_abi();
        (void) manager_prepare(&manager);
        r = manager_loop(&manager);
        manager_done(&manager);
        return r == -ESHUTDOWN ? 0 : error_trace(r);
}

int launcher_run(int link_fd) {
        static const LauncherContext context = {};

        return error_trace(launcher_run_in(&context, link_fd));
}
