/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/redact.h"

#include <errno.h>
#include <nettle/base64.h>
#include <string.h>

#include "basic/error.h"

#define MARK_SIZE 8U
/* The secret, its base64 at three offsets, and what else there is. */
#define PATTERNS_MAX 5U
/* Of the characters that end a line, so many may stand between two of base64: a stream of nothing
 * else is not held back for ever. */
#define BREAKS_MAX 4U

typedef struct Pattern {
        Secret text;
        bool is_base64; /* - and _ stand for + and / */
} Pattern;

struct Redactor {
        Pattern patterns[PATTERNS_MAX];
        size_t n_patterns;
        bool first[256]; /* bytes that an occurrence can begin with */
        char mark;
        StrBuf held;
        size_t n_found;
};

/* --- one byte of a pattern, in its forms --- */

typedef enum Fit {
        FIT_NO,
        FIT_YES,
        FIT_MORE, /* the bytes end before it is known */
} Fit;

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_char(const Pattern *pattern, char wanted, char c) {
        if (c == wanted)
                return true;
        return pattern->is_base64 && ((wanted == '+' && c == '-') || (wanted == '/' && c == '_'));
}

/* Digits of a number in hex, which is the wanted byte. */
static Fit fit_hex(const Pattern *pattern, char wanted, const char *data, size_t size,
                   size_t digits) {
        int value = 0;

        for (size_t i = 0; i < digits; i++) {
                int digit;

                if (i >= size)
                        return FIT_MORE;
                digit = hex_value(data[i]);
                if (digit < 0)
                        return FIT_NO;
                value = value << 4 | digit;
        }
        return value < 0x80 && is_char(pattern, wanted, (char) value) ? FIT_YES : FIT_NO;
}

static Fit fit_escape(const Pattern *pattern, char wanted, const char *data, size_t size,
                      size_t *ret_used) {
        if (size < 2)
                return FIT_MORE;
        if (data[1] == 'u') {
                *ret_used = 6;
                return fit_hex(pattern, wanted, data + 2, size - 2, 4);
        }
        *ret_used = 2;
        return strchr("\"\\/", data[1]) && data[1] && is_char(pattern, wanted, data[1]) ? FIT_YES
                                                                                        : FIT_NO;
}

enum {
        MODE_PERCENT = 1, /* a % begins an encoded byte, and never stands for itself */
        MODE_JSON = 2,    /* a \ begins an escape */
        MODES = 4,
};

static Fit fit_byte(const Pattern *pattern, char wanted, unsigned mode, const char *data,
                    size_t size, size_t *ret_used) {
        if (size == 0)
                return FIT_MORE;
        if (mode & MODE_PERCENT && *data == '%') {
                *ret_used = 3;
                return fit_hex(pattern, wanted, data + 1, size - 1, 2);
        }
        if (mode & MODE_JSON && *data == '\\')
                return fit_escape(pattern, wanted, data, size, ret_used);
        *ret_used = 1;
        /* A space of a query is a plus. */
        return is_char(pattern, wanted, *data) ||
                               (mode & MODE_PERCENT && wanted == ' ' && *data == '+')
                       ? FIT_YES
                       : FIT_NO;
}

/* A character that ends a line. */
static Fit fit_break(unsigned mode, const char *data, size_t size, size_t *ret_used) {
        static const Pattern plain = {};
        Fit fit = FIT_NO;

        if (size > 1 && mode & MODE_JSON && *data == '\\' && (data[1] == 'n' || data[1] == 'r')) {
                *ret_used = 2;
                return FIT_YES;
        }
        for (const char *wanted = "\r\n"; *wanted && fit == FIT_NO; wanted++)
                fit = fit_byte(&plain, *wanted, mode, data, size, ret_used);
        return fit;
}

/* Base64 may be broken into lines anywhere. None of what a break begins with is a character of it,
 * but in its forms, which are not those of a break. FIT_NO: there is another character. */
