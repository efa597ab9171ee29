/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whatever stands around a secret, in whatever form it stands there and however the stream is cut:
 * what comes out does not have it, and is the same for every way of cutting. Nor does a way of
 * cutting make more work.
 *
 * The input is: how long the secret is, how long the pieces are, the secret, and the stream, in
 * which bytes from 0xe0 on stand for the secret in one of its forms.
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

/* The part of a text from from to end, broken as lines of four are. In a form, a plus that is none
 * of its spaces is encoded. */
static void append_lines(const StrBuf *text, size_t from, size_t end, const char *line_end,
                         StrBuf *out) {
        for (size_t at = from; at < end; at++) {
                if (at > from && at % 4 == 0)
                        append(out, line_end, strlen(line_end));
                if (text->data[at] == '+' && strchr(line_end, '+'))
                        append(out, "%2B", 3);
                else
                        append(out, text->data + at, 1);
        }
}

/* The forms of base64 in lines, and those in one: which of the latter the lines are of, and what
 * they end with. */
static const struct {
        unsigned form;
        const char *line_end;
} lines[] = {
        {0, "\n"},
        {1, "\r\n"},
        {5, "\\n"},
        {3, "\\r\\n"},
        {4, "%0D%0a"},
        {0, "\n    "},
        {2, "\r\n\t"},
        {4, "\\\n"},
        {1, "\\\r\n  "},
        {3, " "},
        {5, "\\n\\t "},
        {0, "\\\\\\n  "},
        {2, "\\u000a\\u0020"},
        {3, "%0A%20%09"},
        {1, "%5C%0a"},
        {0, "%0A++++"},
};

#define FORMS_OF_LINES ELEMENTSOF(lines)
#define FORMS_OF_ONE 10U /* and the secret as it is */

static void append_form_of_one(const Secret *secret, size_t form, StrBuf *out) {
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
        default:
                append(out, secret->data, secret->size);
        }
}

static void append_form(const Secret *secret, size_t form, StrBuf *out) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        if (form >= FORMS_OF_LINES) {
                append_form_of_one(secret, form - FORMS_OF_LINES, out);
                return;
        }
        append_form_of_one(secret, lines[form].form, &text);
        append_lines(&text, 0, text.size, lines[form].line_end, out);
}

/* Returns what it cost. */
static uint64_t run(const Secret *secret, const StrBuf *in, size_t piece, StrBuf *out) {
        _cleanup_(redactor_freep) Redactor *redactor = NULL;

        FUZZ_ASSERT(redactor_new(secret, NULL, &redactor) == 0);
        for (size_t at = 0; at < in->size; at += piece)
                FUZZ_ASSERT(redactor_add(redactor, in->data + at, size_min(piece, in->size - at),
                                         out) == 0);
        FUZZ_ASSERT(redactor_finish(redactor, out) == 0);
        FUZZ_ASSERT(out->size == 0 || !redactor_finds(redactor, out->data, out->size));
        return redactor_n_read(redactor);
}

/* Without anything of the code under test. */
static void check_absent(const Secret *secret, const StrBuf *out) {
        for (size_t form = 0; form <= FORMS_OF_LINES + FORMS_OF_ONE; form++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL, part = STRBUF_NULL;
                bool in_lines = form < FORMS_OF_LINES;
                size_t of_one = in_lines ? lines[form].form : form - FORMS_OF_LINES;
                size_t from = 0, end;

                append_form_of_one(secret, of_one, &text);
                end = text.size;
                /* Of base64, the ends hold bits of what stands beside the secret. */
                if (of_one < 6) {
                        from = of_one % 3 + (of_one % 3 > 0);
                        end = (secret->size + of_one % 3) * 8 / 6;
                }
                append_lines(&text, from, end, in_lines ? lines[form].line_end : "", &part);
                FUZZ_ASSERT(!memmem(out->data ?: "", out->size, part.data, part.size));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf in = STRBUF_NULL, whole = STRBUF_NULL, pieces = STRBUF_NULL;
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        uint64_t cost;
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
                if (data[i] >= 0xe0)
                        append_form(&secret, data[i] - 0xe0U, &in);
                else
                        append(&in, (const char *) data + i, 1);
        cost = run(&secret, &in, in.size + 1, &whole);
        /* A character has up to six bytes, and is read again for each that was short. */
        FUZZ_ASSERT(run(&secret, &in, piece, &pieces) <= 7 * cost);
        FUZZ_ASSERT(whole.size == pieces.size);
        FUZZ_ASSERT(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
        check_absent(&secret, &whole);
        return 0;
}
