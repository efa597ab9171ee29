/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whatever stands around a secret, in whatever form it stands there and however the stream is cut:
 * what comes out does not have it, and is the same for every way of cutting.
 *
 * The input is: how long the secret is, how long the pieces are, the secret, and the stream, in
 * which bytes from 0xf0 on stand for the secret in one of its forms.
 */

#include "tests/fuzz/fuzz.h"

#include <nettle/base64.h>
#include <string.h>

#include "egress/redact.h"

static void append(StrBuf *out, const char *data, size_t size) {
        FUZZ_ASSERT(strbuf_append(out, data, size) == 0);
}

static void append_escaped(const Secret *secret, const char *prefix, const char *digits, bool all,
                           StrBuf *out) {
        for (size_t i = 0; i < secret->size; i++) {
                unsigned char c = (unsigned char) secret->data[i];

                if (all || strchr("%\"\\/+&= ", c))
                        FUZZ_ASSERT(strbuf_appendf(out, "%s%c%c", prefix, digits[c >> 4],
                                                   digits[c & 15]) == 0);
                else
                        FUZZ_ASSERT(strbuf_append_byte(out, (char) c) == 0);
        }
}

static void append_base64(const Secret *secret, size_t before, size_t behind, StrBuf *out) {
        _cleanup_(freep) char *plain = calloc(1, secret->size + 6);
        _cleanup_(freep) char *text = calloc(1, BASE64_ENCODE_RAW_LENGTH(secret->size + 6) + 1);
        size_t size = before + secret->size + behind;

        FUZZ_ASSERT(plain && text);
        memset(plain, 'x', size);
        memcpy(plain + before, secret->data, secret->size);
        base64_encode_raw(text, size, (const uint8_t *) plain);
        append(out, text, strlen(text));
}

/* The part of a text from from to end, broken as lines of four are. */
static void append_lines(const StrBuf *text, size_t from, size_t end, const char *line_end,
                         StrBuf *out) {
        for (size_t at = from; at < end; at++) {
                if (at > from && at % 4 == 0)
                        append(out, line_end, strlen(line_end));
                append(out, text->data + at, 1);
        }
}

/* Those of base64 in lines: the same before, and what its lines end with. */
static const struct {
        unsigned form;
        const char *line_end;
} lines[] = {
        {0, "\n"}, {1, "\r\n"}, {5, "\\n"}, {3, "\\r\\n"}, {4, "%0D%0a"},
};

#define LINES_FIRST 10U
#define FORMS (LINES_FIRST + ELEMENTSOF(lines))

static void append_form(const Secret *secret, unsigned form, StrBuf *out);

static void append_form_in_lines(const Secret *secret, unsigned i, StrBuf *out) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        append_form(secret, lines[i].form, &text);
        append_lines(&text, 0, text.size, lines[i].line_end, out);
}

static void append_form(const Secret *secret, unsigned form, StrBuf *out) {
        switch (form) {
        case 0:
        case 1:
        case 2:
                append_base64(secret, form, 0, out);
                break;
        case 3:
        case 4:
        case 5:
                append_base64(secret, form - 3, form - 2, out);
                break;
        case 6:
                append_escaped(secret, "%", "0123456789ABCDEF", false, out);
                break;
        case 7:
                append_escaped(secret, "%", "0123456789abcdef", true, out);
                break;
        case 8:
                append_escaped(secret, "\\u00", "0123456789abcdef", true, out);
                break;
        case 9:
                append_escaped(secret, "\\u00", "0123456789ABCDEF", false, out);
                break;
        case LINES_FIRST ... FORMS - 1:
                append_form_in_lines(secret, form - LINES_FIRST, out);
                break;
        default:
                append(out, secret->data, secret->size);
        }
}

static void run(const Secret *secret, const StrBuf *in, size_t piece, StrBuf *out) {
        _cleanup_(redactor_freep) Redactor *redactor = NULL;

        FUZZ_ASSERT(redactor_new(secret, NULL, &redactor) == 0);
        for (size_t at = 0; at < in->size; at += piece)
                FUZZ_ASSERT(redactor_add(redactor, in->data + at, size_min(piece, in->size - at),
                                         out) == 0);
        FUZZ_ASSERT(redactor_finish(redactor, out) == 0);
        FUZZ_ASSERT(out->size == 0 || !redactor_finds(redactor, out->data, out->size));
}

/* Without anything of the code under test. */
static void check_absent(const Secret *secret, const StrBuf *out) {
        for (unsigned form = 0; form <= FORMS; form++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL, part = STRBUF_NULL;
                bool in_lines = form >= LINES_FIRST && form < FORMS;
                unsigned plain = in_lines ? lines[form - LINES_FIRST].form : form;
                size_t from = 0, end;

                append_form(secret, plain, &text);
                end = text.size;
                /* Of base64, the ends hold bits of what stands beside the secret. */
                if (plain < 6) {
                        from = plain % 3 + (plain % 3 > 0);
                        end = (secret->size + plain % 3) * 8 / 6;
                }
                append_lines(&text, from, end, in_lines ? lines[form - LINES_FIRST].line_end : "",
                             &part);
                FUZZ_ASSERT(!memmem(out->data ?: "", out->size, part.data, part.size));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf in = STRBUF_NULL, whole = STRBUF_NULL, pieces = STRBUF_NULL;
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        size_t n, piece;

        if (size < 2)
                return 0;
        n = SECRET_SIZE_MIN + data[0] % 56;
        piece = data[1] % 64 + 1U;
        data += 2;
        size -= 2;
        if (size < n || size > 4096)
                return 0;
        FUZZ_ASSERT(secret_new(n, &secret) == 0);
        for (size_t i = 0; i < n; i++)
                secret.data[i] = (char) (' ' + data[i] % 95);
        secret.size = n;
        for (size_t i = n; i < size; i++)
                if (data[i] >= 0xf0)
                        append_form(&secret, data[i] - 0xf0U, &in);
                else
                        append(&in, (const char *) data + i, 1);
        run(&secret, &in, in.size + 1, &whole);
        run(&secret, &in, piece, &pieces);
        FUZZ_ASSERT(whole.size == pieces.size);
        FUZZ_ASSERT(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
        check_absent(&secret, &whole);
        return 0;
}
