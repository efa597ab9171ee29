/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/process-util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"

/* Between vfork and exec: system calls only. Returns the errno, which the parent sees since it
 * lends its memory. */
static int spawn_child(const char *program, char *const *argv, int link_fd, int at_fd) {
        char *const environment[] = {NULL};
        sigset_t none;
        int null_fd;

        /* Above everything that is set below, so that nothing is overwritten before it is copied.
         */
        link_fd = fcntl(link_fd, F_DUPFD, at_fd + 1);
        if (link_fd < 0)
                return errno;
        null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd < 0)
                return errno;
        for (int fd = 0; fd < 3; fd++)
                if (fd == null_fd ? fcntl(fd, F_SETFD, 0) < 0 : dup2(null_fd, fd) < 0)
                        return errno;
        if (dup2(link_fd, at_fd) < 0 || close_range((unsigned) at_fd + 1, ~0U, 0) < 0)
                return errno;
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) execve(program, argv, environment);
        return errno;
}

int process_spawn_with_link(const char *program, const char *name, int link_fd, int at_fd,
                            pid_t *ret_pid) {
        char *const argv[] = {(char *) name, NULL};
        volatile int error = 0;
        sigset_t all, before;
        pid_t pid;

        /* No handler of ours may run in the child, which is on our stack. */
        (void) sigfillset(&all);
        if (sigprocmask(SIG_SETMASK, &all, &before) < 0)
                return error_origin(negative_errno());
        pid = vfork();
        if (pid == 0) {
                error = spawn_child(program, argv, link_fd, at_fd);
                _exit(127);
        }
        (void) sigprocmask(SIG_SETMASK, &before, NULL);
        if (pid < 0)
                return error_origin(negative_errno());
        if (error != 0) {
                (void) waitpid(pid, NULL, 0);
                return error_origin(-error);
        }
        *ret_pid = pid;
        return 0;
}
