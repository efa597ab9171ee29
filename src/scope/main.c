/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-scope: asks the service manager for one scope and hands its directory to
 * agentcrate-run, which stays free of D-Bus and is ready to start its job while this waits. It
 * answers one question, at most after SCOPE_TIMEOUT_USEC. If there may be a scope that
 * agentcrate-run does not know of, it stays until the link ends and has that scope stopped.
 */

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "basic/error.h"
#include "ipc/link.h"
#include "ipc/proto.h"
#include "scope/scope.h"

#define SCOPE_LINK_FD 3

enum {
        HELPER_STATE_IDLE = 1U << 0,
        HELPER_STATE_ASKED = 1U << 1,
};

typedef struct Helper {
        Link link;
        sd_event *event;
        Scope *scope;
} Helper;

_Static_assert(PROTO_SCOPE_PIDS_MAX == SCOPE_PIDS_MAX, "the link takes what a scope takes");
_Static_assert(PROTO_SCOPE_SOCKET_MAX == MANAGER_SOCKET_PATH_MAX, "and its path");

static int helper_answer(Helper *helper, int result) {
        _cleanup_(fd_closep) int fd = -EBADF;
        ScopeFailed failed = {};

        if (result == 0) {
                fd = scope_take_fd(helper->scope);
                return link_send(&helper->link, SCOPE_MADE, 0, NULL, 0, &fd, 1);
        }
        (void) snprintf(failed.reason, sizeof(failed.reason), "%s",
                        result == SCOPE_E_FAILED ? scope_get_reason(helper->scope)
                                                 : strerror(-result));
        return link_send(&helper->link, SCOPE_FAILED, 0, &failed, sizeof(failed), NULL, 0);
}

static void on_scope(Scope *scope, int result, void *userdata) {
        Helper *helper = userdata;
        int r;

        r = helper_answer(helper, result);
        if ((result == 0 && r == 0) || !scope_is_loose(scope))
                (void) sd_event_exit(helper->event, r == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void on_withdrawn(Scope *scope _unused_, int result _unused_, void *userdata) {
        Helper *helper = userdata;

        (void) sd_event_exit(helper->event, EXIT_SUCCESS);
}

/* agentcrate-run has ended, and its launcher with it. */
static int helper_withdraw(Helper *helper) {
        /* Nobody's folder is to be held by one that is left behind. */
        if (chdir("/") < 0)
                return error_origin(negative_errno());
        return error_trace(scope_withdraw(helper->scope, on_withdrawn, helper));
}

static int on_ask(void *userdata, Frame *frame) {
        Helper *helper = userdata;
        ManagerSocket manager = {};
        pid_t pids[SCOPE_PIDS_MAX];
        ScopeAsk ask;

        memcpy(&ask, frame->payload, sizeof(ask));
        if (ask.n_pids > SCOPE_PIDS_MAX || ask.socket[sizeof(ask.socket) - 1] != 0)
                return error_origin(-EBADMSG);
        for (uint32_t i = 0; i < ask.n_pids; i++)
                pids[i] = ask.pids[i];
        memcpy(manager.path, ask.socket, sizeof(manager.path));
        manager.is_bus = ask.is_bus != 0;
        helper->link.state = HELPER_STATE_ASKED;
        return error_trace(scope_new(helper->event, &manager, pids, ask.n_pids, on_scope, helper,
                                     &helper->scope));
}

static const LinkPermit permits[] = {
        {SCOPE_ASK, HELPER_STATE_IDLE, sizeof(ScopeAsk), sizeof(ScopeAsk), 0, 0, on_ask},
};

static int on_link(sd_event_source *source, int fd _unused_, uint32_t events _unused_,
                   void *userdata) {
        Helper *helper = userdata;
        int r;

        r = link_dispatch(&helper->link, MSG_DONTWAIT);
        if (r == 0 || r == LINK_E_AGAIN)
                return 0;
        /* Whoever asked has gone or talks nonsense: nobody waits for an answer. */
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (helper->scope && scope_is_loose(helper->scope))
                return helper_withdraw(helper);
        return sd_event_exit(helper->event, r == LINK_E_EOF ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool link_is_ours(int fd) {
        int domain = 0, type = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
               fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int run(Helper *helper) {
        int r;

        r = sd_event_new(&helper->event);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_io(helper->event, NULL, SCOPE_LINK_FD, EPOLLIN, on_link, helper);
        if (r < 0)
                return error_origin(r);
        return sd_event_loop(helper->event);
}

int main(void) {
        Helper helper = {.link = {.fd = SCOPE_LINK_FD,
                                  .name = "agentcrate-run",
                                  .permits = permits,
                                  .n_permits = ELEMENTSOF(permits),
                                  .state = HELPER_STATE_IDLE}};
        int r;

        if (!link_is_ours(SCOPE_LINK_FD)) {
                fputs("agentcrate-scope: this program is started by agentcrate-run, which hands it "
                      "a socket as file descriptor 3; run agentcrate-run instead\n",
                      stderr);
                return EXIT_FAILURE;
        }
        /* What the keyboard sends to a runner is not for this. */
        (void) setsid();
        helper.link.userdata = &helper;
        r = run(&helper);
        scope_free(helper.scope);
        sd_event_unref(helper.event);
        return r < 0 ? EXIT_FAILURE : r;
}
