/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* A memfd with these bytes, sealed against every change. name shows in /proc. 0 or a negative
 * errno. */
int memfd_new_sealed(const char *name, const void *data, size_t size, int *ret_fd);
/* Maps a sealed memfd of 1 … size_max bytes, read-only. -EPERM if it is not sealed, -EFBIG if it is
 * larger. munmap() it. */
int memfd_map_sealed(int fd, size_t size_max, const void **ret_data, size_t *ret_size);
