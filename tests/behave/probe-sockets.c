/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "probe.h"

/* Raw, so that all 64 bits of the family arrive. */
static void answer_socket(char *const *args) {
        say_result(
                result_of(syscall(SYS_socket, number(args[0]), number(args[1]), number(args[2]))));
}

static void answer_socketpair(char *const *args) {
        int fds[2];

        say_result(result_of(syscall(SYS_socketpair, number(args[0]), number(args[1]), 0L, fds)));
}

static void connect_unix(const char *name, bool abstract) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;
        size_t size = strlen(name);

        if (size + 1 >= sizeof(address.sun_path)) {
                say("name too long");
                return;
        }
        memcpy(address.sun_path + (abstract ? 1 : 0), name, size);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
                say("socket ");
                say_result(-errno);
                return;
        }
        say_result(result_of(
                connect(fd, (struct sockaddr *) &address,
                        (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size + 1))));
}

static void answer_connect_abstract(char *const *args) {
        connect_unix(args[0], true);
}

static void answer_connect_path(char *const *args) {
        connect_unix(args[0], false);
}

/* Four numbers of an address and a port. */
static void answer_connect_inet(char *const *args) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl((uint32_t) number(args[0])),
                                      .sin_port = htons((uint16_t) number(args[1]))};
        _cleanup_(fd_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0) {
                say("socket ");
                say_result(-errno);
                return;
        }
        say_result(result_of(connect(fd, (struct sockaddr *) &address, sizeof(address))));
}

static void answer_interfaces(char *const *args _unused_) {
        struct if_nameindex *interfaces = if_nameindex();

        if (!interfaces) {
                say_result(-errno);
                return;
        }
        for (struct if_nameindex *i = interfaces; i->if_name; i++)
                say("%s%s", i == interfaces ? "" : " ", i->if_name);
        if_freenameindex(interfaces);
}

/* The job has no power over the net namespace: its own loopback cannot be taken down. */
static void answer_lo_down(char *const *args _unused_) {
        struct ifreq request = {.ifr_name = "lo"};
        _cleanup_(fd_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0) {
                say("flags ");
                say_result(-errno);
                return;
        }
        say("%s ", request.ifr_flags & IFF_UP ? "up" : "down");
        request.ifr_flags &= ~IFF_UP;
        say_result(result_of(ioctl(fd, SIOCSIFFLAGS, &request)));
}

/* Own servers on loopback work. */
static void answer_loopback(char *const *args _unused_) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        _cleanup_(fd_closep) int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_(fd_closep) int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t size = sizeof(address);

        if (bind(server, (struct sockaddr *) &address, size) < 0 || listen(server, 1) < 0 ||
            getsockname(server, (struct sockaddr *) &address, &size) < 0) {
                say("listen ");
                say_result(-errno);
                return;
        }
        say_result(result_of(connect(client, (struct sockaddr *) &address, size)));
}

const Question probe_sockets[] = {
        {"socket", 3, false, answer_socket},
        {"socketpair", 2, false, answer_socketpair},
        {"connect-abstract", 1, false, answer_connect_abstract},
        {"connect-path", 1, false, answer_connect_path},
        {"connect-inet", 2, false, answer_connect_inet},
        {"interfaces", 0, false, answer_interfaces},
        {"lo-down", 0, false, answer_lo_down},
        {"loopback", 0, false, answer_loopback},
        {},
};
