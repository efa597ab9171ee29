/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"

/* From Linux 6.5 on; the headers of Debian 12 do not have it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

void peer_done(Peer *peer) {
        free(peer->gids);
        *peer = (Peer){};
}

/* How many there are is told by the failure to take them. */
static int read_groups(int connection, gid_t **ret_gids, size_t *ret_n_gids) {
        _cleanup_(freep) gid_t *gids = NULL;
        socklen_t size = 0;

        if (getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) < 0 && errno != ERANGE)
                return error_origin(negative_errno());
        /* One more, for the first. */
        gids = malloc(size + sizeof(gid_t));
        if (!gids)
                return error_origin(-ENOMEM);
        if (size > 0 && getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, gids + 1, &size) < 0)
                return error_origin(negative_errno());
        *ret_gids = TAKE_PTR(gids);
        *ret_n_gids = size / sizeof(gid_t);
        return 0;
}

int peer_read(int connection, Peer *ret_peer) {
        socklen_t size = sizeof(struct ucred);
        struct ucred credentials;
        Peer peer = {};
        int r;

        if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
                return error_origin(negative_errno());
        r = read_groups(connection, &peer.gids, &peer.n_gids);
        if (r < 0)
                return error_trace(r);
        peer.uid = credentials.uid;
        peer.pid = credentials.pid;
        peer.gids[0] = credentials.gid;
        peer.n_gids++;
        *ret_peer = peer;
        return 0;
}

/* Of the very process that connected where the kernel tells, else of what has its number now. */
static int peer_open(int connection, const Peer *peer) {
        socklen_t size = sizeof(int);
        int fd;

        if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) >= 0)
                return fd;
        return errno == ENOPROTOOPT && peer->pid > 0 ? pidfd_open(peer->pid, 0) : -1;
}

int peer_check_namespace(int connection, const Peer *peer) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat own, theirs;
        struct pollfd poll_fd;
        char path[40];

        if (stat("/proc/self/ns/user", &own) < 0)
                return error_origin(negative_errno());
        fd = peer_open(connection, peer);
        if (fd < 0)
                return PEER_E_UNKNOWN;
        (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", peer->pid);
        if (stat(path, &theirs) < 0)
                return errno == EACCES && peer->uid != geteuid() ? 0 : PEER_E_UNKNOWN;
        /* It lives still, so that number was its own when the path was looked up. */
        poll_fd = (struct pollfd){.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 0) != 0)
                return PEER_E_UNKNOWN;
        return own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino ? 0 : PEER_E_FOREIGN;
}
