/* SPDX-License-Identifier: Apache-2.0 */

/* Foreign bytes as JSON strings. */

#include "basic/error.h"
#include "basic/utf8.h"
#include "record/audit-line.h"

/* The code point of a valid sequence. */
static uint32_t decode(const char *s, size_t size) {
        static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        uint32_t c = (uint8_t) s[0] & masks[size];

        for (size_t i = 1; i < size; i++)
                c = c << 6 | ((uint8_t) s[i] & 0x3f);
        return c;
}

static int append_code_point(StrBuf *out, uint32_t c) {
        if (c < 0x10000)
                return strbuf_appendf(out, "\\u%04x", (unsigned) c);
        c -= 0x10000;
        return strbuf_appendf(out, "\\u%04x\\u%04x", 0xd800 + (unsigned) (c >> 10),
                              0xdc00 + (unsigned) (c & 0x3ff));
}

static bool is_plain(char c) {
        return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

/* One character, or a run of those that stand for themselves; *ret_size is what it took. */
static int append_piece(StrBuf *out, const char *s, size_t size, size_t *ret_size) {
        size_t n = 0;

        while (n < size && is_plain(s[n]))
                n++;
        if (n > 0) {
                *ret_size = n;
                return strbuf_append(out, s, n);
        }

        n = utf8_sequence_size(s, size);
        *ret_size = size_max(n, 1);
        if (n == 0)
                return strbuf_append_string(out, "\\ufffd");
        if (*s == '"' || *s == '\\')
                return strbuf_appendf(out, "\\%c", *s);
        if (*s == '\n')
                return strbuf_append_string(out, "\\n");
        if (*s == '\t')
                return strbuf_append_string(out, "\\t");
        return append_code_point(out, decode(s, n));
}

int audit_append_text(StrBuf *out, const char *text, size_t size, size_t max) {
        size_t cut = size_min(size, max), done = 0;
        int r;

        if (!text)
                return error_trace(strbuf_append_string(out, "null"));

        /* Between characters. */
        if (cut < size)
                while (cut > 0 && max - cut < 3 && ((uint8_t) text[cut] & 0xc0) == 0x80)
                        cut--;

        r = strbuf_append_byte(out, '"');
        while (r == 0 && done < cut) {
                size_t n;

                r = append_piece(out, text + done, cut - done, &n);
                done += n;
        }
        if (r == 0 && cut < size)
                r = strbuf_appendf(out, "\\u2026(%zu bytes)", size);
        if (r == 0)
                r = strbuf_append_byte(out, '"');
        return error_trace(r);
}
