/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/framing.h"

#include <string.h>

#include "basic/error.h"

/* An empty buffer larger than this is given back, so that one big message does not stay with its
 * connection. */
#define FRAMER_KEEP (64U << 10)

void framer_init(Framer *framer, size_t line_max) {
        *framer = (Framer){.line_max = line_max};
}

void framer_done(Framer *framer) {
        strbuf_done(&framer->buffer);
        *framer = (Framer){};
}

static void framer_compact(Framer *framer) {
        if (framer->start == 0)
                return;

        if (framer->start == framer->buffer.size && framer->buffer.capacity > FRAMER_KEEP)
                strbuf_done(&framer->buffer);
        else
                strbuf_consume(&framer->buffer, framer->start);
        framer->scanned -= framer->start;
        framer->start = 0;
}

int framer_add(Framer *framer, const void *data, size_t size) {
        const char *p = data, *end;

        if (framer->skipping) {
                end = memchr(p, '\n', size);
                if (!end)
                        return 0;
                size -= (size_t) (end + 1 - p);
                p = end + 1;
                framer->skipping = false;
        }

        framer_compact(framer);
        return error_trace(strbuf_append(&framer->buffer, p, size));
}

static bool line_is_blank(const char *line, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
                        return false;
        return true;
}

/* Throws away the line that has become too long, as far as it has come. */
static void framer_drop(Framer *framer, const char *end) {
        if (end) {
                framer->start = framer->scanned = (size_t) (end + 1 - framer->buffer.data);
                return;
        }

        framer->start = framer->scanned = framer->buffer.size;
        framer->skipping = true;
        framer_compact(framer);
}

int framer_next(Framer *framer, const char **ret_line, size_t *ret_size) {
        StrBuf *buffer = &framer->buffer;

        while (framer->start < buffer->size) {
                const char *line = buffer->data + framer->start, *end;
                size_t size;

                end = memchr(buffer->data + framer->scanned, '\n', buffer->size - framer->scanned);
                size = end ? (size_t) (end - line) : buffer->size - framer->start;
                if (size > 0 && line[size - 1] == '\r')
                        size--;
                if (size > framer->line_max) {
                        framer_drop(framer, end);
                        return FRAMER_E_OVERSIZE;
                }

                if (!end) {
                        framer->scanned = buffer->size;
                        return FRAMER_E_MORE;
                }

                framer->start = framer->scanned = (size_t) (end + 1 - buffer->data);
                if (line_is_blank(line, size))
                        continue;

                *ret_line = line;
                *ret_size = size;
                return 0;
        }

        return FRAMER_E_MORE;
}

size_t framer_pending(const Framer *framer) {
        return framer->buffer.size - framer->start;
}
