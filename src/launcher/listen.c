/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/macros.h"

#define LISTEN_BACKLOG 128

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
} Address;

static socklen_t address_from_op(const PlanOp *op, Address *ret_address) {
        const in_port_t port = htons((uint16_t) op->a);

        *ret_address = (Address){};
        if (inet_pton(AF_INET, op->source, &ret_address->v4.sin_addr) == 1) {
                ret_address->v4.sin_family = AF_INET;
                ret_address->v4.sin_port = port;
                return sizeof(ret_address->v4);
        }
        (void) inet_pton(AF_INET6, op->source, &ret_address->v6.sin6_addr);
        ret_address->v6.sin6_family = AF_INET6;
        ret_address->v6.sin6_port = port;
        return sizeof(ret_address->v6);
}

/* Never SO_REUSEADDR: with it on both sides a job could take the port of a UDP socket. */
static int socket_make(const PlanOp *op) {
        const int type = op->flags & PLAN_DATAGRAM ? SOCK_DGRAM : SOCK_STREAM, yes = 1;
        _cleanup_(fd_closep) int fd = -EBADF;
        Address address;
        socklen_t size;

        size = address_from_op(op, &address);
        fd = socket(address.any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return negative_errno();
        /* The route makes its addresses local, but only for IPv4 bind() looks at routes. */
        if (address.any.sa_family == AF_INET6 &&
            (setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &yes, sizeof(yes)) < 0 ||
             setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) < 0))
                return negative_errno();
        if (bind(fd, &address.any, size) < 0)
                return negative_errno();
        if (type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) < 0)
                return negative_errno();
        return TAKE_FD(fd);
}

static size_t count(PlanReader plan) {
        size_t n = 0;
        PlanOp op;

        while (plan_reader_next(&plan, &op) == 0)
                n += op.type == PLAN_OP_LISTEN;
        return n;
}

int listens_make(Listens *listens, const PlanReader *plan, ProtoFailure *ret_failure) {
        const size_t n = count(*plan);
        PlanReader reader = *plan;
        uint32_t index = 0;
        PlanOp op;

        if (n == 0)
                return 0;
        if (n > PLAN_LISTENS_MAX)
                return failure_set(ret_failure, E2BIG, "listen", "");
        listens->items = calloc(n, sizeof(*listens->items));
        if (!listens->items)
                return failure_set(ret_failure, ENOMEM, "listen", "");
        while (plan_reader_next(&reader, &op) == 0) {
                int fd;

                if (op.type != PLAN_OP_LISTEN)
                        continue;
                fd = socket_make(&op);
                if (fd >= 0)
                        listens->items[listens->n_items++] = (Listen){fd, index};
                else if (!(op.flags & PLAN_OPTIONAL) || fd != -EAFNOSUPPORT)
                        return failure_set(ret_failure, -fd, "listen", op.source);
                index++;
        }
        return 0;
}

/* As many as follow each other and go into one frame. */
static size_t take_run(const Listens *listens, size_t first, int *ret_fds) {
        size_t n = 0;

        while (n < FRAME_FDS_MAX && first + n < listens->n_items &&
               listens->items[first + n].index == listens->items[first].index + n) {
                ret_fds[n] = listens->items[first + n].fd;
                n++;
        }
        return n;
}

int listens_send(Listens *listens, Link *link, uint32_t id) {
        int fds[FRAME_FDS_MAX], r = 0;
        size_t n;

        for (size_t i = 0; r == 0 && i < listens->n_items; i += n) {
                LauncherSockets message = {.first = listens->items[i].index};

                n = take_run(listens, i, fds);
                message.n = (uint32_t) n;
                r = link_send(link, LAUNCHER_SOCKETS, id, &message, sizeof(message), fds, n);
        }
        listens_done(listens);
        return r == 0 ? 0 : error_fold(r);
}

void listens_done(Listens *listens) {
        for (size_t i = 0; i < listens->n_items; i++)
                (void) fd_close(listens->items[i].fd);
        free(listens->items);
        *listens = (Listens){};
}
