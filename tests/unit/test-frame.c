/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "basic/macros.h"
#include "ipc/frame.h"
#include "tests/unit/suite.h"

#define SENT_FDS_MAX 16U

static const char payload[FRAME_PAYLOAD_MAX + 1];

static void make_pair(int pair[2]) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(int pair[2]) {
        pair[0] = fd_close(pair[0]);
        pair[1] = fd_close(pair[1]);
}

/* One datagram as a peer that follows no rules sends it. */
static void send_raw(int fd, const void *data, size_t size, size_t n_fds) {
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
                        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &(int){STDIN_FILENO},
                               sizeof(int));
                message.msg_control = control.space;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        }
        ck_assert_int_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t) size);
}

static FrameHeader good_header(size_t size, size_t n_fds) {
        return (FrameHeader){
                .magic = FRAME_MAGIC,
                .version = FRAME_VERSION,
                .n_fds = (uint8_t) n_fds,
                .type = 7,
                .id = 9,
                .length = (uint32_t) size,
        };
}

static const size_t sizes[] = {0, 1, 8, 1023, FRAME_PAYLOAD_MAX - 1, FRAME_PAYLOAD_MAX};

START_TEST(test_round_trip) {
        size_t size = sizes[_i];
        char data[FRAME_PAYLOAD_MAX];
        Frame frame;
        int pair[2];

        for (size_t i = 0; i < size; i++)
                data[i] = (char) (i * 31 + 7);
        make_pair(pair);
        ck_assert_int_eq(frame_send(pair[0], 0x1234, 0x89abcdef, data, size, NULL, 0), 0);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), 0);
        ck_assert_uint_eq(frame.header.type, 0x1234);
        ck_assert_uint_eq(frame.header.id, 0x89abcdef);
        ck_assert_uint_eq(frame.header.length, size);
        ck_assert_uint_eq(frame.n_fds, 0);
        ck_assert_mem_eq(frame.payload, data, size);
        frame_done(&frame);
        close_pair(pair);
}
END_TEST

/* Each number of fds arrives, in order, closed on exec, and is closed by frame_done(). */
START_TEST(test_fds) {
        size_t n = (size_t) _i, before;
        int pair[2], pipes[FRAME_FDS_MAX][2], fds[FRAME_FDS_MAX];
        Frame frame;
        char c;

        make_pair(pair);
        for (size_t i = 0; i < n; i++) {
                ck_assert_int_eq(pipe(pipes[i]), 0);
                fds[i] = pipes[i][1];
        }
        before = count_open_fds();
        ck_assert_int_eq(frame_send(pair[0], 1, 1, NULL, 0, fds, n), 0);
        ck_assert_uint_eq(count_open_fds(), before);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), 0);
        ck_assert_uint_eq(frame.n_fds, n);
        ck_assert_uint_eq(count_open_fds(), before + n);
        for (size_t i = 0; i < n; i++) {
                ck_assert_int_eq(fcntl(frame.fds[i], F_GETFD), FD_CLOEXEC);
                ck_assert_int_eq(write(frame.fds[i], &(char){(char) i}, 1), 1);
                ck_assert_int_eq(read(pipes[i][0], &c, 1), 1);
                ck_assert_int_eq(c, (char) i);
        }
        frame_done(&frame);
        ck_assert_uint_eq(frame.n_fds, 0);
        ck_assert_uint_eq(count_open_fds(), before);
}
END_TEST

START_TEST(test_taken_fd_stays) {
        int pair[2], fd, fds[] = {STDIN_FILENO, STDIN_FILENO};
        size_t before;
        Frame frame;

        make_pair(pair);
        before = count_open_fds();
        ck_assert_int_eq(frame_send(pair[0], 1, 1, NULL, 0, fds, 2), 0);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), 0);
        fd = TAKE_FD(frame.fds[0]);
        frame_done(&frame);
        ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
        ck_assert_uint_eq(count_open_fds(), before + 1);
        close(fd);
}
END_TEST

START_TEST(test_send_too_much) {
        int pair[2], fds[FRAME_FDS_MAX + 1] = {};
        Frame frame;

        make_pair(pair);
        ck_assert_int_eq(frame_send(pair[0], 1, 1, payload, sizeof(payload), NULL, 0), -EMSGSIZE);
        ck_assert_int_eq(frame_send(pair[0], 1, 1, NULL, 0, fds, ELEMENTSOF(fds)), -EMSGSIZE);
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), FRAME_E_AGAIN);
}
END_TEST

typedef struct Malformed {
        const char *name;
        size_t datagram; /* sizeof(FrameHeader) + payload */
        size_t n_fds;
        FrameHeader header;
} Malformed;

