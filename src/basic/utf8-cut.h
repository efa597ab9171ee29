/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text that was cut somewhere, or that comes from somewhere that knows nothing of UTF-8. */

#include <stddef.h>

/* How many bytes at the end are the beginning of a character whose rest is missing: 0 to 3. */
size_t utf8_incomplete_size(const char *text, size_t size);

/* How many bytes at the beginning can only be the rest of a character whose beginning is missing: 0
 * to 3. */
size_t utf8_orphaned_size(const char *text, size_t size);

/* A copy in which each byte that belongs to no character is replaced by U+FFFD. Owned by the
 * caller, NULL if out of memory. */
char *utf8_replace_invalid(const char *text);
