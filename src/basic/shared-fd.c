/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/shared-fd.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "basic/error.h"
#include "basic/macros.h"

/* What a pipe takes for sure once poll says that it has room; a terminal promises less. */
#define PIPE_CHUNK 4096U
#define TERMINAL_CHUNK 128U

void shared_fd_init_read(SharedFd *file, int fd) {
        struct stat st;

        *file = SHARED_FD_NULL;
        file->fd = fd;
        if (fstat(fd, &st) < 0)
                return;
        if (S_ISSOCK(st.st_mode))
                file->how = SHARED_FD_SOCKET;
        else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
                file->how = SHARED_FD_NOWAIT;
}

void shared_fd_init_write(SharedFd *file, int fd) {
        char path[40];

        shared_fd_init_read(file, fd);
        if (!isatty(fd))
                return;

        /* Terminals know no "do not wait" for a single write, but they can be opened once more. */
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        file->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file->own_fd >= 0) {
                file->fd = file->own_fd;
                file->how = SHARED_FD_OWN;
        }
}

void shared_fd_done(SharedFd *file) {
        (void) fd_close(file->own_fd);
        *file = SHARED_FD_NULL;
}

/* For kernels and files that refuse RWF_NOWAIT. */
static bool is_refused(void) {
        return errno == EOPNOTSUPP || errno == ENOSYS;
}

static bool is_ready(int fd, short events) {
        struct pollfd poll_fd = {.fd = fd, .events = events};

        if (poll(&poll_fd, 1, 0) > 0)
                return true;
        errno = EAGAIN;
        return false;
}

ssize_t shared_fd_read(const SharedFd *file, void *data, size_t size) {
        struct iovec iov = {.iov_base = data, .iov_len = size};
        ssize_t n;

        switch (file->how) {
        case SHARED_FD_SOCKET:
                return recv(file->fd, data, size, MSG_DONTWAIT);
        case SHARED_FD_NOWAIT:
                n = preadv2(file->fd, &iov, 1, -1, RWF_NOWAIT);
                if (n >= 0 || !is_refused())
                        return n;
                return is_ready(file->fd, POLLIN) ? read(file->fd, data, size) : -1;
        case SHARED_FD_PLAIN:
        case SHARED_FD_OWN:
                break;
        }
        return read(file->fd, data, size);
}

ssize_t shared_fd_write(const SharedFd *file, const void *data, size_t size) {
        struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
        ssize_t n;

        switch (file->how) {
        case SHARED_FD_SOCKET:
                return send(file->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        case SHARED_FD_NOWAIT:
                n = pwritev2(file->fd, &iov, 1, -1, RWF_NOWAIT);
                if (n >= 0 || !is_refused())
                        return n;
                size = size_min(size, isatty(file->fd) ? TERMINAL_CHUNK : PIPE_CHUNK);
                return is_ready(file->fd, POLLOUT) ? write(file->fd, data, size) : -1;
        case SHARED_FD_PLAIN:
        case SHARED_FD_OWN:
                break;
        }
        return write(file->fd, data, size);
}

int standard_fds_fill(void) {
        int fd;

        do {
                fd = open("/dev/null", O_RDWR);
                if (fd < 0)
                        return error_origin(negative_errno());
        } while (fd <= STDERR_FILENO);
        (void) fd_close(fd);
        return 0;
}
