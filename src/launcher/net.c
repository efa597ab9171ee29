/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sched.h>
#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "plan/plan.h"

/* lo is the first interface of every net namespace. */
#define LO_INDEX 1
/* More than any of our requests or their acknowledgements takes. libnl's own sizes are pages. */
#define MESSAGE_SIZE 256U

static int nl_to_errno(int error) {
        switch (error) {
        case -NLE_OPNOTSUPP:
        case -NLE_AF_NOSUPPORT:
                return -EAFNOSUPPORT;
        case -NLE_PERM:
        case -NLE_NOACCESS:
                return -EPERM;
        case -NLE_NOMEM:
                return -ENOMEM;
        default:
                return -EIO;
        }
}

static struct nl_msg *request_new(int type, int flags) {
        struct nl_msg *message = nlmsg_alloc_size(MESSAGE_SIZE);

        if (message && !nlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, type, 0, flags)) {
                nlmsg_free(message);
                return NULL;
        }
        return message;
}

/* Sends the message, waits for its acknowledgement and frees it. */
static int request(struct nl_sock *socket, struct nl_msg *message) {
        int r;

        r = nl_send_sync(socket, message);
        return r < 0 ? nl_to_errno(r) : 0;
}

static int lo_up(struct nl_sock *socket) {
        struct ifinfomsg info = {.ifi_index = LO_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
        struct nl_msg *message;

        message = request_new(RTM_NEWLINK, 0);
        if (!message || nlmsg_append(message, &info, sizeof(info), NLMSG_ALIGNTO) < 0)
                return -ENOMEM;
        return request(socket, message);
}

/* The host may pace what it sends, for a network that has queues; to the process at the other end
 * of a relay there is none, and pacing costs half of the throughput. */
static int put_metrics(struct nl_msg *message) {
        struct nlattr *metrics = nla_nest_start(message, RTA_METRICS);

        if (!metrics || nla_put_string(message, RTAX_CC_ALGO, "reno") < 0)
                return -ENOMEM;
        nla_nest_end(message, metrics);
        return 0;
}

/* Makes every address of the prefix one of this namespace's own, without adding addresses. */
static int local_route(struct nl_sock *socket, int family, const char *prefix,
                       unsigned char length) {
        struct rtmsg route = {
                .rtm_family = (unsigned char) family,
                .rtm_dst_len = length,
                .rtm_table = RT_TABLE_LOCAL,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                .rtm_type = RTN_LOCAL,
        };
        struct nl_msg *message;
        struct in6_addr address;

        if (inet_pton(family, prefix, &address) != 1)
                return -EINVAL;
        message = request_new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
        if (!message || nlmsg_append(message, &route, sizeof(route), NLMSG_ALIGNTO) < 0 ||
            nla_put(message, RTA_DST, family == AF_INET ? 4 : 16, &address) < 0 ||
            nla_put_u32(message, RTA_OIF, LO_INDEX) < 0 || put_metrics(message) < 0)
                return -ENOMEM;
        return request(socket, message);
}

static int net_configure(ProtoFailure *ret_failure) {
        struct nl_sock *socket;
        int r;

        socket = nl_socket_alloc();
        if (!socket)
                return failure_set(ret_failure, ENOMEM, "netlink", "");

        /* Answers are small: each is read at once, not measured first. */
        nl_socket_disable_msg_peek(socket);
        r = nl_socket_set_msg_buf_size(socket, MESSAGE_SIZE);
        if (r == 0)
                r = nl_connect(socket, NETLINK_ROUTE);
        if (r < 0)
                r = failure_set(ret_failure, -nl_to_errno(r), "netlink", "");
        if (r == 0) {
                r = lo_up(socket);
                if (r < 0)
                        r = failure_set(ret_failure, -r, "lo-up", "lo");
        }
        if (r == 0) {
                r = local_route(socket, AF_INET, PLAN_NET4, PLAN_NET4_PREFIX);
                if (r < 0)
                        r = failure_set(ret_failure, -r, "local-route", PLAN_NET4);
        }
        if (r == 0) {
                /* A host without IPv6 has crates without IPv6. */
                r = local_route(socket, AF_INET6, PLAN_NET6, PLAN_NET6_PREFIX);
                if (r < 0 && r != -EAFNOSUPPORT && r != -EPERM)
                        r = failure_set(ret_failure, -r, "local-route", PLAN_NET6);
                else
                        r = 0;
        }

        nl_socket_free(socket);
        return r;
}

static int net_make(ProtoFailure *ret_failure) {
        int r;

        if (unshare(CLONE_NEWNET) < 0)
                return failure_here(ret_failure, "net-namespace", "");
        r = net_configure(ret_failure);
        return r < 0 ? error_trace(r) : 0;
}

int net_stock_add(NetStock *stock, ProtoFailure *ret_failure) {
        int fd, r;

        if (stock->n_fds == NET_STOCK_MAX)
                return failure_set(ret_failure, ENOSPC, "net-stock", "");
        r = net_make(ret_failure);
        if (r < 0)
                return error_trace(r);
        fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return failure_here(ret_failure, "net-stock", "/proc/self/ns/net");
        stock->fds[stock->n_fds++] = fd;
        return 0;
}

int net_stock_enter(NetStock *stock, ProtoFailure *ret_failure) {
        int r;

        if (stock->n_fds == 0)
                return net_make(ret_failure);

        if (setns(stock->fds[0], CLONE_NEWNET) < 0)
                return failure_here(ret_failure, "net-enter", "");
        r = fd_close(stock->fds[0]);
        (void) r;
        stock->n_fds--;
        memmove(stock->fds, stock->fds + 1, stock->n_fds * sizeof(stock->fds[0]));
        return 0;
}

void net_stock_done(NetStock *stock) {
        for (size_t i = 0; i < stock->n_fds; i++)
                stock->fds[i] = fd_close(stock->fds[i]);
        stock->n_fds = 0;
}
