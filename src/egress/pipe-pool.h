/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pipes for splice(2). One is held only while bytes are under way in it, so idle connections have
 * none, and a busy one finds its pipe in the processor's cache. */

#include <stddef.h>

#define PIPE_SIZE (256U * 1024U)
#define PIPE_POOL_MAX 16U

typedef struct Pipe {
        int read_fd, write_fd; /* negative: none */
} Pipe;

#define PIPE_NULL ((Pipe){-EBADF, -EBADF})

typedef struct PipePool {
        Pipe items[PIPE_POOL_MAX];
        size_t n_items;
} PipePool;

void pipe_pool_done(PipePool *pool);
int pipe_pool_take(PipePool *pool, Pipe *ret_pipe);
/* An empty one. */
void pipe_pool_give(PipePool *pool, Pipe *pipe);
/* One that may hold somebody's bytes. */
void pipe_close(Pipe *pipe);
