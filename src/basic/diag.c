/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/utf8.h"

static void diag_done(Diag *diag) {
        free(diag->file);
        free(diag->path);
        free(diag->text);
        *diag = (Diag){};
}

void diag_list_done(DiagList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                diag_done(&list->items[i]);
        *list = DIAG_LIST_NULL;
}

int diag_add(DiagList *list, const char *file, uint32_t line, uint32_t column, const char *path,
             const char *format, ...) {
        Diag diag = {.line = line, .column = column};
        va_list ap;
        int n;

        if (list->n_items == DIAG_MAX) {
                list->n_dropped++;
                return 0;
        }

        va_start(ap, format);
        n = vasprintf(&diag.text, format, ap);
        va_end(ap);
        if (n < 0)
                diag.text = NULL;

        diag.file = file ? strdup(file) : NULL;
        diag.path = string_empty(path) ? NULL : strdup(path);
        if (!diag.text || (file && !diag.file) || (!string_empty(path) && !diag.path)) {
                diag_done(&diag);
                return error_origin(-ENOMEM);
        }

        list->items[list->n_items++] = diag;
        return 0;
}

/* Appends s with everything escaped that a terminal would obey or a JSON text could not hold. */
static int append_escaped(StrBuf *buf, const char *s, size_t size) {
        size_t valid = utf8_valid_size(s, size);
        int r;

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char) s[i];
                bool bad = i >= valid || c < 0x20 || c == 0x7f;

                /* C1 controls are c2 80 … c2 9f. */
                if (!bad && c == 0xc2 && (unsigned char) s[i + 1] < 0xa0) {
                        r = strbuf_appendf(buf, "\\xc2\\x%02x", (unsigned char) s[++i]);
                        if (r < 0)
                                return error_trace(r);
                        continue;
                }

                r = bad ? strbuf_appendf(buf, "\\x%02x", c) : strbuf_append_byte(buf, s[i]);
                if (r < 0)
                        return error_trace(r);
                if (i == valid)
                        valid += 1 + utf8_valid_size(s + i + 1, size - i - 1);
        }
        return 0;
}

/* Cut between characters. */
static int append_excerpt(StrBuf *buf, const char *s, size_t size) {
        size_t cut = size;
        int r;

        if (size > DIAG_EXCERPT_MAX)
                for (cut = DIAG_EXCERPT_MAX; cut > 0 && ((unsigned char) s[cut] & 0xc0) == 0x80;)
                        cut--;

        r = append_escaped(buf, s, cut);
        if (r == 0 && cut < size)
                r = strbuf_append_string(buf, "…");
        return error_trace(r);
}

char *diag_excerpt(const char *s, size_t size) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        if (append_excerpt(&buf, s, size) < 0)
                return NULL;
        return strbuf_steal(&buf);
}

char *diag_quote(const char *s) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        if (strbuf_append_byte(&buf, '"') < 0 || append_excerpt(&buf, s, strlen(s)) < 0 ||
            strbuf_append_byte(&buf, '"') < 0)
                return NULL;
        return strbuf_steal(&buf);
}

char *diag_quote_path(const char *path) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        if (strbuf_append_byte(&buf, '"') < 0 || append_escaped(&buf, path, strlen(path)) < 0 ||
            strbuf_append_byte(&buf, '"') < 0)
                return NULL;
        return strbuf_steal(&buf);
}

char *diag_format(const Diag *diag) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        if (diag->file && append_escaped(&buf, diag->file, strlen(diag->file)) < 0)
                return NULL;
        if (diag->line > 0 && strbuf_appendf(&buf, ":%u:%u", diag->line, diag->column) < 0)
                return NULL;
        if (diag->file && strbuf_append_string(&buf, ": ") < 0)
                return NULL;
        if (diag->path && (append_escaped(&buf, diag->path, strlen(diag->path)) < 0 ||
                           strbuf_append_string(&buf, ": ") < 0))
                return NULL;
        if (append_escaped(&buf, diag->text, strlen(diag->text)) < 0)
                return NULL;
        return strbuf_steal(&buf);
}
