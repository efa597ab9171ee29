/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-egress: alone has the network. It serves the names that crates may reach at sockets in
 * their net namespaces, and posts batches of traces to the collector that it was told of.
 *
 * Without arguments it is a child of agentcrated or agentcrate-run; with them, it is a system
 * service.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "basic/macros.h"
#include "egress/harden.h"
#include "egress/serve.h"
#include "egress/service.h"
#include "seccomp/table.h"

#define EGRESS_LINK_FD 3

static bool link_is_ours(int fd) {
        int domain = 0, type = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
               fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int main(int argc, char *argv[]) {
        _cleanup_(secret_folders_done) SecretFolders secrets = SECRET_FOLDERS_NULL;
        const struct sigaction ignore = {.sa_handler = SIG_IGN};

        (void) sigaction(SIGPIPE, &ignore, NULL);
        (void) sigaction(SIGXFSZ, &ignore, NULL);
        if (argc > 1)
                return service_main(argc, argv, &seccomp_table[0]);
        if (!link_is_ours(EGRESS_LINK_FD)) {
                fputs("agentcrate-egress: this program is started by agentcrated or "
                      "agentcrate-run, "
                      "which hand it a socket as file descriptor 3\n",
                      stderr);
                return EXIT_FAILURE;
        }
        if (secret_folders_find(false, &secrets) < 0 ||
            harden(&secrets, seccomp_table[0].filter, seccomp_table[0].n_filter) < 0)
                return EXIT_FAILURE;
        return serve_host(EGRESS_LINK_FD, &secrets) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
