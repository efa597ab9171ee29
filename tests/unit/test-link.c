/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "basic/macros.h"
#include "ipc/link.h"
#include "tests/unit/suite.h"

enum {
        STATE_GREETING = 1U << 0,
        STATE_WORKING = 1U << 1,
        STATE_OVER = 1U << 2,
};

enum {
        TYPE_HELLO = 1,
        TYPE_WORK,
        TYPE_NOTE,
        TYPE_FAIL,
        TYPE_ODD,
};

typedef struct Peer {
        Link link;
        int other; /* what the peer says is sent here */
        unsigned n_calls;
        uint16_t type;
        int kept_fd;
} Peer;

static int on_frame(void *userdata, Frame *frame) {
        Peer *peer = userdata;

        peer->n_calls++;
        peer->type = frame->header.type;
        return 0;
}

static int on_hello(void *userdata, Frame *frame) {
        Peer *peer = userdata;

        peer->link.state = STATE_WORKING;
        return on_frame(userdata, frame);
}

static int on_work(void *userdata, Frame *frame) {
        Peer *peer = userdata;

        peer->kept_fd = TAKE_FD(frame->fds[0]);
        return on_frame(userdata, frame);
}

static int on_fail(void *userdata, Frame *frame) {
        (void) on_frame(userdata, frame);
        return -EBADMSG;
}

static int on_odd(void *userdata, Frame *frame) {
        (void) on_frame(userdata, frame);
        return 1;
}

static const LinkPermit permits[] = {
        {TYPE_HELLO, STATE_GREETING, 4, 4, 0, 0, on_hello},
        {TYPE_WORK, STATE_WORKING, 1, 16, 1, 2, on_work},
        {TYPE_NOTE, STATE_GREETING | STATE_WORKING, 0, 8, 0, 0, on_frame},
        /* The same type, in another state of another size. */
        {TYPE_NOTE, STATE_OVER, 9, 9, 0, 0, on_frame},
        {TYPE_FAIL, STATE_WORKING, 0, 0, 0, 1, on_fail},
        {TYPE_ODD, STATE_WORKING, 0, 0, 0, 0, on_odd},
};

static void peer_init(Peer *peer, uint32_t state) {
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        *peer = (Peer){
                .link = {.fd = pair[0],
                         .name = "peer",
                         .permits = permits,
                         .n_permits = ELEMENTSOF(permits),
                         .state = state,
                         .userdata = peer},
                .other = pair[1],
                .kept_fd = -EBADF,
        };
}

static void peer_done(Peer *peer) {
        link_done(&peer->link);
        peer->other = fd_close(peer->other);
        peer->kept_fd = fd_close(peer->kept_fd);
}

static void peer_say(Peer *peer, uint16_t type, size_t size, size_t n_fds) {
        static const char payload[64];
        static const int fds[FRAME_FDS_MAX] = {};

        ck_assert_int_eq(frame_send(peer->other, type, 3, payload, size, fds, n_fds), 0);
}

typedef struct Case {
        const char *name;
        uint32_t state;
        uint16_t type;
        size_t size, n_fds;
        int r;
} Case;

static const Case cases[] = {
        {"as the row says", STATE_GREETING, TYPE_HELLO, 4, 0, 0},
        {"smallest", STATE_WORKING, TYPE_WORK, 1, 1, 0},
        {"largest", STATE_WORKING, TYPE_WORK, 16, 2, 0},
        {"one of two states", STATE_GREETING, TYPE_NOTE, 0, 0, 0},
        {"other of two states", STATE_WORKING, TYPE_NOTE, 8, 0, 0},
        {"second row of a type", STATE_OVER, TYPE_NOTE, 9, 0, 0},

        {"too early", STATE_GREETING, TYPE_WORK, 4, 1, LINK_E_DENIED},
        {"too late", STATE_WORKING, TYPE_HELLO, 4, 0, LINK_E_DENIED},
        {"in no state", 0, TYPE_HELLO, 4, 0, LINK_E_DENIED},
        {"unknown type", STATE_WORKING, 99, 4, 0, LINK_E_DENIED},
        {"type 0", STATE_WORKING, 0, 4, 0, LINK_E_DENIED},
        {"type of a mirrored frame", STATE_WORKING, UINT16_MAX, 4, 0, LINK_E_DENIED},
        {"a byte less", STATE_GREETING, TYPE_HELLO, 3, 0, LINK_E_DENIED},
        {"a byte more", STATE_GREETING, TYPE_HELLO, 5, 0, LINK_E_DENIED},
        {"below the smallest", STATE_WORKING, TYPE_WORK, 0, 1, LINK_E_DENIED},
        {"above the largest", STATE_WORKING, TYPE_WORK, 17, 1, LINK_E_DENIED},
        {"size of the other row", STATE_WORKING, TYPE_NOTE, 9, 0, LINK_E_DENIED},
        {"an fd too few", STATE_WORKING, TYPE_WORK, 1, 0, LINK_E_DENIED},
        {"an fd too many", STATE_WORKING, TYPE_WORK, 1, 3, LINK_E_DENIED},
        {"an fd where none is", STATE_GREETING, TYPE_HELLO, 4, 1, LINK_E_DENIED},
        {"all fds where none is", STATE_GREETING, TYPE_HELLO, 4, FRAME_FDS_MAX, LINK_E_DENIED},

        {"handler breaks", STATE_WORKING, TYPE_FAIL, 0, 0, -EBADMSG},
        {"handler breaks with an fd", STATE_WORKING, TYPE_FAIL, 0, 1, -EBADMSG},
        /* A positive number of the handler's would be read as one of the link's. */
        {"handler answers in its own numbers", STATE_WORKING, TYPE_ODD, 0, 0, -ENOTRECOVERABLE},
};

