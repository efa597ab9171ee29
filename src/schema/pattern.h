/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Regular expressions of the keyword pattern: PCRE2's, in UTF-8, unanchored as JSON Schema has
 * them.
 * "$" is the very end and not the place before a last newline, so that "^[a-z]+$" lets no line
 * break through; \d, \w and \s are ASCII.
 *
 * PCRE2's own match limit begins anew at each place where a match may begin, so that it bounds the
 * work only as a multiple of the text's length. Hence every item of a pattern that is tried is also
 * a step of the check's effort.
 */

#define PCRE2_CODE_UNIT_WIDTH 8

#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"
#include "schema/effort.h"

#define PATTERN_SIZE_MAX 1024U
#define PATTERN_NESTING_MAX 32U
#define PATTERN_SUBJECT_MAX 65536U
#define PATTERN_MATCH_MAX 500000U
#define PATTERN_DEPTH_MAX 100000U
#define PATTERN_HEAP_MAX_KIB 16384U

enum {
        _PATTERN_E_SUCCESS,
        PATTERN_E_INVALID, /* ret_error and ret_offset tell */
        PATTERN_E_SUBJECT, /* the text is longer than PATTERN_SUBJECT_MAX */
        PATTERN_E_SPENT,   /* a limit was met */
};

#define PATTERN_ERROR_SIZE 128U

/* Compiles; ret_code is freed by pcre2_code_free(). ret_offset counts bytes. 0, PATTERN_E_INVALID
 * or -ENOMEM. */
int pattern_compile(const char *text, size_t size, pcre2_code **ret_code,
                    char ret_error[PATTERN_ERROR_SIZE], size_t *ret_offset);

/* What matching needs and keeps from one match to the next; empty until the first. */
typedef struct Matcher {
        pcre2_match_context *context;
        pcre2_match_data *data;
        Effort *effort;
        uint64_t step; /* what one item of the pattern costs with the present text */
} Matcher;

void matcher_done(Matcher *matcher);
/* 0, PATTERN_E_SUBJECT, PATTERN_E_SPENT or a negative errno. The text is valid UTF-8. */
int matcher_match(Matcher *matcher, const pcre2_code *code, const char *text, size_t size,
                  bool *ret_matches);
