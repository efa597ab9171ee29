/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whatever a server answers: the one who asked is told once, of no more addresses than there is
 * room for, and of no byte of a name that could mean anything in a log. What is told without asking
 * again is what was found.
 *
 * An input is a byte of settings, then an answer without its id, in which the question is put
 * where it belongs: the resolver throws away what was not asked.
 */

#include "tests/fuzz/fuzz.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/macros.h"
#include "basic/time-util.h"
#include "egress/resolver.h"

#define QUESTION_AT 12U
#define MESSAGE_MAX 4096U
/* All happens on loopback, where what was sent is there at once. */
#define IDLE_USEC 2000U

enum {
        NO_QUESTION = 1U << 0, /* the answer brings its own */
        FIRST_ONLY = 1U << 1,  /* what is asked later is not answered */
};

typedef struct Trial {
        Loop *loop;
        LoopFd server;
        LoopTimer idle;
        const uint8_t *data;
        size_t size;
        size_t n_asked, n_told;
        Address addresses[RESOLVER_ADDRESSES_MAX];
        size_t n_addresses;
} Trial;

static size_t write_answer(const Trial *trial, const uint8_t *query, size_t size, uint8_t *answer) {
        const uint8_t *data = trial->data + 1;
        size_t n = trial->size - 1, head = QUESTION_AT - 2, question, done;

        question =
                trial->data[0] & NO_QUESTION ? 0 : strlen((const char *) query + QUESTION_AT) + 5;
        if (n < head || QUESTION_AT + question > size)
                question = 0;
        head = n < head ? n : head;
        memcpy(answer, query, 2);
        memcpy(answer + 2, data, head);
        done = 2 + head;
        memcpy(answer + done, query + QUESTION_AT, question);
        done += question;
        n = n - head > MESSAGE_MAX - done ? MESSAGE_MAX - done : n - head;
        memcpy(answer + done, data + head, n);
        return done + n;
}

static void on_query(void *userdata, uint32_t events _unused_) {
        Trial *trial = userdata;
        uint8_t query[MESSAGE_MAX + 1] = {}, answer[MESSAGE_MAX];
        struct sockaddr_in from;
        socklen_t from_size = sizeof(from);
        ssize_t n = recvfrom(trial->server.fd, query, MESSAGE_MAX, MSG_DONTWAIT,
                             (struct sockaddr *) &from, &from_size);
        size_t size;

        FUZZ_ASSERT(n > (ssize_t) QUESTION_AT);
        (void) loop_timer_set(trial->loop, &trial->idle, now_usec() + IDLE_USEC);
        if (trial->n_asked++ > 0 && trial->data[0] & FIRST_ONLY)
                return;
        size = write_answer(trial, query, (size_t) n, answer);
        (void) sendto(trial->server.fd, answer, size, 0, (struct sockaddr *) &from, from_size);
}

static void on_idle(void *userdata) {
        loop_stop(((Trial *) userdata)->loop);
}

static void check_chain(const char *chain) {
        FUZZ_ASSERT(strnlen(chain, RESOLVER_CHAIN_MAX) < RESOLVER_CHAIN_MAX);
        for (; *chain; chain++)
                FUZZ_ASSERT(*chain >= ' ' && *chain <= '~');
}

static void on_told(void *userdata, const ResolverAnswer *answer) {
        Trial *trial = userdata;

        trial->n_told++;
        FUZZ_ASSERT(answer->n_addresses <= RESOLVER_ADDRESSES_MAX);
        FUZZ_ASSERT(!answer->error || answer->n_addresses == 0);
        check_chain(answer->chain);
        for (size_t i = 0; i < answer->n_addresses; i++) {
                FUZZ_ASSERT(answer->addresses[i].family == AF_INET ||
                            answer->addresses[i].family == AF_INET6);
                FUZZ_ASSERT(trial->n_asked > 0 ||
                            address_equal(&answer->addresses[i], &trial->addresses[i]));
                trial->addresses[i] = answer->addresses[i];
        }
        FUZZ_ASSERT(trial->n_asked > 0 || answer->n_addresses == trial->n_addresses);
        trial->n_addresses = answer->n_addresses;
        loop_stop(trial->loop);
}

static int open_server(struct sockaddr_in *ret_address) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        FUZZ_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *) &address, size) == 0);
        FUZZ_ASSERT(getsockname(fd, (struct sockaddr *) &address, &size) == 0);
        *ret_address = address;
        return fd;
}

static void ask(Trial *trial, Resolver *resolver) {
        ResolverQuery *query;

        trial->n_asked = trial->n_told = 0;
        FUZZ_ASSERT(resolver_ask(resolver, "a.example", on_told, trial, &query) == 0);
        FUZZ_ASSERT(loop_timer_set(trial->loop, &trial->idle, now_usec() + IDLE_USEC) == 0);
        FUZZ_ASSERT(loop_run(trial->loop) == 0);
        FUZZ_ASSERT(trial->n_told <= 1);
        if (trial->n_told == 0)
                resolver_query_cancel(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(loop_freep) Loop *loop = NULL;
        _cleanup_(resolver_freep) Resolver *resolver = NULL;
        _cleanup_(strv_done) StrV servers = STRV_NULL;
        struct sockaddr_in address;
        Trial trial = {.data = data,
                       .size = size,
                       .server = {.on_ready = on_query, .userdata = &trial},
                       .idle = {.on_time = on_idle, .userdata = &trial}};

        if (size == 0)
                return 0;

        FUZZ_ASSERT(loop_new(&loop) == 0);
        trial.loop = loop;
        trial.server.fd = open_server(&address);
        FUZZ_ASSERT(loop_add(loop, &trial.server, EPOLLIN) == 0);
        FUZZ_ASSERT(strv_appendf(&servers, "127.0.0.1:%u", ntohs(address.sin_port)) == 0);
        FUZZ_ASSERT(resolver_new(loop, &servers, &resolver) == 0);

        ask(&trial, resolver);
        if (trial.n_addresses > 0)
                ask(&trial, resolver);

        resolver = resolver_free(resolver);
        loop_timer_stop(&trial.idle);
        loop_remove(&trial.server);
        close(trial.server.fd);
        return 0;
}
