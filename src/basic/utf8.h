/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF. NUL is a
 * character like any other. */

#include <stdbool.h>
#include <stddef.h>

/* The bytes (1 … 4) of the character that s begins with; 0 if it begins with none. */
size_t utf8_sequence_size(const char *s, size_t size);
/* The size of the longest prefix that is valid. */
size_t utf8_valid_size(const char *s, size_t size);

static inline bool utf8_is_valid(const char *s, size_t size) {
        return utf8_valid_size(s, size) == size;
}
