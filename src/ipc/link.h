/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A link: a socket to one of our own processes, with the table of what that peer may say now. The
 * peer may have been taken over, so a frame that the table does not permit in the present state, or
 * whose size or number of fds is not what the row says, ends the link.
 */

#include <stddef.h>
#include <stdint.h>

#include "ipc/frame.h"

typedef struct Link Link;

typedef struct LinkPermit {
        uint16_t type;
        uint32_t states; /* a bit for each state in which the frame is permitted */
        uint32_t size_min, size_max;
        uint8_t fds_min, fds_max;
        /* Returns 0, or a negative errno that ends the link. It may take fds out of the frame. */
        int (*handler)(void *userdata, Frame *frame);
} LinkPermit;

struct Link {
        int fd;
        const char *name; /* for messages: "launcher", "init" … */
        const LinkPermit *permits;
        size_t n_permits;
        uint32_t state; /* one bit */
        void *userdata;
};

#define LINK_NULL ((Link){.fd = -EBADF})

enum {
        _LINK_E_SUCCESS,
        LINK_E_EOF,    /* the peer has closed */
        LINK_E_AGAIN,  /* nothing to read */
        LINK_E_DENIED, /* the peer broke the protocol: the caller ends the link */
};

/* Two ends for a new link, of which ours waits for nothing: theirs may wait in a send, we never do.
 */
int link_pair(int *ret_ours, int *ret_theirs);
/* Receives one frame, checks it against the table, runs its handler. */
int link_dispatch(Link *link, int flags);
/* Sends; what cannot be sent at once is an error, since our frames are few and small. 0, LINK_E_EOF
 * or a negative errno. */
int link_send(Link *link, uint16_t type, uint32_t id, const void *payload, size_t size,
              const int *fds, size_t n_fds);
void link_done(Link *link);
