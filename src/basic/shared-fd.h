/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading and writing of inherited files without ever waiting, and without touching their flags:
 * such a file description is shared with whoever started us, and a terminal or pipe that is
 * suddenly non-blocking breaks other programs.
 */

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

typedef enum SharedFdHow {
        SHARED_FD_PLAIN,  /* a file: reads and writes end by themselves */
        SHARED_FD_NOWAIT, /* asked each time not to wait; where the kernel cannot, little after poll
                           */
        SHARED_FD_SOCKET, /* the same by MSG_DONTWAIT */
        SHARED_FD_OWN,    /* not shared: a non-blocking description of our own */
} SharedFdHow;

typedef struct SharedFd {
        int fd;     /* to poll; borrowed, or own_fd */
        int own_fd; /* opened anew, if it was */
        SharedFdHow how;
} SharedFd;

#define SHARED_FD_NULL ((SharedFd){.fd = -EBADF, .own_fd = -EBADF})

/* fd is borrowed. */
void shared_fd_init_read(SharedFd *file, int fd);
void shared_fd_init_write(SharedFd *file, int fd);
void shared_fd_done(SharedFd *file);
/* As read and write on a non-blocking file; never SIGPIPE from a socket. */
ssize_t shared_fd_read(const SharedFd *file, void *data, size_t size);
ssize_t shared_fd_write(const SharedFd *file, const void *data, size_t size);

/* Opens /dev/null for those of 0 to 2 that are closed: the next file that is opened would take
 * their place, and somebody's output would go into it. 0 or a negative errno. */
int standard_fds_fill(void);
