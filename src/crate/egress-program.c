/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/egress-program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "basic/string-util.h"
#include "ipc/link.h"

#define EGRESS_LINK_FD 3
#define EGRESS_END_MSEC 20

char *egress_program(void) {
        const char *folder = secure_getenv("AGENTCRATE_LIBEXEC_DIR");
        char *path;

        return asprintf(&path, "%s/" EGRESS_NAME, string_empty(folder) ? LIBEXECDIR : folder) < 0
                       ? NULL
                       : path;
}

static int spawn(bool with_secrets, int *ret_fd, pid_t *ret_pid, CrateError *ret_error) {
        static const char *const secrets[] = {"CREDENTIALS_DIRECTORY", "XDG_CONFIG_HOME", "HOME",
                                              NULL};
        static const char *const nothing[] = {NULL};
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        _cleanup_(freep) char *program = egress_program();
        int r;

        if (!program)
                return error_origin(-ENOMEM);
        r = link_pair(&ours, &theirs);
        if (r < 0)
                return error_trace(r);
        r = process_spawn_with_link_env(program, EGRESS_NAME, theirs, EGRESS_LINK_FD,
                                        with_secrets ? secrets : nothing, ret_pid);
        if (r < 0) {
                (void) crate_error_set(
                        ret_error, "egress", -r, program,
                        "install AgentCrate completely, or set AGENTCRATE_LIBEXEC_DIR",
                        "%s cannot be started: %s", program, strerror(-r));
                return EGRESS_PROGRAM_E_FAILED;
        }
        *ret_fd = TAKE_FD(ours);
        return 0;
}

static int connect_to(const char *path, int *ret_fd, CrateError *ret_error) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;
        int error = ENAMETOOLONG;

        /* Nor may a full queue of the socket hold anybody up. */
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_origin(negative_errno());
        if (strlen(path) < sizeof(address.sun_path)) {
                memcpy(address.sun_path, path, strlen(path) + 1);
                error = connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ? errno : 0;
        }
        if (error != 0) {
                (void) crate_error_set(
                        ret_error, "egress", error, path, "start agentcrate-egress.socket",
                        "the egress service cannot be reached by %s: %s", path, strerror(error));
                return EGRESS_PROGRAM_E_FAILED;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int egress_program_open(const char *path, bool with_secrets, int *ret_fd, pid_t *ret_pid,
                        CrateError *ret_error) {
        if (!path)
                return spawn(with_secrets, ret_fd, ret_pid, ret_error);
        *ret_pid = 0;
        return connect_to(path, ret_fd, ret_error);
}

void egress_program_end(pid_t *pid) {
        if (*pid > 0)
                process_end(*pid, EGRESS_END_MSEC);
        *pid = 0;
}
