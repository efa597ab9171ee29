/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/launcher-parent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "crate/crate-internal.h"

#define PARENT_NAME "agentcrate-launcher"
#define PARENT_LINK_FD 3
/* It waits up to one second for its launchers. */
#define PARENT_END_MSEC 2500

enum {
        PARENT_STATE_STARTING = 1U << 0,
        PARENT_STATE_READY = 1U << 1,
};

struct LauncherParent {
        Link link;
        pid_t pid; /* 0: no child of ours */
        ParentReady ready;
        int jobs_fd;
        bool has_refused;
        CrateError error;
};

static int on_ready(void *userdata, Frame *frame) {
        LauncherParent *parent = userdata;

        memcpy(&parent->ready, frame->payload, sizeof(parent->ready));
        if (frame->n_fds > 0)
                parent->jobs_fd = TAKE_FD(frame->fds[0]);
        parent->link.state = PARENT_STATE_READY;
        return 0;
}

static int on_failed(void *userdata, Frame *frame) {
        LauncherParent *parent = userdata;
        ProtoFailure failure;

        memcpy(&failure, frame->payload, sizeof(failure));
        failure.step[sizeof(failure.step) - 1] = 0;
        failure.path[sizeof(failure.path) - 1] = 0;
        (void) crate_explain_failure(&failure, &parent->error);
        parent->has_refused = true;
        return error_origin(-ECONNABORTED);
}

static const LinkPermit parent_permits[] = {
        {PARENT_READY, PARENT_STATE_STARTING, sizeof(ParentReady), sizeof(ParentReady), 0, 1,
         on_ready},
        {PARENT_FAILED, PARENT_STATE_STARTING, sizeof(ProtoFailure), sizeof(ProtoFailure), 0, 0,
         on_failed},
};

/* Takes fd. */
static int parent_new(int fd, pid_t pid, LauncherParent **ret_parent) {
        LauncherParent *parent;

        parent = calloc(1, sizeof(*parent));
        if (!parent) {
                (void) fd_close(fd);
                return error_origin(-ENOMEM);
        }
        *parent = (LauncherParent){
                .link = {.fd = fd,
                         .name = "launchers' parent",
                         .permits = parent_permits,
                         .n_permits = ELEMENTSOF(parent_permits),
                         .state = PARENT_STATE_STARTING,
                         .userdata = parent},
                .pid = pid,
                .jobs_fd = -EBADF,
        };
        *ret_parent = parent;
        return 0;
}

int launcher_parent_spawn(const char *program, LauncherParent **ret_parent, CrateError *ret_error) {
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        _cleanup_(freep) char *path = NULL;
        pid_t pid;
        int r;

        path = program ? strdup(program) : launcher_program();
        if (!path)
                return error_origin(-ENOMEM);
        r = link_pair(&ours, &theirs);
        if (r < 0)
                return error_trace(r);

        r = process_spawn_with_link(path, PARENT_NAME, theirs, PARENT_LINK_FD, &pid);
        if (r >= 0)
                return error_trace(parent_new(TAKE_FD(ours), pid, ret_parent));
        (void) crate_error_set(ret_error, "launcher", -r, path,
                               "install AgentCrate completely, or set AGENTCRATE_LIBEXEC_DIR",
                               "the launcher %s cannot be started: %s", path, strerror(-r));
        return LAUNCHER_PARENT_E_FAILED;
}

int launcher_parent_connect(const char *path, LauncherParent **ret_parent, CrateError *ret_error) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;
        int error = ENAMETOOLONG;

        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_origin(negative_errno());
        if (strlen(path) < sizeof(address.sun_path)) {
                memcpy(address.sun_path, path, strlen(path) + 1);
                error = connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ? errno : 0;
        }
        if (error == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
                error = errno;
        if (error == 0)
                return error_trace(parent_new(TAKE_FD(fd), 0, ret_parent));
        (void) crate_error_set(
                ret_error, "launcher", error, path, "start agentcrate-launcher.socket",
                "the launcher service cannot be reached by %s: %s", path, strerror(error));
        return LAUNCHER_PARENT_E_FAILED;
}

LauncherParent *launcher_parent_free(LauncherParent *parent) {
        if (!parent)
                return NULL;

        link_done(&parent->link);
        if (parent->pid > 0)
                process_end(parent->pid, PARENT_END_MSEC);
        parent->jobs_fd = fd_close(parent->jobs_fd);
        crate_error_done(&parent->error);
        free(parent);
        return NULL;
}

int launcher_parent_begin(LauncherParent *parent, const CgroupTree *tree) {
        int fd = tree ? cgroup_tree_launcher_fd(tree) : -EBADF;
        int r;

        r = link_send(&parent->link, PARENT_BEGIN, 0, NULL, 0, &fd, fd >= 0 ? 1 : 0);
        /* One that has ended is found to have when it is dispatched. */
        return r == LINK_E_EOF ? 0 : error_fold(r);
}

int launcher_parent_get_fd(const LauncherParent *parent) {
        return parent->link.fd;
}

pid_t launcher_parent_get_pid(const LauncherParent *parent) {
        return parent->pid;
}

int launcher_parent_dispatch(LauncherParent *parent) {
        int r;

        do
                r = link_dispatch(&parent->link, MSG_DONTWAIT);
        while (r == 0);
        if (r == LINK_E_AGAIN)
                return 0;
        if (!parent->error.text)
                (void) crate_error_set(&parent->error, "launcher", 0, NULL, NULL,
                                       parent->pid > 0 ? "the parent of the launchers has ended"
                                                       : "the launcher service has ended, or "
                                                         "serves another broker");
        return LAUNCHER_PARENT_E_FAILED;
}

bool launcher_parent_has_refused(const LauncherParent *parent) {
        return parent->has_refused;
}

const CrateError *launcher_parent_get_error(const LauncherParent *parent) {
        return &parent->error;
}

bool launcher_parent_is_ready(const LauncherParent *parent) {
        return parent->link.state == PARENT_STATE_READY;
}

int launcher_parent_take_jobs_fd(LauncherParent *parent) {
        return TAKE_FD(parent->jobs_fd);
}

bool launcher_parent_get_subuids(const LauncherParent *parent, uint64_t *ret_base,
                                 uint64_t *ret_count) {
        if (parent->ready.subuid_count == 0)
                return false;
        *ret_base = parent->ready.subuid_base;
        *ret_count = parent->ready.subuid_count;
        return true;
}

int launcher_parent_fork(LauncherParent *parent, Launcher **ret_launcher, CrateError *ret_error) {
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        const CrateError *why = &parent->error;
        int r;

        if (why->text) {
                (void) crate_error_set(ret_error, why->step, why->error, why->path, why->remedy,
                                       "%s", why->text);
                return LAUNCHER_PARENT_E_FAILED;
        }
        r = link_pair(&ours, &theirs);
        if (r < 0)
                return error_trace(r);
        r = link_send(&parent->link, PARENT_LAUNCHER, 0, NULL, 0, &theirs, 1);
        if (r != 0) {
                (void) crate_error_set(ret_error, "launcher", r < 0 ? -r : EPIPE, NULL, "try again",
                                       "the parent of the launchers does not answer");
                return LAUNCHER_PARENT_E_FAILED;
        }
        return error_trace(launcher_adopt(0, parent->ready.mode, TAKE_FD(ours), ret_launcher));
}