START_TEST(test_permits) {
        const Case *c = &cases[_i];
        size_t before;
        Peer peer;

        peer_init(&peer, c->state);
        before = count_open_fds();
        peer_say(&peer, c->type, c->size, c->n_fds);
        ck_assert_msg(link_dispatch(&peer.link, 0) == c->r, "%s", c->name);
        ck_assert_msg(peer.n_calls == (c->r == LINK_E_DENIED ? 0U : 1U), "%s", c->name);
        if (peer.n_calls > 0)
                ck_assert_uint_eq(peer.type, c->type);
        /* What the handler did not take is closed, whatever came of it. */
        peer.kept_fd = fd_close(peer.kept_fd);
        ck_assert_msg(count_open_fds() == before, "%s: a file descriptor stays open", c->name);
        peer_done(&peer);
}
END_TEST

/* A handler that changes the state changes what may come next. */
START_TEST(test_states) {
        Peer peer;

        peer_init(&peer, STATE_GREETING);
        peer_say(&peer, TYPE_HELLO, 4, 0);
        peer_say(&peer, TYPE_WORK, 4, 1);
        peer_say(&peer, TYPE_HELLO, 4, 0);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), 0);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), 0);
        ck_assert_int_ge(fcntl(peer.kept_fd, F_GETFD), 0);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), LINK_E_DENIED);
        ck_assert_uint_eq(peer.n_calls, 2);
        peer_done(&peer);
}
END_TEST

START_TEST(test_malformed) {
        Peer peer;

        peer_init(&peer, STATE_GREETING);
        ck_assert_int_eq(send(peer.other, "no frame", 8, 0), 8);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), LINK_E_DENIED);
        ck_assert_uint_eq(peer.n_calls, 0);
        peer_done(&peer);
}
END_TEST

START_TEST(test_empty_table) {
        Peer peer;

        peer_init(&peer, STATE_GREETING);
        peer.link.permits = NULL;
        peer.link.n_permits = 0;
        peer_say(&peer, TYPE_HELLO, 4, 0);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), LINK_E_DENIED);
        peer_done(&peer);
}
END_TEST

START_TEST(test_ends) {
        Peer peer;

        peer_init(&peer, STATE_GREETING);
        ck_assert_int_eq(link_dispatch(&peer.link, MSG_DONTWAIT), LINK_E_AGAIN);
        peer_say(&peer, TYPE_HELLO, 4, 0);
        peer.other = fd_close(peer.other);
        ck_assert_int_eq(link_dispatch(&peer.link, MSG_DONTWAIT), 0);
        ck_assert_int_eq(link_dispatch(&peer.link, MSG_DONTWAIT), LINK_E_EOF);
        ck_assert_int_eq(link_send(&peer.link, 1, 1, NULL, 0, NULL, 0), LINK_E_EOF);
        peer_done(&peer);
        ck_assert_int_lt(peer.link.fd, 0);
        ck_assert_int_eq(link_dispatch(&peer.link, 0), -EBADF);
        link_done(&peer.link);
}
END_TEST

START_TEST(test_send) {
        static const char payload[FRAME_PAYLOAD_MAX + 1];
        Frame frame;
        Peer peer;
        int r;

        peer_init(&peer, STATE_GREETING);
        ck_assert_int_eq(link_send(&peer.link, 5, 6, "ab", 2, NULL, 0), 0);
        ck_assert_int_eq(frame_receive(peer.other, 0, &frame), 0);
        ck_assert_uint_eq(frame.header.type, 5);
        ck_assert_uint_eq(frame.header.id, 6);
        ck_assert_mem_eq(frame.payload, "ab", 2);
        ck_assert_int_eq(link_send(&peer.link, 5, 6, payload, sizeof(payload), NULL, 0), -EMSGSIZE);

        /* No room is an error: nobody waits for a peer that does not read. */
        ck_assert_int_eq(fcntl(peer.link.fd, F_SETFL, O_NONBLOCK), 0);
        while ((r = link_send(&peer.link, 5, 6, payload, FRAME_PAYLOAD_MAX, NULL, 0)) == 0)
                ;
        ck_assert_int_eq(r, -ENOBUFS);
        peer_done(&peer);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("link");

        tcase_add_loop_test(tcase, test_permits, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_states);
        tcase_add_test(tcase, test_malformed);
        tcase_add_test(tcase, test_empty_table);
        tcase_add_test(tcase, test_ends);
        tcase_add_test(tcase, test_send);
        return suite_run("link", tcase);
}
