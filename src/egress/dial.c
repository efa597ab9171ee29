/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/time-util.h"

#define NEXT_USEC (250 * USEC_PER_MSEC)
#define WHOLE_USEC (20 * USEC_PER_SEC)
/* A server that has not said anything for the first of these is asked whether it is there, again
 * after each of the second, and given up after that many. There is no limit for what was sent and
 * not acknowledged but the kernel's own: it would end those as well that only read slowly. */
#define KEEP_IDLE_SEC 60
#define KEEP_AGAIN_SEC 15
#define KEEP_TRIES 4

typedef struct Attempt {
        Dial *dial;
        LoopFd fd; /* fd.fd is owned; negative: none */
} Attempt;

struct Dial {
        Loop *loop;
        DialDone done;
        void *userdata;
        uint16_t port;
        int error;
        const Address *failed; /* the last one that did */
        size_t n_attempts, n_addresses;
        size_t n_pending;
        LoopTimer next_timer, whole_timer;
        LoopTask fail_task;
        Address addresses[DIAL_ADDRESSES_MAX];
        Attempt attempts[DIAL_ADDRESSES_MAX];
};

static void attempt_end(Attempt *attempt) {
        if (attempt->fd.fd < 0)
                return;
        loop_remove(&attempt->fd);
        attempt->fd.fd = fd_close(attempt->fd.fd);
        attempt->dial->n_pending--;
}

Dial *dial_free(Dial *dial) {
        if (!dial)
                return NULL;

        for (size_t i = 0; i < dial->n_attempts; i++)
                attempt_end(&dial->attempts[i]);
        loop_timer_stop(&dial->next_timer);
        loop_timer_stop(&dial->whole_timer);
        loop_task_cancel(&dial->fail_task);
        free(dial);
        return NULL;
}

/* In this order: whoever is told may free everything that the dial belongs to. */
static void dial_end(Dial *dial, int fd, const Address *address) {
        Address chosen = *address;
        void *userdata = dial->userdata;
        DialDone done = dial->done;

        dial_free(dial);
        done(userdata, fd, &chosen);
}

static void on_fail(void *userdata) {
        Dial *dial = userdata;

        dial_end(dial, dial->error, dial->failed);
}

static void on_whole_time(void *userdata) {
        Dial *dial = userdata;

        dial_end(dial, -ETIMEDOUT, &dial->addresses[0]);
}

static void try_next(Dial *dial);

static void on_attempt(void *userdata, uint32_t events _unused_) {
        Attempt *attempt = userdata;
        Dial *dial = attempt->dial;
        socklen_t size = sizeof(int);
        int error = 0;

        if (getsockopt(attempt->fd.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                error = errno;
        if (error != 0) {
                dial->error = -error;
                dial->failed = &dial->addresses[attempt - dial->attempts];
                attempt_end(attempt);
                try_next(dial);
                return;
        }
        loop_remove(&attempt->fd);
        dial->n_pending--;
        dial_end(dial, TAKE_FD(attempt->fd.fd), &dial->addresses[attempt - dial->attempts]);
}

static void keep_alive(int fd) {
        static const struct {
                int level, name, value;
        } options[] = {
                {SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_SEC},
                {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_AGAIN_SEC},
                {IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES},
        };

        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                (void) setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                                  sizeof(options[i].value));
}

static int attempt_begin(Dial *dial, Attempt *attempt, const Address *address) {
        struct sockaddr_storage name;
        socklen_t size = address_to_sockaddr(address, dial->port, &name);
        const int one = 1;
        int fd;

        fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0)
                return error_origin(negative_errno());
        attempt->fd = (LoopFd){.fd = fd, .on_ready = on_attempt, .userdata = attempt};
        attempt->dial = dial;
        dial->n_pending++;
        /* What the client sends is sent on as it comes. */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        keep_alive(fd);
        if ((connect(fd, (struct sockaddr *) &name, size) < 0 && errno != EINPROGRESS) ||
            loop_add(dial->loop, &attempt->fd, EPOLLOUT) < 0) {
                int error = negative_errno();

                attempt_end(attempt);
                return error;
        }
        return 0;
}

static void try_next(Dial *dial) {
        while (dial->n_attempts < dial->n_addresses) {
                size_t i = dial->n_attempts++;
                int r = attempt_begin(dial, &dial->attempts[i], &dial->addresses[i]);

                if (r == 0) {
                        (void) loop_timer_set(dial->loop, &dial->next_timer,
                                              now_usec() + NEXT_USEC);
                        return;
                }
                dial->error = r;
                dial->failed = &dial->addresses[i];
        }
        if (dial->n_pending == 0)
                loop_defer(dial->loop, &dial->fail_task);
}

static void on_next_time(void *userdata) {
        try_next(userdata);
}

/* Families take turns, beginning with that of the first one. */
static void order(Dial *dial, const Address *addresses, size_t n) {
        bool used[DIAL_ADDRESSES_MAX] = {};
        sa_family_t family = addresses[0].family;

        while (dial->n_addresses < n) {
                size_t i = 0;

                while (i < n && (used[i] || addresses[i].family != family))
                        i++;
                if (i < n) {
                        used[i] = true;
                        dial->addresses[dial->n_addresses++] = addresses[i];
                }
                family = family == AF_INET ? AF_INET6 : AF_INET;
        }
}

int dial_new(Loop *loop, const Address *addresses, size_t n_addresses, uint16_t port, DialDone done,
             void *userdata, Dial **ret_dial) {
        Dial *dial;
        int r;

        if (n_addresses == 0 || n_addresses > DIAL_ADDRESSES_MAX)
                return error_origin(-EINVAL);
        dial = calloc(1, sizeof(*dial));
        if (!dial)
                return error_origin(-ENOMEM);
        dial->loop = loop;
        dial->done = done;
        dial->userdata = userdata;
        dial->port = port;
        dial->next_timer = (LoopTimer){.on_time = on_next_time, .userdata = dial};
        dial->whole_timer = (LoopTimer){.on_time = on_whole_time, .userdata = dial};
        dial->fail_task = (LoopTask){.run = on_fail, .userdata = dial};
        for (size_t i = 0; i < DIAL_ADDRESSES_MAX; i++)
                dial->attempts[i].fd.fd = -EBADF;
        order(dial, addresses, n_addresses);
        r = loop_timer_set(loop, &dial->whole_timer, now_usec() + WHOLE_USEC);
        if (r < 0) {
                dial_free(dial);
                return error_trace(r);
        }
        try_next(dial);
        *ret_dial = dial;
        return 0;
}
