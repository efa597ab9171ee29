/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/pipe-pool.h"

#include <fcntl.h>

#include "basic/error.h"
#include "basic/macros.h"

void pipe_close(Pipe *pipe) {
        pipe->read_fd = fd_close(pipe->read_fd);
        pipe->write_fd = fd_close(pipe->write_fd);
}

void pipe_pool_done(PipePool *pool) {
        while (pool->n_items > 0)
                pipe_close(&pool->items[--pool->n_items]);
}

/* A larger one saves calls; a user who has too many of them gets small ones, which do as well. */
int pipe_pool_take(PipePool *pool, Pipe *ret_pipe) {
        int fds[2];

        if (pool->n_items > 0) {
                *ret_pipe = pool->items[--pool->n_items];
                return 0;
        }
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        (void) fcntl(fds[0], F_SETPIPE_SZ, (int) PIPE_SIZE);
        *ret_pipe = (Pipe){fds[0], fds[1]};
        return 0;
}

void pipe_pool_give(PipePool *pool, Pipe *pipe) {
        if (pipe->read_fd >= 0 && pool->n_items < PIPE_POOL_MAX) {
                pool->items[pool->n_items++] = *pipe;
                *pipe = PIPE_NULL;
        } else
                pipe_close(pipe);
}
