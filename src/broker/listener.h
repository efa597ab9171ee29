/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The listening socket: inherited or made, and what comes in at it. */

#include "broker/manager.h"
#include "policy/listen-address.h"

enum {
        _LISTENER_E_SUCCESS,
        LISTENER_E_INVALID, /* ret_text: one sentence */
};

typedef enum ListenerKind {
        LISTENER_MCP,     /* a UNIX socket for those who may connect */
        LISTENER_METRICS, /* TCP of this host, for anybody on it */
        _LISTENER_KIND_MAX,
} ListenerKind;

/*
 * The sockets that were passed in by the service manager, at most one of each kind: a listening
 * UNIX stream socket, and one named "metrics" that listens for TCP on a loopback address. -EBADF
 * for what was not passed. Anything else that was passed is an error.
 */
int listener_inherit(int ret_fds[static _LISTENER_KIND_MAX], char **ret_text);
/* Makes one at path, for the own user. A socket there on which nobody listens is replaced. */
int listener_bind(const char *path, int *ret_fd, char **ret_text);

/* Makes one for metrics. */
int listener_bind_tcp(const ListenAddress *address, int *ret_fd, char **ret_text);

/* Consumes fd, also on failure. path is removed at the end; NULL if it is not ours. */
int listener_new(Manager *manager, ListenerKind kind, int fd, const char *path,
                 Listener **ret_listener);
Listener *listener_free(Listener *listener);
DEFINE_CLEANUP(Listener, listener_free);
