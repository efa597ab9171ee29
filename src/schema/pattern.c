/* SPDX-License-Identifier: Apache-2.0 */

#include "schema/pattern.h"

#include <errno.h>
#include <stdio.h>

#include "basic/error.h"

#define COMPILE_OPTIONS                                                                            \
        (PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT)

int pattern_compile(const char *text, size_t size, pcre2_code **ret_code,
                    char ret_error[PATTERN_ERROR_SIZE], size_t *ret_offset) {
        pcre2_compile_context *context;
        size_t offset = 0;
        pcre2_code *code;
        int error = 0;

        context = pcre2_compile_context_create(NULL);
        if (!context)
                return error_origin(-ENOMEM);
        (void) pcre2_set_max_pattern_length(context, PATTERN_SIZE_MAX);
        (void) pcre2_set_parens_nest_limit(context, PATTERN_NESTING_MAX);
        code = pcre2_compile((PCRE2_SPTR) text, size, COMPILE_OPTIONS, &error, &offset, context);
        pcre2_compile_context_free(context);

        if (!code && error == PCRE2_ERROR_HEAP_FAILED)
                return error_origin(-ENOMEM);
        if (!code) {
                if (pcre2_get_error_message(error, (PCRE2_UCHAR *) ret_error, PATTERN_ERROR_SIZE) <
                    0)
                        (void) snprintf(ret_error, PATTERN_ERROR_SIZE, "error %d", error);
                *ret_offset = offset;
                return PATTERN_E_INVALID;
        }
        *ret_code = code;
        return 0;
}

void matcher_done(Matcher *matcher) {
        pcre2_match_data_free(matcher->data);
        pcre2_match_context_free(matcher->context);
        matcher->data = NULL;
        matcher->context = NULL;
}

/* Before each item of the pattern. */
static int count_item(pcre2_callout_block *block _unused_, void *userdata) {
        Matcher *matcher = userdata;

        return effort_spend(matcher->effort, matcher->step) == 0 ? 0 : PCRE2_ERROR_CALLOUT;
}

static int matcher_prepare(Matcher *matcher) {
        if (matcher->data)
                return 0;

        matcher->context = pcre2_match_context_create(NULL);
        if (!matcher->context)
                return error_origin(-ENOMEM);
        (void) pcre2_set_match_limit(matcher->context, PATTERN_MATCH_MAX);
        (void) pcre2_set_depth_limit(matcher->context, PATTERN_DEPTH_MAX);
        (void) pcre2_set_heap_limit(matcher->context, PATTERN_HEAP_MAX_KIB);
        (void) pcre2_set_callout(matcher->context, count_item, matcher);

        matcher->data = pcre2_match_data_create(1, NULL);
        return matcher->data ? 0 : error_origin(-ENOMEM);
}

int matcher_match(Matcher *matcher, const pcre2_code *code, const char *text, size_t size,
                  bool *ret_matches) {
        int r;

        if (size > PATTERN_SUBJECT_MAX)
                return PATTERN_E_SUBJECT;
        r = matcher_prepare(matcher);
        if (r < 0)
                return error_trace(r);

        /* One item can read the whole text: a step is what it may cost. */
        matcher->step = 1 + size / 1024;
        r = pcre2_match(code, (PCRE2_SPTR) text, size, 0, PCRE2_NO_UTF_CHECK, matcher->data,
                        matcher->context);
        if (r >= 0 || r == PCRE2_ERROR_NOMATCH) {
                *ret_matches = r >= 0;
                return 0;
        }

        switch (r) {
        case PCRE2_ERROR_CALLOUT:
        case PCRE2_ERROR_MATCHLIMIT:
        case PCRE2_ERROR_DEPTHLIMIT:
        case PCRE2_ERROR_HEAPLIMIT:
        case PCRE2_ERROR_RECURSELOOP: /* the pattern calls itself at the same place */
                return PATTERN_E_SPENT;
        case PCRE2_ERROR_NOMEMORY:
                return error_origin(-ENOMEM);
        default:
                return error_origin(-ENOTRECOVERABLE);
        }
}
