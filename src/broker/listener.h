/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The listening socket: inherited or made, and what comes in at it. */

#include "broker/manager.h"

enum {
        _LISTENER_E_SUCCESS,
        LISTENER_E_INVALID, /* ret_text: one sentence */
};

/*
 * The one socket that was passed in by the service manager, checked to be a listening UNIX stream
 * socket. ret_fd is -EBADF if none was passed. Anything else that was passed is an error.
 */
int listener_inherit(int *ret_fd, char **ret_text);
/* Makes one at path, for the own user. A socket there on which nobody listens is replaced. */
int listener_bind(const char *path, int *ret_fd, char **ret_text);

/* Consumes fd, also on failure. path is removed at the end; NULL if it is not ours. */
int listener_new(Manager *manager, int fd, const char *path, Listener **ret_listener);
Listener *listener_free(Listener *listener);
DEFINE_CLEANUP(Listener, listener_free);
