/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The DNS server of a crate. It knows the names that the session allows and their addresses inside,
 * and asks nobody: no packet leaves for a question, whatever is in it.
 */

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "egress/dns-message.h"
#include "egress/session-internal.h"

/* The pairs of addresses do not change while the session lives. */
#define TTL_SEC 30U
/* What one job may have of a processor: at some 20 µs each. What comes faster waits in the socket,
 * and then is dropped there. */
#define QUERIES_BURST 1000U
#define QUERIES_PER_SECOND 2000U
#define PAUSE_USEC (20 * USEC_PER_MSEC)
#define QUERIES_AT_ONCE 64
#define STREAMS_MAX 16U
#define STREAM_USEC (10 * USEC_PER_SEC)

typedef struct StubSocket {
        Stub *stub;
        LoopFd fd; /* fd.fd is owned */
        LoopTimer pause;
        uint32_t n_overflows; /* of the socket's queue, so far */
} StubSocket;

typedef struct Stream {
        Stub *stub;
        struct Stream *next;
        LoopFd fd; /* fd.fd is owned */
        LoopTimer timer;
        size_t size;
        uint8_t data[2 + DNS_QUERY_MAX];
} Stream;

struct Stub {
        Session *session;
        StubSocket sockets[_SESSION_DNS_MAX];
        Stream *streams;
        size_t n_streams;
        Rate rate;
};

/* --- answers --- */

static size_t answer_name(Session *session, const DnsQuery *query, uint8_t *reply) {
        const DestinationSlot *slot = NULL;
        const Address *address = NULL;
        int r;

        r = query->is_plain ? session_find_slot(session, query->name, &slot) : SESSION_FIND_E_NONE;
        if (r == SESSION_FIND_E_NONE || r == SESSION_FIND_E_DENIED) {
                denials_add(&session->denials, DENIAL_DNS, query->name, 0,
                            r == SESSION_FIND_E_DENIED ? address_class_to_string(ADDRESS_POLICY)
                                                       : NULL,
                            NULL);
                return dns_reply_write(query, DNS_NXDOMAIN, NULL, 0, reply);
        }
        if (r == SESSION_FIND_E_FULL) {
                denials_add(&session->denials, DENIAL_LIMIT, query->name, 0, "names", NULL);
                return dns_reply_write(query, DNS_REFUSED, NULL, 0, reply);
        }
        if (r < 0)
                return dns_reply_write(query, DNS_SERVFAIL, NULL, 0, reply);
        if (query->type == DNS_TYPE_A)
                address = &slot->v4;
        else if (query->type == DNS_TYPE_AAAA && slot->has_v6)
                address = &slot->v6;
        return dns_reply_write(query, DNS_OK, address, TTL_SEC, reply);
}

/* What is no question has no name either. */
static void count_malformed(Session *session) {
        denials_add(&session->denials, DENIAL_DNS, "", 0, "malformed", NULL);
}

/* 0: there is none. */
static size_t answer(Session *session, const uint8_t *message, size_t size, uint8_t *reply) {
        _uninitialized_ DnsQuery query;
        DnsCode code;

        switch (dns_query_parse(message, size, &query, &code)) {
        case DNS_E_DROP:
                count_malformed(session);
                return 0;
        case DNS_E_CODE:
                if (code != DNS_BADVERS)
                        count_malformed(session);
                return dns_reply_write(&query, code, NULL, 0, reply);
        default:
                break;
        }
        if (query.class != DNS_CLASS_IN) {
                denials_add(&session->denials, DENIAL_DNS, query.name, 0, "class", NULL);
                return dns_reply_write(&query, DNS_REFUSED, NULL, 0, reply);
        }
        return answer_name(session, &query, reply);
}

/* --- how often --- */

static void on_pause_end(void *userdata) {
        StubSocket *socket = userdata;

        (void) loop_change(&socket->fd, EPOLLIN);
}

/* False: the socket is not looked at for a while. */
static bool may_answer(StubSocket *socket) {
        Loop *loop = socket->stub->session->host.loop;

        if (rate_take(&socket->stub->rate, loop_now(loop)))
                return true;
        if (loop_timer_set(loop, &socket->pause, loop_now(loop) + PAUSE_USEC) == 0)
                (void) loop_change(&socket->fd, 0);
        return false;
}

