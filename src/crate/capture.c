/* SPDX-License-Identifier: Apache-2.0 */
#include "crate/capture.h"

#include <inttypes.h>
#include <nettle/base64.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/string-util.h"
#include "basic/utf8-cut.h"
#include "basic/utf8.h"

void capture_init(Capture *capture, size_t bound) {
        *capture = (Capture){
                .bound = bound,
                .head_max = bound / 2,
                .tail_max = bound - bound / 2,
        };
}

void capture_done(Capture *capture) {
        free(capture->head);
        free(capture->tail);
        *capture = (Capture){};
}

/* Most jobs write little: the halves are allocated when the first byte for them comes. */
static int half_allocate(char **half, size_t size) {
        if (*half)
                return 0;
        *half = malloc(size);
        return *half ? 0 : error_origin(-ENOMEM);
}

/* Appends to the ring; only the last tail_max bytes can matter. */
static void tail_add(Capture *capture, const char *data, size_t size) {
        size_t skip = size > capture->tail_max ? size - capture->tail_max : 0;

        data += skip;
        size -= skip;
        while (size > 0) {
                size_t end = (capture->tail_start + capture->tail_size) % capture->tail_max;
                size_t n = size_min(size, capture->tail_max - end);
                size_t over;

                memcpy(capture->tail + end, data, n);
                over = capture->tail_size + n > capture->tail_max
                               ? capture->tail_size + n - capture->tail_max
                               : 0;
                capture->tail_start = (capture->tail_start + over) % capture->tail_max;
                capture->tail_size += n - over;
                data += n;
                size -= n;
        }
}

int capture_add(Capture *capture, const void *data, size_t size) {
        size_t n = size_min(size, capture->head_max - capture->head_size);
        int r;

        if (capture->ended)
                return 0;
        if (n > 0) {
                r = half_allocate(&capture->head, capture->head_max);
                if (r < 0)
                        return error_trace(r);
                memcpy(capture->head + capture->head_size, data, n);
        }
        if (size > n && capture->tail_max > 0) {
                r = half_allocate(&capture->tail, capture->tail_max);
                if (r < 0)
                        return error_trace(r);
                tail_add(capture, (const char *) data + n, size - n);
        }
        capture->head_size += n;
        capture->total += size;
        return 0;
}

size_t capture_last(const Capture *capture, char *ret_data, size_t size) {
        size_t n_tail = size_min(size, capture->tail_size), n_head = 0;

        /* Between the halves something may be missing: then the tail alone is the end. */
        if (capture->total <= (uint64_t) capture->head_size + capture->tail_size)
                n_head = size_min(size - n_tail, capture->head_size);
        if (n_head > 0)
                memcpy(ret_data, capture->head + capture->head_size - n_head, n_head);
        for (size_t i = 0; i < n_tail; i++)
                ret_data[n_head + i] =
                        capture->tail[(capture->tail_start + capture->tail_size - n_tail + i) %
                                      capture->tail_max];
        return n_head + n_tail;
}

void capture_end(Capture *capture) {
        capture->ended = true;
}

static bool capture_has_gap(const Capture *capture) {
        return capture->total > capture->head_size + capture->tail_size;
}

bool capture_truncated(const Capture *capture) {
        return capture->ended || capture_has_gap(capture);
}

/* Both halves behind each other. */
static int capture_join(const Capture *capture, StrBuf *kept) {
        size_t first = size_min(capture->tail_size, capture->tail_max - capture->tail_start);
        int r;

        r = strbuf_append(kept, capture->head, capture->head_size);
        if (r >= 0 && first > 0)
                r = strbuf_append(kept, capture->tail + capture->tail_start, first);
        if (r >= 0)
                r = strbuf_append(kept, capture->tail, capture->tail_size - first);
        return error_trace(r);
}

/* The kept bytes as UTF-8, cut between characters. *ret_valid tells whether they were that. */
static int text_from_kept(const Capture *capture, const StrBuf *kept, StrBuf *text,
                          bool *ret_valid) {
        bool gap = capture_has_gap(capture);
        const char *head = kept->data;
        size_t head_size = gap ? capture->head_size : 0;
        const char *tail = kept->data + head_size;
        size_t tail_size = kept->size - head_size;
        int r = 0;

        if (gap) {
                size_t orphaned = utf8_orphaned_size(tail, tail_size);

                head_size -= utf8_incomplete_size(head, head_size);
                tail += orphaned;
                tail_size -= orphaned;
        }
        if (capture->ended)
                tail_size -= utf8_incomplete_size(tail, tail_size);

        *ret_valid = utf8_is_valid(head, head_size) && utf8_is_valid(tail, tail_size);
        if (!*ret_valid)
                return 0;

        r = strbuf_append(text, head, head_size);
        if (r >= 0 && gap)
                r = strbuf_appendf(text, "\n[… %" PRIu64 " bytes left out …]\n",
                                   capture->total - head_size - tail_size);
        if (r >= 0)
                r = strbuf_append(text, tail, tail_size);
        return error_trace(r);
}

int bytes_to_base64(const StrBuf *bytes, StrBuf *text) {
        size_t size = BASE64_ENCODE_RAW_LENGTH(bytes->size);
        int r;

        r = strbuf_reserve(text, size);
        if (r < 0)
                return error_trace(r);
        base64_encode_raw(text->data, bytes->size, (const uint8_t *) bytes->data);
        text->size = size;
        text->data[size] = 0;
        return 0;
}

int capture_text(const Capture *capture, char **ret_text, size_t *ret_size,
                 const char **ret_encoding) {
        _cleanup_(strbuf_done) StrBuf kept = STRBUF_NULL;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        bool valid = true;
        size_t size;
        char *data;
        int r;

        r = capture_join(capture, &kept);
        if (r < 0)
                return error_trace(r);
        if (kept.size > 0)
                r = text_from_kept(capture, &kept, &text, &valid);
        if (r >= 0 && !valid)
                r = bytes_to_base64(&kept, &text);
        if (r < 0)
                return error_trace(r);

        size = text.size;
        data = strbuf_steal(&text);
        if (!data)
                return error_origin(-ENOMEM);
        *ret_text = data;
        *ret_size = size;
        *ret_encoding = valid ? "utf-8" : "base64";
        return 0;
}