static Fit skip_breaks(const Pattern *pattern, unsigned mode, const char *data, size_t size,
                       size_t *at) {
        Fit fit = FIT_YES;

        for (size_t n = 0; pattern->is_base64 && n < BREAKS_MAX && fit == FIT_YES; n++) {
                size_t used = 0;

                fit = fit_break(mode, data + *at, size - *at, &used);
                if (fit == FIT_YES)
                        *at += used;
        }
        return fit;
}

/* In one mode there is one way only to read the bytes. */
static Fit fit_pattern(const Pattern *pattern, unsigned mode, const char *data, size_t size,
                       size_t *ret_end) {
        size_t at = 0;

        for (size_t i = 0; i < pattern->text.size; i++) {
                size_t used = 0;
                Fit fit;

                if (i > 0 && skip_breaks(pattern, mode, data, size, &at) == FIT_MORE)
                        return FIT_MORE;
                fit = fit_byte(pattern, pattern->text.data[i], mode, data + at, size - at, &used);
                if (fit != FIT_YES)
                        return fit;
                at += used;
        }
        *ret_end = at;
        return FIT_YES;
}

/* The longest occurrence that begins there; FIT_MORE if one that is longer may yet come. */
static Fit fit_any(const Redactor *redactor, const char *data, size_t size, size_t *ret_end) {
        Fit result = FIT_NO;
        bool more = false;

        if (!redactor->first[(unsigned char) *data])
                return FIT_NO;
        for (size_t i = 0; i < redactor->n_patterns; i++)
                for (unsigned mode = 0; mode < MODES; mode++) {
                        size_t end = 0;
                        Fit fit = fit_pattern(&redactor->patterns[i], mode, data, size, &end);

                        more = more || fit == FIT_MORE;
                        if (fit == FIT_YES) {
                                *ret_end = result == FIT_YES ? size_max(*ret_end, end) : end;
                                result = FIT_YES;
                        }
                }
        return more ? FIT_MORE : result;
}

/* --- what is looked for --- */

static int add_pattern(Redactor *redactor, const char *text, size_t size, bool is_base64) {
        Pattern *pattern = &redactor->patterns[redactor->n_patterns];
        int r;

        if (size == 0)
                return 0;
        r = secret_new(size, &pattern->text);
        if (r < 0)
                return error_trace(r);
        memcpy(pattern->text.data, text, size);
        pattern->text.size = size;
        pattern->is_base64 = is_base64;
        redactor->n_patterns++;
        for (int c = 0; c < 0x80; c++)
                redactor->first[c] = redactor->first[c] || is_char(pattern, *text, (char) c);
        redactor->first['%'] = redactor->first['\\'] = true;
        if (*text == ' ')
                redactor->first['+'] = true;
        return 0;
}

/* The characters that the secret alone decides: those which carry a bit of what stands before or
 * behind it are left out. */
static int add_base64(Redactor *redactor, const Secret *secret, size_t offset) {
        static const size_t foreign[] = {0, 2, 3};
        size_t bits = (offset + secret->size) * 8;
        _cleanup_(secret_done) Secret plain = SECRET_NULL, encoded = SECRET_NULL;
        size_t first = foreign[offset], end = bits / 6;
        int r;

        r = secret_new(secret->size + offset, &plain);
        if (r == 0)
                r = secret_new(BASE64_ENCODE_RAW_LENGTH(secret->size + offset), &encoded);
        if (r < 0)
                return error_trace(r);
        memcpy(plain.data + offset, secret->data, secret->size);
        base64_encode_raw(encoded.data, secret->size + offset, (const uint8_t *) plain.data);
        return error_trace(add_pattern(redactor, encoded.data + first, end - first, true));
}

/* A character that is in no form of any pattern. DEL is in none of a secret. */
static char choose_mark(const Secret *secret, const char *also) {
        for (const char *mark = "*#~!@$^&()?<>;,|"; *mark; mark++)
                if (!memchr(secret->data, *mark, secret->size) && !(also && strchr(also, *mark)))
                        return *mark;
        return 0x7f;
}

