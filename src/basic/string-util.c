/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/string-util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"

void strbuf_done(StrBuf *buf) {
        free(buf->data);
        *buf = STRBUF_NULL;
}

int strbuf_reserve(StrBuf *buf, size_t more) {
        size_t need, capacity;
        char *data;

        if (__builtin_add_overflow(buf->size, more, &need) ||
            __builtin_add_overflow(need, 1, &need))
                return error_origin(-ENOMEM);
        if (need <= buf->capacity)
                return 0;

        capacity = size_max(64, buf->capacity);
        while (capacity < need)
                if (__builtin_mul_overflow(capacity, 2, &capacity))
                        return error_origin(-ENOMEM);

        data = realloc(buf->data, capacity);
        if (!data)
                return error_origin(-ENOMEM);

        data[buf->size] = 0;
        buf->data = data;
        buf->capacity = capacity;
        return 0;
}

int strbuf_append(StrBuf *buf, const void *data, size_t size) {
        int r;

        r = strbuf_reserve(buf, size);
        if (r < 0)
                return error_trace(r);

        if (size > 0)
                memcpy(buf->data + buf->size, data, size);
        buf->size += size;
        buf->data[buf->size] = 0;
        return 0;
}

int strbuf_append_string(StrBuf *buf, const char *s) {
        return strbuf_append(buf, s, strlen(s));
}

int strbuf_append_byte(StrBuf *buf, char c) {
        return strbuf_append(buf, &c, 1);
}

int strbuf_appendf(StrBuf *buf, const char *format, ...) {
        va_list ap;
        int n, r;

        va_start(ap, format);
        n = vsnprintf(NULL, 0, format, ap);
        va_end(ap);
        if (n < 0)
                return error_origin(-EINVAL);

        r = strbuf_reserve(buf, (size_t) n);
        if (r < 0)
                return error_trace(r);

        va_start(ap, format);
        (void) vsnprintf(buf->data + buf->size, (size_t) n + 1, format, ap);
        va_end(ap);
        buf->size += (size_t) n;
        return 0;
}

void strbuf_consume(StrBuf *buf, size_t n) {
        if (n == 0)
                return;
        buf->size -= n;
        memmove(buf->data, buf->data + n, buf->size);
        buf->data[buf->size] = 0;
}

char *strbuf_steal(StrBuf *buf) {
        char *data;

        if (strbuf_reserve(buf, 0) < 0)
                return NULL;

        data = TAKE_PTR(buf->data);
        *buf = STRBUF_NULL;
        return data;
}

void strv_done(StrV *v) {
        for (size_t i = 0; i < v->n_items; i++)
                free(v->items[i]);
        free(v->items);
        *v = STRV_NULL;
}

/* Consumes s, also on failure. */
static int strv_push(StrV *v, char *s) {
        char **items;

        if (!s)
                return error_origin(-ENOMEM);

        items = reallocarray(v->items, v->n_items + 2, sizeof(char *));
        if (!items) {
                free(s);
                return error_origin(-ENOMEM);
        }

        v->items = items;
        v->items[v->n_items++] = s;
        v->items[v->n_items] = NULL;
        return 0;
}

int strv_append(StrV *v, const char *s) {
        return strv_push(v, strdup(s));
}

int strv_append_n(StrV *v, const char *s, size_t size) {
        return strv_push(v, strndup(s, size));
}

int strv_appendf(StrV *v, const char *format, ...) {
        char *s = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&s, format, ap);
        va_end(ap);

        return strv_push(v, n < 0 ? NULL : s);
}

int strv_copy(StrV *v, const StrV *from) {
        int r;

        for (size_t i = 0; i < from->n_items; i++) {
                r = strv_append(v, from->items[i]);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static size_t strv_env_find(const StrV *v, const char *name) {
        size_t n = strlen(name), i;

        for (i = 0; i < v->n_items; i++)
                if (strncmp(v->items[i], name, n) == 0 && v->items[i][n] == '=')
                        break;
        return i;
}

int strv_env_set(StrV *v, const char *name, const char *value) {
        char *entry = NULL;
        size_t i;

        if (asprintf(&entry, "%s=%s", name, value) < 0)
                return error_origin(-ENOMEM);

        i = strv_env_find(v, name);
        if (i == v->n_items)
                return strv_push(v, entry);

        free(v->items[i]);
        v->items[i] = entry;
        return 0;
}

const char *strv_env_get(const StrV *v, const char *name) {
        size_t i = strv_env_find(v, name);

        return i < v->n_items ? v->items[i] + strlen(name) + 1 : NULL;
}

const char *string_after(const char *s, const char *prefix) {
        size_t n = strlen(prefix);

        return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

int outcome_text(int outcome, char **ret_text, const char *format, ...) {
        char *text;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                return error_origin(-ENOMEM);

        *ret_text = text;
        return outcome;
}
