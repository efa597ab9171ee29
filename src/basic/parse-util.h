/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The values that options and configuration files share: sizes, times, counts, rates. One spelling
 * each, so that --limit, a template and a tool call mean the same by the same text.
 */

#include <stdint.h>

enum {
        _PARSE_E_SUCCESS,
        PARSE_E_SYNTAX,   /* not a number, or something behind it that is no suffix */
        PARSE_E_SUFFIX,   /* letters behind it that are no known suffix */
        PARSE_E_NEGATIVE, /* has a minus sign */
        PARSE_E_OVERFLOW, /* does not fit */
        PARSE_E_SMALL,    /* not zero, but less than the smallest step */
        PARSE_E_ZERO,     /* zero, where zero has no meaning */
};

/* Decimal digits only. */
int parse_uint64(const char *s, uint64_t *ret_value);
int parse_int32(const char *s, int *ret_value);
/* Digits and one of the suffixes K M G (1024-based). Bytes. Not zero. */
int parse_size(const char *s, uint64_t *ret_bytes);
/* A number (a fraction is allowed) and one of the suffixes ms s m h; without suffix seconds. Not
 * zero, at least 1 ms. Microseconds. */
int parse_time_usec(const char *s, uint64_t *ret_usec);
/* A positive decimal number such as 1.5, as milli-units (1500). Not zero. */
int parse_milli(const char *s, uint64_t *ret_milli);
/* Digits; not zero. */
int parse_count(const char *s, uint64_t *ret_count);

/* What is wrong with a text that gave PARSE_E_X, as a clause: "is negative", "has an unknown
 * suffix" … The caller adds what would be right. */
const char *parse_error_to_string(int outcome);
