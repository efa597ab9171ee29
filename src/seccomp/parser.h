/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of the reader of profiles. Text goes through its files in one direction: text.c
 * cuts it into statements and those into words, parse.c carries statements out, with the
 * help of calls.c and cond.c, and check.c looks at the finished whole.
 */

#include "seccomp/parse.h"

#define SECCOMP_INCLUDE_DEPTH_MAX 8U
#define SECCOMP_WORD_SIZE_MAX 255U

typedef struct SeccompWord {
        char *s;
        uint32_t line, column;
} SeccompWord;

typedef struct SeccompStatement {
        SeccompWord *words;
        size_t n_words;
} SeccompStatement;

typedef struct SeccompParser {
        SeccompSource *source;
        SeccompLoad load;
        void *userdata;
        DiagList *diags;
        size_t n_faults;
        const char *file; /* owned by source->files */
        unsigned depth;
        const char *files_open[SECCOMP_INCLUDE_DEPTH_MAX]; /* to see a file that includes itself */
        bool has_otherwise, has_newest;
} SeccompParser;

/* Tells a fault at a word; reading goes on. */
#define seccomp_fault(parser, word, ...)                                                           \
        ((parser)->n_faults++, diag_add((parser)->diags, (parser)->file, (word)->line,             \
                                        (word)->column, NULL, __VA_ARGS__))

/* Grows an array by one zeroed element and counts it. */
int seccomp_array_add(void *array, size_t *n, size_t size);

const SeccompGroup *seccomp_source_find_group(const SeccompSource *source, const char *name);

/* Carries a statement out; called for each that has no fault in its words. */
typedef int (*SeccompStatementFn)(SeccompParser *parser, const SeccompStatement *statement);

/* Cuts text, and calls fn for each statement in it. */
int seccomp_parse_lines(SeccompParser *parser, const char *text, size_t size,
                        SeccompStatementFn fn);
/* The calls that words name, groups resolved, appended to a list. */
int seccomp_parse_calls(SeccompParser *parser, const SeccompWord *words, size_t n_words,
                        size_t **calls, size_t *n_calls);
/* Everything behind "if". */
int seccomp_parse_conds(SeccompParser *parser, const SeccompWord *words, size_t n_words,
                        SeccompRule *rule);
/* What can only be said about the whole. */
int seccomp_check_source(SeccompParser *parser);
