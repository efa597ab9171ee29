/* SPDX-License-Identifier: Apache-2.0 */

#include "ipc/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "basic/error.h"

int frame_check(const FrameHeader *header, size_t datagram_size, size_t n_fds) {
        if (datagram_size < sizeof(FrameHeader))
                return FRAME_E_MALFORMED;
        if (header->magic != FRAME_MAGIC || header->version != FRAME_VERSION ||
            header->reserved != 0)
                return FRAME_E_MALFORMED;
        if (header->length > FRAME_PAYLOAD_MAX ||
            datagram_size != sizeof(FrameHeader) + header->length)
                return FRAME_E_MALFORMED;
        if (n_fds > FRAME_FDS_MAX || header->n_fds != n_fds)
                return FRAME_E_MALFORMED;
        return 0;
}

int frame_send(int socket, uint16_t type, uint32_t id, const void *payload, size_t size,
               const int *fds, size_t n_fds) {
        FrameHeader header = {
                .magic = FRAME_MAGIC,
                .version = FRAME_VERSION,
                .n_fds = (uint8_t) n_fds,
                .type = type,
                .id = id,
                .length = (uint32_t) size,
        };
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
        } control = {};
        struct iovec iov[2] = {
                {.iov_base = &header, .iov_len = sizeof(header)},
                {.iov_base = (void *) payload, .iov_len = size},
        };
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = size > 0 ? 2 : 1};

        if (size > FRAME_PAYLOAD_MAX || n_fds > FRAME_FDS_MAX)
                return error_origin(-EMSGSIZE);

        if (n_fds > 0) {
                struct cmsghdr *cmsg;

                message.msg_control = control.space;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                cmsg = CMSG_FIRSTHDR(&message);
                cmsg->cmsg_level = SOL_SOCKET;
                cmsg->cmsg_type = SCM_RIGHTS;
                cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
        }

        for (;;) {
                if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0)
                        return 0;
                switch (errno) {
                case EINTR:
                        continue;
                case EAGAIN:
                        return FRAME_E_AGAIN;
                case EPIPE:
                case ECONNRESET:
                        return FRAME_E_EOF;
                default:
                        return error_origin(negative_errno());
                }
        }
}

/* Takes the fds of a message into the frame; more than fit have been dropped by the kernel, which
 * MSG_CTRUNC tells. */
static void frame_take_fds(Frame *frame, struct msghdr *message) {
        frame->n_fds = 0;
        for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
             cmsg = CMSG_NXTHDR(message, cmsg)) {
                size_t n;

                if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n && frame->n_fds < FRAME_FDS_MAX; i++)
                        memcpy(&frame->fds[frame->n_fds++], CMSG_DATA(cmsg) + i * sizeof(int),
                               sizeof(int));
        }
}

int frame_receive(int socket, int flags, Frame *ret_frame) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
        } control = {};
        struct iovec iov[2] = {
                {.iov_base = &ret_frame->header, .iov_len = sizeof(FrameHeader)},
                {.iov_base = ret_frame->payload, .iov_len = FRAME_PAYLOAD_MAX},
        };
        struct msghdr message = {
                .msg_iov = iov,
                .msg_iovlen = 2,
                .msg_control = control.space,
                .msg_controllen = sizeof(control.space),
        };
        ssize_t n;

        ret_frame->n_fds = 0;
        /* ECONNRESET says, once, that the peer has closed and left something of ours unread. What
         * it sent before that is still to be read, such as why it ended. */
        do
                n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && (errno == EINTR || errno == ECONNRESET));
        if (n < 0) {
                if (errno == EAGAIN)
                        return FRAME_E_AGAIN;
                return error_origin(negative_errno());
        }

        frame_take_fds(ret_frame, &message);
        if (n == 0) {
                frame_done(ret_frame);
                return FRAME_E_EOF;
        }
        if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
            frame_check(&ret_frame->header, (size_t) n, ret_frame->n_fds) != 0) {
                frame_done(ret_frame);
                return FRAME_E_MALFORMED;
        }
        return 0;
}

void frame_done(Frame *frame) {
        for (size_t i = 0; i < frame->n_fds; i++)
                frame->fds[i] = fd_close(frame->fds[i]);
        frame->n_fds = 0;
}
