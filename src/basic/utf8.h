/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF. NUL is a
 * character like any other.
 */

/* The size of the longest prefix that is valid and ends between two characters. */
size_t utf8_valid_size(const char *text, size_t size);

static inline bool utf8_is_valid(const char *text, size_t size) {
        return utf8_valid_size(text, size) == size;
}

/* How many bytes at the end are the beginning of a character whose rest is missing: 0 to 3. */
size_t utf8_incomplete_size(const char *text, size_t size);

/* How many bytes at the beginning can only be the rest of a character whose beginning is missing: 0
 * to 3. */
size_t utf8_orphaned_size(const char *text, size_t size);

/* A copy in which each byte that belongs to no character is replaced by U+FFFD. For texts of
 * foreign origin that must go into JSON. Owned by the caller, NULL if out of memory. */
char *utf8_replace_invalid(const char *text);
