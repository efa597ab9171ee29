/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is at the other end of a connection. A job in a crate of a user's has that user's uid on the
 * host, so the uid alone does not tell it from the user: its user namespace does.
 */

#include <sys/socket.h>

enum {
        _PEER_E_SUCCESS,
        PEER_E_FOREIGN, /* in another user namespace: a job of ours, or somebody's container */
        PEER_E_UNKNOWN, /* it has ended, or cannot be looked at */
};

/* Whether the process that connected is in our own user namespace. 0, PEER_E_X or a negative errno.
 */
int peer_check_namespace(int connection, const struct ucred *peer);