#define HEADER(n, l)                                                                               \
        .magic = FRAME_MAGIC, .version = FRAME_VERSION, .n_fds = (n), .type = 7, .length = (l)
#define WITH(size) (sizeof(FrameHeader) + (size))

static const Malformed malformed[] = {
        {"one byte", 1, 0, {HEADER(0, 0)}},
        {"one byte short of a header", WITH(0) - 1, 0, {HEADER(0, 0)}},
        {"magic", WITH(0), 0, {.magic = 0x4144, .version = FRAME_VERSION}},
        {"magic of the other byte order", WITH(0), 0, {.magic = 0x4341, .version = FRAME_VERSION}},
        {"older version", WITH(0), 0, {.magic = FRAME_MAGIC, .version = FRAME_VERSION - 1}},
        {"newer version", WITH(0), 0, {.magic = FRAME_MAGIC, .version = FRAME_VERSION + 1}},
        {"reserved", WITH(0), 0, {HEADER(0, 0), .reserved = 1}},
        {"payload shorter than said", WITH(3), 0, {HEADER(0, 4)}},
        {"payload longer than said", WITH(5), 0, {HEADER(0, 4)}},
        {"no payload though said", WITH(0), 0, {HEADER(0, 1)}},
        {"length above the limit", WITH(8), 0, {HEADER(0, FRAME_PAYLOAD_MAX + 1)}},
        {"length that wraps", WITH(8), 0, {HEADER(0, UINT32_MAX)}},
        {"length that wraps with the header", WITH(8), 0, {HEADER(0, UINT32_MAX - 15)}},
        {"datagram above the limit",
         WITH(FRAME_PAYLOAD_MAX + 1),
         0,
         {HEADER(0, FRAME_PAYLOAD_MAX)}},
        {"datagram and length above it",
         WITH(FRAME_PAYLOAD_MAX + 1),
         0,
         {HEADER(0, FRAME_PAYLOAD_MAX + 1)}},
        {"fewer fds than said", WITH(0), 1, {HEADER(2, 0)}},
        {"more fds than said", WITH(0), 2, {HEADER(1, 0)}},
        {"fds though none said", WITH(0), 1, {HEADER(0, 0)}},
        {"no fds though said", WITH(0), 0, {HEADER(1, 0)}},
        {"one fd too many", WITH(0), FRAME_FDS_MAX + 1, {HEADER(FRAME_FDS_MAX + 1, 0)}},
        {"one fd too many, hidden", WITH(0), FRAME_FDS_MAX + 1, {HEADER(FRAME_FDS_MAX, 0)}},
        {"many fds", WITH(0), SENT_FDS_MAX, {HEADER(SENT_FDS_MAX, 0)}},
        {"fds of a frame that is none", WITH(0), FRAME_FDS_MAX, {.magic = 1}},
        {"fds of a short datagram", 2, FRAME_FDS_MAX, {HEADER(FRAME_FDS_MAX, 0)}},
        {"fds of a long datagram",
         WITH(FRAME_PAYLOAD_MAX + 1),
         FRAME_FDS_MAX,
         {HEADER(FRAME_FDS_MAX, FRAME_PAYLOAD_MAX)}},
};

/* Refused, nothing leaks, and the next frame is read as if nothing had been. */
START_TEST(test_malformed) {
        const Malformed *m = &malformed[_i];
        char datagram[sizeof(FrameHeader) + sizeof(payload)] = {};
        int pair[2];
        size_t before;
        Frame frame;

        make_pair(pair);
        memcpy(datagram, &m->header, sizeof(m->header));
        before = count_open_fds();
        send_raw(pair[0], datagram, m->datagram, m->n_fds);
        ck_assert_int_eq(frame_send(pair[0], 7, 9, "ok", 2, NULL, 0), 0);

        ck_assert_msg(frame_receive(pair[1], 0, &frame) == FRAME_E_MALFORMED, "%s", m->name);
        ck_assert_uint_eq(frame.n_fds, 0);
        ck_assert_msg(count_open_fds() == before, "%s: a file descriptor stays open", m->name);

        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), 0);
        ck_assert_mem_eq(frame.payload, "ok", 2);
        frame_done(&frame);
}
END_TEST

