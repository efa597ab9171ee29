/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/host-address.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "basic/error.h"

struct HostAddresses {
        int monitor_fd;
        bool valid;
        Address *items;
        size_t n_items;
};

int host_addresses_new(HostAddresses **ret_addresses) {
        _cleanup_(host_addresses_freep) HostAddresses *addresses = calloc(1, sizeof(*addresses));
        const struct sockaddr_nl name = {.nl_family = AF_NETLINK,
                                         .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};

        if (!addresses)
                return error_origin(-ENOMEM);
        addresses->monitor_fd =
                socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        if (addresses->monitor_fd < 0 ||
            bind(addresses->monitor_fd, (const struct sockaddr *) &name, sizeof(name)) < 0)
                return error_origin(negative_errno());
        *ret_addresses = TAKE_PTR(addresses);
        return 0;
}

HostAddresses *host_addresses_free(HostAddresses *addresses) {
        if (!addresses)
                return NULL;

        fd_close(addresses->monitor_fd);
        free(addresses->items);
        free(addresses);
        return NULL;
}

/* What a message says is of no interest, nor whether some were lost. */
static void read_changes(HostAddresses *addresses) {
        char message[8192];

        while (recv(addresses->monitor_fd, message, sizeof(message), MSG_DONTWAIT) >= 0 ||
               errno == ENOBUFS)
                addresses->valid = false;
}

static int read_addresses(HostAddresses *addresses) {
        struct ifaddrs *list;
        size_t n = 0;

        if (getifaddrs(&list) < 0)
                return error_origin(negative_errno());
        for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
                n++;
        free(addresses->items);
        addresses->n_items = 0;
        addresses->items = calloc(n + 1, sizeof(Address));
        for (struct ifaddrs *entry = list; addresses->items && entry; entry = entry->ifa_next)
                if (entry->ifa_addr &&
                    address_from_sockaddr(entry->ifa_addr, &addresses->items[addresses->n_items]))
                        addresses->n_items++;
        freeifaddrs(list);
        if (!addresses->items)
                return error_origin(-ENOMEM);
        addresses->valid = true;
        return 0;
}

bool host_addresses_contain(void *userdata, const Address *address) {
        HostAddresses *addresses = userdata;

        read_changes(addresses);
        if (!addresses->valid && read_addresses(addresses) < 0)
                return true;
        for (size_t i = 0; i < addresses->n_items; i++)
                if (address_equal(&addresses->items[i], address))
                        return true;
        return false;
}
