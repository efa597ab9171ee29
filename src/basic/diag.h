/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Diagnostics: what is wrong in a file, with its place. Library code fills a list, programs print
 * it. All faults of all files are collected (up to DIAG_MAX) before anything fails, so that one
 * look at the output is enough to mend them.
 */

#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"

#define DIAG_MAX 20U

typedef struct Diag {
        char *file;            /* NULL: the fault is in no file */
        uint32_t line, column; /* 0: the file as a whole */
        char *path;            /* key path such as limits.memory; NULL or "" for none */
        char *text;            /* one sentence without a full stop: what is wrong and what to do */
} Diag;

typedef struct DiagList {
        Diag items[DIAG_MAX];
        size_t n_items;
        size_t n_dropped; /* found beyond DIAG_MAX */
} DiagList;

#define DIAG_LIST_NULL ((DiagList){})

void diag_list_done(DiagList *list);
/* Adds one; returns 0 or -ENOMEM. path may be NULL. */
int diag_add(DiagList *list, const char *file, uint32_t line, uint32_t column, const char *path,
             const char *format, ...) _printf_(6, 7);
/* "FILE:LINE:COL: KEY.PATH: TEXT" without newline; owned by the caller, NULL if out of memory. */
char *diag_format(const Diag *diag);

#define DIAG_EXCERPT_MAX 64U

/* Somebody else's bytes, fit to stand in a text: cut to DIAG_EXCERPT_MAX, with control characters
 * and what is not UTF-8 escaped. Owned by the caller, NULL if out of memory. */
char *diag_excerpt(const char *s, size_t size);
/* The same in quotes. */
char *diag_quote(const char *s);
/* A path in quotes: escaped as above, but whole, since half a path names nothing. */
char *diag_quote_path(const char *path);
