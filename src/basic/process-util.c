/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/process-util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/string-util.h"

/* System calls only, since it is called between vfork and exec too. Returns the errno. */
static int child_set_up(int link_fd, int at_fd) {
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
        return 0;
}

/* Between vfork and exec. Returns the errno, which the parent sees since it lends its memory. */
static int spawn_child(const char *program, char *const *argv, char *const *environment,
                       int link_fd, int at_fd) {
        int error;

        error = child_set_up(link_fd, at_fd);
        if (error != 0)
                return error;
        (void) execve(program, argv, environment);
        return errno;
}

static int spawn(const char *program, const char *name, char *const *environment, int link_fd,
                 int at_fd, pid_t *ret_pid) {
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
                error = spawn_child(program, argv, environment, link_fd, at_fd);
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

int process_spawn_with_link(const char *program, const char *name, int link_fd, int at_fd,
                            pid_t *ret_pid) {
        char *const environment[] = {NULL};

        return spawn(program, name, environment, link_fd, at_fd, ret_pid);
}

int process_spawn_with_link_env(const char *program, const char *name, int link_fd, int at_fd,
                                const char *const *names, pid_t *ret_pid) {
        _cleanup_(strv_done) StrV environment = STRV_NULL;
        char *const none[] = {NULL};
        int r = 0;

        for (; *names && r == 0; names++) {
                const char *value = secure_getenv(*names);

                if (value)
                        r = strv_env_set(&environment, *names, value);
        }
        if (r < 0)
                return error_trace(r);
        return spawn(program, name, environment.items ?: none, link_fd, at_fd, ret_pid);
}

/*
 * The strings of argv and of the environment lie one behind the other, as the kernel put them
 * there, and the kernel shows that place to others. What a caller moved elsewhere (setenv) is
 * overwritten too, but is not counted as part of the place.
 */
static void forget_caller(const char *name, char **argv) {
        char *start = argv[0], *end = start;

        for (char **list = argv; list; list = list == argv ? environ : NULL)
                for (char **string = list; *string; string++) {
                        size_t size = strlen(*string) + 1;

                        if (*string == end)
                                end += size;
                        explicit_bzero(*string, size);
                }
        if (end > start)
                memcpy(start, name, size_min(strlen(name), (size_t) (end - start) - 1));
        environ = NULL;
        (void) prctl(PR_SET_NAME, name, 0, 0, 0);
}

pid_t process_fork(void) {
        struct clone_args args = {.exit_signal = SIGCHLD};
        long pid;

        pid = syscall(SYS_clone3, &args, sizeof(args));
        return pid < 0 && errno == ENOSYS ? fork() : (pid_t) pid;
}

int process_fork_with_link(const char *name, char **argv, int link_fd, int at_fd,
                           int (*run)(int link_fd), pid_t *ret_pid) {
        pid_t pid;

        pid = process_fork();
        if (pid < 0)
                return error_origin(negative_errno());
        if (pid == 0) {
                forget_caller(name, argv);
                if (child_set_up(link_fd, at_fd) != 0)
                        _exit(127);
                _exit(run(at_fd));
        }
        *ret_pid = pid;
        return 0;
}

void process_end(pid_t pid, int msec) {
        _cleanup_(fd_closep) int pid_fd = pidfd_open(pid, 0);
        struct pollfd poll_fd = {.fd = pid_fd, .events = POLLIN};

        if (pid_fd < 0 || poll(&poll_fd, 1, msec) <= 0)
                (void) kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}
