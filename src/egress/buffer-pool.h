/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory through which relays move bytes. A flow holds a buffer only while bytes are under way in
 * it, so idle connections have none. What is moved at once decides how often three processes wake
 * each other up, which costs more than the copying: large ones, then, to so many flows that a job
 * which takes nothing cannot fill the memory with them, and small ones to the others.
 */

#include <stddef.h>

#define BUFFER_LARGE (2U * 1024U * 1024U)
#define BUFFER_SMALL (64U * 1024U)
#define BUFFERS_LARGE_MAX 32U
/* That wait for the next one. */
#define BUFFERS_KEPT_MAX 4U

typedef struct Buffer {
        char *data; /* NULL: none */
        size_t size;
} Buffer;

#define BUFFER_NULL ((Buffer){NULL, 0})

typedef struct BufferPool {
        char *kept[BUFFERS_KEPT_MAX];
        size_t n_kept;
        size_t n_large; /* given out, or kept */
} BufferPool;

void buffer_pool_done(BufferPool *pool);
int buffer_pool_take(BufferPool *pool, Buffer *ret_buffer);
/* Takes back one, or BUFFER_NULL. */
void buffer_pool_give(BufferPool *pool, Buffer *buffer);