/* --- UDP --- */

/* The kernel tells with each datagram how many it had no room for so far. */
static void count_overflows(StubSocket *socket, struct msghdr *message) {
        for (struct cmsghdr *item = CMSG_FIRSTHDR(message); item;
             item = CMSG_NXTHDR(message, item)) {
                uint32_t n;

                if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SO_RXQ_OVFL)
                        continue;
                memcpy(&n, CMSG_DATA(item), sizeof(n));
                denials_drop(&socket->stub->session->denials, n - socket->n_overflows);
                socket->n_overflows = n;
        }
}

static bool answer_datagram(StubSocket *socket) {
        union {
                struct cmsghdr align;
                char data[CMSG_SPACE(sizeof(uint32_t))];
        } control;
        _uninitialized_ uint8_t query[DNS_QUERY_MAX], reply[DNS_REPLY_MAX];
        struct sockaddr_storage from;
        struct iovec part = {query, sizeof(query)};
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof(from),
                                 .msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        ssize_t n;
        size_t size;

        n = recvmsg(socket->fd.fd, &message, MSG_DONTWAIT);
        if (n < 0)
                return false;
        count_overflows(socket, &message);
        if (message.msg_flags & MSG_TRUNC) {
                count_malformed(socket->stub->session);
                return true;
        }
        size = answer(socket->stub->session, query, (size_t) n, reply);
        /* Who does not take it asks again. */
        if (size > 0)
                (void) sendto(socket->fd.fd, reply, size, MSG_DONTWAIT | MSG_NOSIGNAL,
                              (struct sockaddr *) &from, message.msg_namelen);
        return true;
}

static void on_datagrams(void *userdata, uint32_t events _unused_) {
        StubSocket *socket = userdata;

        for (int i = 0; i < QUERIES_AT_ONCE; i++) {
                if (!may_answer(socket))
                        return;
                if (!answer_datagram(socket)) {
                        rate_give_back(&socket->stub->rate);
                        return;
                }
        }
}

/* --- TCP --- */

static void stream_end(Stream *stream) {
        Stub *stub = stream->stub;
        Stream **place = &stub->streams;

        while (*place != stream)
                place = &(*place)->next;
        *place = stream->next;
        stub->n_streams--;
        loop_remove(&stream->fd);
        loop_timer_stop(&stream->timer);
        fd_close(stream->fd.fd);
        free(stream);
}

/* What has come of a question is all that there will be of it. */
static void stream_cut(Stream *stream) {
        if (stream->size > 0)
                count_malformed(stream->stub->session);
        stream_end(stream);
}

static void on_stream_time(void *userdata) {
        stream_cut(userdata);
}

/* Answers the first query in the buffer, if it is whole. False: it is not, or there is nobody to
 * answer any more. */
