/* SPDX-License-Identifier: Apache-2.0 */

#include "ipc/link.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/macros.h"

static const LinkPermit *link_find_permit(const Link *link, const Frame *frame) {
        for (size_t i = 0; i < link->n_permits; i++) {
                const LinkPermit *permit = &link->permits[i];

                if (permit->type != frame->header.type)
                        continue;
                if (!(permit->states & link->state))
                        continue;
                if (frame->header.length < permit->size_min ||
                    frame->header.length > permit->size_max)
                        continue;
                if (frame->n_fds < permit->fds_min || frame->n_fds > permit->fds_max)
                        continue;
                return permit;
        }
        return NULL;
}

int link_pair(int *ret_ours, int *ret_theirs) {
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_origin(negative_errno());
        ours = pair[0];
        theirs = pair[1];
        if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        *ret_ours = TAKE_FD(ours);
        *ret_theirs = TAKE_FD(theirs);
        return 0;
}

int link_dispatch(Link *link, int flags) {
        const LinkPermit *permit;
        _uninitialized_ Frame frame;
        int r;

        r = frame_receive(link->fd, flags, &frame);
        switch (r) {
        case 0:
                break;
        case FRAME_E_EOF:
                return LINK_E_EOF;
        case FRAME_E_AGAIN:
                return LINK_E_AGAIN;
        case FRAME_E_MALFORMED:
                return LINK_E_DENIED;
        default:
                return error_trace(r);
        }

        permit = link_find_permit(link, &frame);
        if (!permit) {
                frame_done(&frame);
                return LINK_E_DENIED;
        }

        r = permit->handler(link->userdata, &frame);
        frame_done(&frame);
        return error_fold(r);
}

int link_send(Link *link, uint16_t type, uint32_t id, const void *payload, size_t size,
              const int *fds, size_t n_fds) {
        int r;

        r = frame_send(link->fd, type, id, payload, size, fds, n_fds);
        switch (r) {
        case 0:
                return 0;
        case FRAME_E_EOF:
                return LINK_E_EOF;
        case FRAME_E_AGAIN:
                return error_origin(-ENOBUFS);
        default:
                return error_fold(r);
        }
}

void link_done(Link *link) {
        link->fd = fd_close(link->fd);
}
