/* SPDX-License-Identifier: Apache-2.0 */
#include "run/terminal.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"

void terminal_init(Terminal *terminal) {
        *terminal = TERMINAL_NULL;
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (isatty(fd)) {
                        terminal->fd = fd;
                        return;
                }
}

void terminal_get_size(const Terminal *terminal, uint16_t *ret_rows, uint16_t *ret_columns) {
        struct winsize size = {};

        if (terminal->fd >= 0)
                (void) ioctl(terminal->fd, TIOCGWINSZ, &size);
        *ret_rows = size.ws_row ?: 24;
        *ret_columns = size.ws_col ?: 80;
}

void terminal_copy_size(const Terminal *terminal, int master) {
        struct winsize size;

        if (terminal->fd >= 0 && ioctl(terminal->fd, TIOCGWINSZ, &size) >= 0)
                (void) ioctl(master, TIOCSWINSZ, &size);
}

/* The mode may be set from the background too, when we no longer are the terminal's foreground. */
static void terminal_set(int fd, const struct termios *mode) {
        sigset_t block, saved;

        (void) sigemptyset(&block);
        (void) sigaddset(&block, SIGTTOU);
        (void) sigprocmask(SIG_BLOCK, &block, &saved);
        while (tcsetattr(fd, TCSANOW, mode) < 0 && errno == EINTR)
                ;
        (void) sigprocmask(SIG_SETMASK, &saved, NULL);
}

/* The guard's whole life. It holds nothing but the terminal and the pipe, hears no signal that
 * could be meant for us, and is gone when we are. */
static _noreturn_ void guard_run(int fd, int pipe_fd, const struct termios *saved) {
        sigset_t all;
        ssize_t n;
        char byte;

        (void) sigfillset(&all);
        (void) sigprocmask(SIG_BLOCK, &all, NULL);
        (void) setpgid(0, 0);
        if (dup2(fd, STDIN_FILENO) < 0 || dup2(pipe_fd, STDOUT_FILENO) < 0 ||
            dup2(STDIN_FILENO, STDERR_FILENO) < 0)
                _exit(EXIT_FAILURE);
        (void) close_range(STDERR_FILENO + 1, ~0U, 0);
        do
                n = read(STDOUT_FILENO, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n == 0)
                terminal_set(STDIN_FILENO, saved);
        _exit(EXIT_SUCCESS);
}

static int guard_start(Terminal *terminal) {
        _cleanup_(fd_closep) int read_fd = -EBADF, write_fd = -EBADF;
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_origin(negative_errno());
        read_fd = fds[0];
        write_fd = fds[1];

        pid = fork();
        if (pid < 0)
                return error_origin(negative_errno());
        if (pid == 0)
                guard_run(terminal->fd, read_fd, &terminal->saved);
        terminal->guard = pid;
        terminal->guard_fd = TAKE_FD(write_fd);
        return 0;
}

static void guard_end(Terminal *terminal) {
        if (terminal->guard <= 0)
                return;
        (void) !write(terminal->guard_fd, "", 1);
        terminal->guard_fd = fd_close(terminal->guard_fd);
        while (waitpid(terminal->guard, NULL, 0) < 0 && errno == EINTR)
                ;
        terminal->guard = 0;
}

int terminal_make_raw(Terminal *terminal) {
        struct termios raw;
        int r;

        /* When only the output is a terminal, nobody types at us. */
        if (terminal->fd != STDIN_FILENO)
                return 0;
        if (tcgetattr(terminal->fd, &terminal->saved) < 0)
                return error_origin(negative_errno());
        r = guard_start(terminal);
        if (r < 0)
                return error_trace(r);

        raw = terminal->saved;
        cfmakeraw(&raw);
        if (tcsetattr(terminal->fd, TCSANOW, &raw) < 0) {
                r = negative_errno();
                guard_end(terminal);
                return error_origin(r);
        }
        terminal->is_raw = true;
        return 0;
}

void terminal_restore(Terminal *terminal) {
        if (terminal->is_raw)
                terminal_set(terminal->fd, &terminal->saved);
        terminal->is_raw = false;
        guard_end(terminal);
}
