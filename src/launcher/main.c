/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-launcher: makes crates. It is small, single-threaded and static, since each crate's
 * init is a copy of it; it holds templates' trees and stocks of net namespaces, and never JSON,
 * D-Bus, credentials or a client's bytes.
 *
 * Without arguments it is a child of agentcrated; with them, it is a system service.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ipc/frame.h"
#include "ipc/proto.h"
#include "launcher/parent.h"
#include "launcher/service.h"

#define PARENT_LINK_FD 3

static bool link_is_ours(int fd) {
        int domain = 0, type = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
               fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Whoever begins with the set-up of a launcher wants that one alone. */
static bool is_alone(int fd) {
        FrameHeader header = {};

        return recv(fd, &header, sizeof(header), MSG_PEEK) == sizeof(header) &&
               header.type == LAUNCHER_SETUP;
}

int main(int argc, char *argv[]) {
        const ParentConfig config = {.listen_fd = -EBADF};
        int r;

        if (argc > 1)
                return service_main(argc, argv);
        if (!link_is_ours(PARENT_LINK_FD)) {
                fputs("agentcrate-launcher: this program is started by agentcrated, which hands it "
                      "a socket as file descriptor 3; run agentcrate-run instead\n",
                      stderr);
                return EXIT_FAILURE;
        }
        r = is_alone(PARENT_LINK_FD) ? launcher_run(PARENT_LINK_FD)
                                     : parent_run(&config, PARENT_LINK_FD);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
