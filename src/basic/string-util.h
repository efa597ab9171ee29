/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"

/* A growing byte buffer. data is always followed by a NUL byte that size does not count; data is
 * NULL while empty. */
typedef struct StrBuf {
        char *data;
        size_t size;
        size_t capacity;
} StrBuf;

#define STRBUF_NULL ((StrBuf){})

void strbuf_done(StrBuf *buf);
/* All of these return 0 or -ENOMEM; on failure the buffer is unchanged. */
int strbuf_reserve(StrBuf *buf, size_t more);
int strbuf_append(StrBuf *buf, const void *data, size_t size);
int strbuf_append_string(StrBuf *buf, const char *s);
int strbuf_append_byte(StrBuf *buf, char c);
int strbuf_appendf(StrBuf *buf, const char *format, ...) _printf_(2, 3);
/* Drops the first n bytes. */
void strbuf_consume(StrBuf *buf, size_t n);
/* Hands out the bytes (NUL-terminated, owned by the caller, never NULL unless out of memory) and
 * empties the buffer. */
char *strbuf_steal(StrBuf *buf);

/* A NULL-terminated array of owned strings. */
typedef struct StrV {
        char **items;
        size_t n_items;
} StrV;

#define STRV_NULL ((StrV){})

void strv_done(StrV *v);
int strv_append(StrV *v, const char *s);
int strv_append_n(StrV *v, const char *s, size_t size);
int strv_appendf(StrV *v, const char *format, ...) _printf_(2, 3);
int strv_copy(StrV *v, const StrV *from);
/* Environment form: NAME=VALUE replaces an earlier entry of that NAME. */
int strv_env_set(StrV *v, const char *name, const char *value);
const char *strv_env_get(const StrV *v, const char *name);

static inline bool string_equal(const char *a, const char *b) {
        return a == b || (a && b && __builtin_strcmp(a, b) == 0);
}

/* What follows a word of which there are n. */
static inline const char *plural(uint64_t n) {
        return n == 1 ? "" : "s";
}

/* The rest of s behind prefix, or NULL. */
const char *string_after(const char *s, const char *prefix);

/* The text that belongs to an outcome, for a ret_text owned by the caller. Returns the outcome, or
 * -ENOMEM. */
int outcome_text(int outcome, char **ret_text, const char *format, ...) _printf_(3, 4);