Redactor *redactor_free(Redactor *redactor) {
        if (!redactor)
                return NULL;

        for (size_t i = 0; i < redactor->n_patterns; i++)
                secret_done(&redactor->patterns[i].text);
        secret_wipe(redactor->held.data, redactor->held.capacity);
        strbuf_done(&redactor->held);
        free(redactor);
        return NULL;
}

int redactor_new(const Secret *secret, const char *also, Redactor **ret_redactor) {
        _cleanup_(redactor_freep) Redactor *redactor = NULL;
        int r;

        redactor = calloc(1, sizeof(*redactor));
        if (!redactor)
                return error_origin(-ENOMEM);
        redactor->mark = choose_mark(secret, also);
        r = add_pattern(redactor, secret->data, secret->size, false);
        for (size_t offset = 0; offset < 3 && r == 0; offset++)
                r = add_base64(redactor, secret, offset);
        if (r == 0 && also)
                r = add_pattern(redactor, also, strlen(also), false);
        if (r < 0)
                return error_trace(r);
        *ret_redactor = TAKE_PTR(redactor);
        return 0;
}

/* --- the stream --- */

/* From the occurrence at from on: others may begin within it and end behind it. SIZE_MAX: it is not
 * known yet where they end. */
static size_t find_end(const Redactor *redactor, size_t from, size_t end, bool is_last) {
        const StrBuf *held = &redactor->held;

        for (size_t at = from + 1; at < end; at++) {
                size_t more = 0;
                Fit fit = fit_any(redactor, held->data + at, held->size - at, &more);

                if (fit == FIT_MORE && !is_last)
                        return SIZE_MAX;
                if (fit != FIT_NO && more > 0)
                        end = size_max(end, at + more);
        }
        return end;
}

static int put_mark(Redactor *redactor, StrBuf *out) {
        char mark[MARK_SIZE];

        memset(mark, redactor->mark, sizeof(mark));
        redactor->n_found++;
        return error_trace(strbuf_append(out, mark, sizeof(mark)));
}

static int redact(Redactor *redactor, bool is_last, StrBuf *out) {
        StrBuf *held = &redactor->held;
        size_t plain = 0, at = 0;
        int r = 0;

        while (at < held->size && r == 0) {
                size_t end = 0;
                Fit fit = fit_any(redactor, held->data + at, held->size - at, &end);

                if (fit == FIT_MORE && !is_last)
                        break;
                if (fit == FIT_NO || end == 0) {
                        at++;
                        continue;
                }
                end = find_end(redactor, at, at + end, is_last);
                if (end == SIZE_MAX)
                        break;
                r = strbuf_append(out, held->data + plain, at - plain);
                if (r == 0)
                        r = put_mark(redactor, out);
                plain = at = end;
        }
        if (r == 0)
                r = strbuf_append(out, held->data ? held->data + plain : "", at - plain);
        if (r == 0 && at > 0)
                strbuf_consume(held, at);
        return error_trace(r);
}

int redactor_add(Redactor *redactor, const char *data, size_t size, StrBuf *out) {
        int r;

        if (size == 0)
                return 0;
        r = strbuf_append(&redactor->held, data, size);
        return r < 0 ? error_trace(r) : error_trace(redact(redactor, false, out));
}

int redactor_finish(Redactor *redactor, StrBuf *out) {
        return error_trace(redact(redactor, true, out));
}

size_t redactor_n_found(const Redactor *redactor) {
        return redactor->n_found;
}

bool redactor_finds(const Redactor *redactor, const char *data, size_t size) {
        for (size_t at = 0; at < size; at++) {
                size_t end = 0;

                if (fit_any(redactor, data + at, size - at, &end) != FIT_NO && end > 0)
                        return true;
        }
        return false;
}