static bool stream_answer(Stream *stream, bool *ret_alive) {
        size_t size = (size_t) stream->data[0] << 8 | stream->data[1], n;
        uint8_t reply[2 + DNS_REPLY_MAX];

        *ret_alive = stream->size < 2 || (size > 0 && size <= DNS_QUERY_MAX);
        if (!*ret_alive)
                count_malformed(stream->stub->session);
        if (stream->size < 2 || !*ret_alive || stream->size < 2 + size)
                return false;
        n = answer(stream->stub->session, stream->data + 2, size, reply + 2);
        reply[0] = (uint8_t) (n >> 8);
        reply[1] = (uint8_t) n;
        /* Somebody who does not read the answers is not waited for. */
        *ret_alive = n > 0 && send(stream->fd.fd, reply, n + 2, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                                      (ssize_t) n + 2;
        stream->size -= 2 + size;
        memmove(stream->data, stream->data + 2 + size, stream->size);
        return *ret_alive;
}

static void on_stream(void *userdata, uint32_t events _unused_) {
        Stream *stream = userdata;
        Loop *loop = stream->stub->session->host.loop;
        bool alive;
        ssize_t n;

        n = recv(stream->fd.fd, stream->data + stream->size, sizeof(stream->data) - stream->size,
                 MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                stream_cut(stream);
                return;
        }
        stream->size += (size_t) n;
        do
                if (stream->size >= 2 && !rate_take(&stream->stub->rate, loop_now(loop))) {
                        denials_drop(&stream->stub->session->denials, 1);
                        stream_end(stream);
                        return;
                }
        while (stream_answer(stream, &alive));
        if (!alive || loop_timer_set(loop, &stream->timer, loop_now(loop) + STREAM_USEC) < 0)
                stream_end(stream);
}

static int stream_begin(Stub *stub, int fd) {
        Loop *loop = stub->session->host.loop;
        Stream *stream = malloc(sizeof(Stream));

        if (!stream) {
                fd_close(fd);
                return error_origin(-ENOMEM);
        }
        stream->stub = stub;
        stream->size = 0;
        stream->next = stub->streams;
        stub->streams = stream;
        stub->n_streams++;
        stream->fd = (LoopFd){.fd = fd, .on_ready = on_stream, .userdata = stream};
        stream->timer = (LoopTimer){.on_time = on_stream_time, .userdata = stream};
        if (loop_add(loop, &stream->fd, EPOLLIN) < 0 ||
            loop_timer_set(loop, &stream->timer, loop_now(loop) + STREAM_USEC) < 0)
                stream_end(stream);
        return 0;
}

static void on_connection(void *userdata, uint32_t events _unused_) {
        StubSocket *socket = userdata;
        int fd;

        if (!may_answer(socket))
                return;
        fd = accept4(socket->fd.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
                /* Without room for another file, the next look is a pause later. */
                if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED &&
                    loop_timer_set(socket->stub->session->host.loop, &socket->pause,
                                   loop_now(socket->stub->session->host.loop) + PAUSE_USEC) == 0)
                        (void) loop_change(&socket->fd, 0);
                return;
        }
        if (socket->stub->n_streams < STREAMS_MAX) {
                (void) stream_begin(socket->stub, fd);
                return;
        }
        denials_add(&socket->stub->session->denials, DENIAL_LIMIT, "", 0, "dns-connections", NULL);
        fd_close(fd);
}

/* --- the stub --- */

static int socket_begin(Stub *stub, size_t i, int fd) {
        bool stream = i == SESSION_DNS_TCP4 || i == SESSION_DNS_TCP6;
        StubSocket *socket = &stub->sockets[i];
        const int one = 1;

        *socket = (StubSocket){.stub = stub,
                               .fd = {.fd = fd,
                                      .on_ready = stream ? on_connection : on_datagrams,
                                      .userdata = socket},
                               .pause = {.on_time = on_pause_end, .userdata = socket}};
        if (fd < 0)
                return 0;
        if (!stream)
                (void) setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
        return loop_add(stub->session->host.loop, &socket->fd, EPOLLIN);
}

Stub *stub_free(Stub *stub) {
        if (!stub)
                return NULL;

        while (stub->streams)
                stream_end(stub->streams);
        for (size_t i = 0; i < _SESSION_DNS_MAX; i++) {
                loop_remove(&stub->sockets[i].fd);
                loop_timer_stop(&stub->sockets[i].pause);
                fd_close(stub->sockets[i].fd.fd);
        }
        free(stub);
        return NULL;
}

int stub_new(Session *session, const int sockets[static _SESSION_DNS_MAX], Stub **ret_stub) {
        Stub *stub = calloc(1, sizeof(Stub));
        int r = 0;

        if (!stub) {
                for (size_t i = 0; i < _SESSION_DNS_MAX; i++)
                        fd_close(sockets[i]);
                return error_origin(-ENOMEM);
        }
        stub->session = session;
        stub->rate = (Rate){.burst = QUERIES_BURST, .per_second = QUERIES_PER_SECOND};
        for (size_t i = 0; i < _SESSION_DNS_MAX; i++) {
                int added = socket_begin(stub, i, sockets[i]);

                r = r < 0 ? r : added;
        }
        if (r < 0) {
                stub_free(stub);
                return error_trace(r);
        }
        *ret_stub = stub;
        return 0;
}
