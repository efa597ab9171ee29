/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/buffer-pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "basic/error.h"
#include "basic/macros.h"

static void large_free(BufferPool *pool, char *data) {
        (void) munmap(data, BUFFER_LARGE);
        pool->n_large--;
}

void buffer_pool_done(BufferPool *pool) {
        while (pool->n_kept > 0)
                large_free(pool, pool->kept[--pool->n_kept]);
}

static int small_take(Buffer *ret_buffer) {
        char *data = malloc(BUFFER_SMALL);

        if (!data)
                return error_origin(-ENOMEM);
        *ret_buffer = (Buffer){data, BUFFER_SMALL};
        return 0;
}

/* Mapped for themselves, so that one which is not kept goes back to the kernel. */
int buffer_pool_take(BufferPool *pool, Buffer *ret_buffer) {
        void *data;

        if (pool->n_kept > 0) {
                *ret_buffer = (Buffer){pool->kept[--pool->n_kept], BUFFER_LARGE};
                return 0;
        }
        if (pool->n_large >= BUFFERS_LARGE_MAX)
                return small_take(ret_buffer);
        data = mmap(NULL, BUFFER_LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
                return small_take(ret_buffer);
        pool->n_large++;
        *ret_buffer = (Buffer){data, BUFFER_LARGE};
        return 0;
}

void buffer_pool_give(BufferPool *pool, Buffer *buffer) {
        if (buffer->size == BUFFER_SMALL)
                free(buffer->data);
        else if (buffer->data && pool->n_kept < ELEMENTSOF(pool->kept))
                pool->kept[pool->n_kept++] = buffer->data;
        else if (buffer->data)
                large_free(pool, buffer->data);
        *buffer = BUFFER_NULL;
}
