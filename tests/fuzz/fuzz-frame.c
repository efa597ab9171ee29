/* SPDX-License-Identifier: Apache-2.0 */

/* A datagram of any bytes with up to 15 file descriptors, as many as the low half of the first byte
 * says, is a frame or refused; and nothing of it stays open. */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "basic/macros.h"
#include "ipc/frame.h"

#define SENT_FDS_MAX 15U

/* False if the kernel does not take such a datagram. */
static bool send_datagram(int fd, const uint8_t *data, size_t size, size_t n_fds) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * SENT_FDS_MAX)];
        } control = {};
        struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

        if (n_fds > 0) {
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                for (size_t i = 0; i < n_fds; i++)
                        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof(int));
                message.msg_control = control.space;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        }
        return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static int lowest_free_fd(void) {
        int fd = dup(STDERR_FILENO);

        FUZZ_ASSERT(fd >= 0);
        return close(fd) == 0 ? fd : -1;
}

static void check_frame(const Frame *frame, const uint8_t *data, size_t size, size_t n_fds) {
        FUZZ_ASSERT(size == sizeof(FrameHeader) + frame->header.length);
        FUZZ_ASSERT(frame->header.length <= FRAME_PAYLOAD_MAX);
        FUZZ_ASSERT(frame->n_fds == n_fds && frame->header.n_fds == n_fds);
        FUZZ_ASSERT(n_fds <= FRAME_FDS_MAX);
        FUZZ_ASSERT(memcmp(&frame->header, data, sizeof(FrameHeader)) == 0);
        FUZZ_ASSERT(memcmp(frame->payload, data + sizeof(FrameHeader), frame->header.length) == 0);
        for (size_t i = 0; i < n_fds; i++)
                FUZZ_ASSERT(frame->fds[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t n_fds = size > 0 ? data[0] & 15U : 0;
        int pair[2], before, r;
        Frame frame;

        if (size == 0)
                return 0;
        FUZZ_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        before = lowest_free_fd();
        if (send_datagram(pair[0], data + 1, size - 1, n_fds)) {
                r = frame_receive(pair[1], MSG_DONTWAIT, &frame);
                FUZZ_ASSERT(r == 0 || r == FRAME_E_MALFORMED || (r == FRAME_E_EOF && size == 1));
                if (r == 0)
                        check_frame(&frame, data + 1, size - 1, n_fds);
                frame_done(&frame);
                FUZZ_ASSERT(frame_receive(pair[1], MSG_DONTWAIT, &frame) == FRAME_E_AGAIN);
        }
        FUZZ_ASSERT(lowest_free_fd() == before);
        close(pair[0]);
        close(pair[1]);
        return 0;
}
