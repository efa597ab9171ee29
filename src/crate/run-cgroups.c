/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/run-cgroups.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "cgroup/manager-socket.h"
#include "ipc/proto.h"

#define HELPER_NAME "agentcrate-scope"
#define HELPER_LINK_FD 3
/* The program itself gives up 5 s after its start; this is for one that hangs. */
#define HELPER_TIMEOUT_USEC (6 * USEC_PER_SEC)

enum {
        HELPER_STATE_ASKED = 1U << 0,
        HELPER_STATE_ANSWERED = 1U << 1,
};

static int set_reason(RunCgroups *cgroups, const char *format, ...) _printf_(2, 3);
static int set_reason(RunCgroups *cgroups, const char *format, ...) {
        va_list args;
        int n;

        if (cgroups->reason)
                return 0;
        va_start(args, format);
        n = vasprintf(&cgroups->reason, format, args);
        va_end(args);
        if (n >= 0)
                return 0;
        cgroups->reason = NULL;
        return error_origin(-ENOMEM);
}

/* --- what agentcrate-scope says --- */

static int on_made(void *userdata, Frame *frame) {
        RunCgroups *cgroups = userdata;
        int r;

        cgroups->link.state = HELPER_STATE_ANSWERED;
        r = cgroup_tree_new_scope(TAKE_FD(frame->fds[0]), &cgroups->tree, &cgroups->reason);
        return r < 0 ? error_trace(r) : 0;
}

static int on_failed(void *userdata, Frame *frame) {
        RunCgroups *cgroups = userdata;
        ScopeFailed failed;

        cgroups->link.state = HELPER_STATE_ANSWERED;
        memcpy(&failed, frame->payload, sizeof(failed));
        failed.reason[sizeof(failed.reason) - 1] = 0;
        return set_reason(cgroups, "%s", failed.reason);
}

static const LinkPermit permits[] = {
        {SCOPE_MADE, HELPER_STATE_ASKED, 0, 0, 1, 1, on_made},
        {SCOPE_FAILED, HELPER_STATE_ASKED, sizeof(ScopeFailed), sizeof(ScopeFailed), 0, 0,
         on_failed},
};

/* --- starting it --- */

static char *helper_program(void) {
        const char *folder = secure_getenv("AGENTCRATE_LIBEXEC_DIR");
        char *path = NULL;

        if (asprintf(&path, "%s/" HELPER_NAME, string_empty(folder) ? LIBEXECDIR : folder) < 0)
                return NULL;
        return path;
}

static int helper_start(RunCgroups *cgroups) {
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        _cleanup_(freep) char *program = helper_program();
        int pair[2], r;

        if (!program)
                return error_origin(-ENOMEM);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_origin(negative_errno());
        ours = pair[0];
        theirs = pair[1];

        r = process_spawn_with_link(program, HELPER_NAME, theirs, HELPER_LINK_FD, &cgroups->helper);
        if (r < 0) {
                cgroups->helper = 0;
                return set_reason(cgroups, "%s cannot be started: %s", program, strerror(-r));
        }
        cgroups->link = (Link){.fd = TAKE_FD(ours),
                               .name = HELPER_NAME,
                               .permits = permits,
                               .n_permits = ELEMENTSOF(permits),
                               .state = HELPER_STATE_ASKED};
        return 0;
}

/* After its answer that all is well, which is the last that it does. */
static void helper_stop(RunCgroups *cgroups) {
        link_done(&cgroups->link);
        if (cgroups->helper <= 0)
                return;
        (void) kill(cgroups->helper, SIGKILL);
        while (waitpid(cgroups->helper, NULL, 0) < 0 && errno == EINTR)
                ;
        cgroups->helper = 0;
}

/* It has something to do yet if a scope may have come that we did not wait for: it has it stopped,
 * by itself, once it sees that we are done. */
static void helper_leave(RunCgroups *cgroups) {
        link_done(&cgroups->link);
        if (cgroups->helper > 0)
                (void) waitpid(cgroups->helper, NULL, WNOHANG);
        cgroups->helper = 0;
}

static int helper_ask(RunCgroups *cgroups, const ManagerSocket *manager, pid_t launcher) {
        ScopeAsk ask = {.is_bus = manager->is_bus, .n_pids = 1, .pids = {launcher}};
        int r;

        memcpy(ask.socket, manager->path, sizeof(ask.socket));
        r = link_send(&cgroups->link, SCOPE_ASK, 0, &ask, sizeof(ask), NULL, 0);
        /* One that has ended already is seen when its answer is waited for. */
        return r == LINK_E_EOF ? 0 : error_fold(r);
}

/* --- the sources --- */

int run_cgroups_begin(RunCgroups *cgroups, pid_t launcher) {
        ManagerSocket manager;
        int r;

        r = manager_socket_find(&manager, &cgroups->reason);
        if (r == MANAGER_SOCKET_E_NO_SYSTEMD) {
                r = cgroup_tree_new_plain(&cgroups->tree, &cgroups->reason);
                return r < 0 ? error_trace(r) : 0;
        }
        /* A scope without a single controller enforces nothing. */
        if (r == 0)
                r = cgroup_host_check(&cgroups->reason);
        if (r != 0)
                return r < 0 ? error_trace(r) : 0;

        cgroups->deadline_usec = now_usec() + HELPER_TIMEOUT_USEC;
        r = helper_start(cgroups);
        if (r < 0)
                return error_trace(r);
        return cgroups->helper > 0 ? helper_ask(cgroups, &manager, launcher) : 0;
}

static int helper_wait(RunCgroups *cgroups) {
        uint64_t now = now_usec();
        struct pollfd poll_fd = {.fd = cgroups->link.fd, .events = POLLIN};
        int r;

        if (now >= cgroups->deadline_usec)
                return set_reason(cgroups, HELPER_NAME " has not answered in time");
        if (poll(&poll_fd, 1, (int) ((cgroups->deadline_usec - now) / USEC_PER_MSEC) + 1) < 0 &&
            errno != EINTR)
                return error_origin(negative_errno());
        if (poll_fd.revents == 0)
                return 0;
        r = link_dispatch(&cgroups->link, MSG_DONTWAIT);
        switch (r) {
        case LINK_E_AGAIN:
                return 0;
        case LINK_E_EOF:
                return set_reason(cgroups, HELPER_NAME " has ended without an answer");
        case LINK_E_DENIED:
                return set_reason(cgroups, HELPER_NAME " has broken the protocol");
        default:
                return error_trace(r);
        }
}

int run_cgroups_wait(RunCgroups *cgroups) {
        int r = 0;

        cgroups->link.userdata = cgroups;
        while (r == 0 && cgroups->helper > 0 && !cgroups->tree && !cgroups->reason)
                r = helper_wait(cgroups);
        if (cgroups->tree)
                helper_stop(cgroups);
        return r < 0 ? error_trace(r) : 0;
}

void run_cgroups_done(RunCgroups *cgroups) {
        helper_leave(cgroups);
        cgroups->tree = cgroup_tree_free(cgroups->tree);
        free(cgroups->reason);
        *cgroups = RUN_CGROUPS_NULL;
}