START_TEST(test_check) {
        FrameHeader header = good_header(100, 3);

        ck_assert_int_eq(frame_check(&header, WITH(100), 3), 0);
        ck_assert_int_eq(frame_check(&header, WITH(101), 3), FRAME_E_MALFORMED);
        ck_assert_int_eq(frame_check(&header, WITH(99), 3), FRAME_E_MALFORMED);
        ck_assert_int_eq(frame_check(&header, 100, 3), FRAME_E_MALFORMED);
        ck_assert_int_eq(frame_check(&header, 0, 3), FRAME_E_MALFORMED);
        ck_assert_int_eq(frame_check(&header, WITH(100), 2), FRAME_E_MALFORMED);
        header = good_header(FRAME_PAYLOAD_MAX, FRAME_FDS_MAX);
        ck_assert_int_eq(frame_check(&header, WITH(FRAME_PAYLOAD_MAX), FRAME_FDS_MAX), 0);
        header = good_header(0, FRAME_FDS_MAX + 1);
        ck_assert_int_eq(frame_check(&header, WITH(0), FRAME_FDS_MAX + 1), FRAME_E_MALFORMED);
        header = good_header(UINT32_MAX, 0);
        ck_assert_int_eq(frame_check(&header, sizeof(header) - 1, 0), FRAME_E_MALFORMED);
}
END_TEST

/* An empty datagram cannot be told from the end; what comes with it does not stay. */
START_TEST(test_empty_datagram) {
        int pair[2];
        size_t before;
        Frame frame;

        make_pair(pair);
        before = count_open_fds();
        send_raw(pair[0], "", 0, 3);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), FRAME_E_EOF);
        ck_assert_uint_eq(frame.n_fds, 0);
        ck_assert_uint_eq(count_open_fds(), before);
}
END_TEST

START_TEST(test_ends) {
        int pair[2];
        Frame frame;

        make_pair(pair);
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), FRAME_E_AGAIN);
        ck_assert_int_eq(frame_send(pair[0], 1, 1, "x", 1, NULL, 0), 0);
        pair[0] = fd_close(pair[0]);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), 0);
        frame_done(&frame);
        ck_assert_int_eq(frame_receive(pair[1], 0, &frame), FRAME_E_EOF);
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), FRAME_E_EOF);
        /* No SIGPIPE. */
        ck_assert_int_eq(frame_send(pair[1], 1, 1, "x", 1, NULL, 0), FRAME_E_EOF);
}
END_TEST

/* A peer that ends with something of ours unread: what it said before comes first. */
START_TEST(test_reset) {
        int pair[2];
        Frame frame;

        make_pair(pair);
        ck_assert_int_eq(frame_send(pair[1], 1, 1, "unread", 6, NULL, 0), 0);
        ck_assert_int_eq(frame_send(pair[0], 2, 5, "why", 3, NULL, 0), 0);
        pair[0] = fd_close(pair[0]);
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), 0);
        ck_assert_mem_eq(frame.payload, "why", 3);
        frame_done(&frame);
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), FRAME_E_EOF);
}
END_TEST

START_TEST(test_full) {
        int pair[2], r, n = 0;
        Frame frame;

        make_pair(pair);
        ck_assert_int_eq(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
        while ((r = frame_send(pair[0], 1, (uint32_t) n, payload, FRAME_PAYLOAD_MAX, NULL, 0)) == 0)
                n++;
        ck_assert_int_eq(r, FRAME_E_AGAIN);
        ck_assert_int_gt(n, 0);
        for (int i = 0; i < n; i++) {
                ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), 0);
                ck_assert_uint_eq(frame.header.id, (uint32_t) i);
                frame_done(&frame);
        }
        ck_assert_int_eq(frame_receive(pair[1], MSG_DONTWAIT, &frame), FRAME_E_AGAIN);
        ck_assert_int_eq(frame_send(pair[0], 1, 1, payload, FRAME_PAYLOAD_MAX, NULL, 0), 0);
}
END_TEST

START_TEST(test_no_socket) {
        Frame frame;

        ck_assert_int_eq(frame_receive(-1, 0, &frame), -EBADF);
        ck_assert_int_eq(frame_send(-1, 1, 1, NULL, 0, NULL, 0), -EBADF);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("frame");

        tcase_add_loop_test(tcase, test_round_trip, 0, ELEMENTSOF(sizes));
        tcase_add_loop_test(tcase, test_fds, 0, FRAME_FDS_MAX + 1);
        tcase_add_test(tcase, test_taken_fd_stays);
        tcase_add_test(tcase, test_send_too_much);
        tcase_add_loop_test(tcase, test_malformed, 0, ELEMENTSOF(malformed));
        tcase_add_test(tcase, test_check);
        tcase_add_test(tcase, test_empty_datagram);
        tcase_add_test(tcase, test_ends);
        tcase_add_test(tcase, test_reset);
        tcase_add_test(tcase, test_full);
        tcase_add_test(tcase, test_no_socket);
        return suite_run("frame", tcase);
}
