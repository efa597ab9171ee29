/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is at the other end of a connection. A job in a crate of a user's has that user's uid on the
 * host, so the uid alone does not tell it from the user: its user namespace does.
 */

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef struct Peer {
        uid_t uid;
        pid_t pid;
        gid_t *gids; /* its groups, the first one first */
        size_t n_gids;
} Peer;

enum {
        _PEER_E_SUCCESS,
        PEER_E_FOREIGN, /* in another user namespace: a job of ours, or somebody's container */
        PEER_E_UNKNOWN, /* it has ended, or cannot be looked at */
};

/* Who the kernel says that it was when it connected. 0 or a negative errno. */
int peer_read(int connection, Peer *ret_peer);
void peer_done(Peer *peer);
/*
 * Whether the process that connected is in our own user namespace. A process of another user that
 * may not be looked at is none of our jobs, which have our own uid or one that is no tenant's. 0,
 * PEER_E_X or a negative errno.
 */
int peer_check_namespace(int connection, const Peer *peer);
