/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-launcher: makes the crates of one template. It is small, single-threaded and static,
 * since each crate's init is a copy of it; it holds the template's tree and a stock of net
 * namespaces, and never JSON, D-Bus, credentials or a client's bytes.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "launcher/launcher-run.h"

#define LAUNCHER_LINK_FD 3

static bool link_is_ours(int fd) {
        int domain = 0, type = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
               fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int main(void) {
        if (!link_is_ours(LAUNCHER_LINK_FD)) {
                fputs("agentcrate-launcher: this program is started by agentcrated, which hands it "
                      "a socket as file descriptor 3; run agentcrate-run instead\n",
                      stderr);
                return EXIT_FAILURE;
        }
        return launcher_run(LAUNCHER_LINK_FD) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
