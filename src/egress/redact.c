/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/redact.h"

#include <errno.h>
#include <nettle/base64.h>
#include <string.h>

#include "basic/error.h"

#define MARK_SIZE 8U
/* The secret, its base64 at three offsets, and what else there is. */
#define PATTERNS_MAX 5U
/* The secret and what else there is in four ways, base64 in two. */
#define WAYS_MAX 14U
/* Of the characters that can break base64, so many may stand between two of it: a stream of nothing
 * else is not held back for ever. */
#define BLANKS_MAX 64U

typedef struct Pattern {
        Secret text;
        bool is_base64; /* - and _ stand for + and /, and it may be broken into lines */
} Pattern;

enum {
        MODE_PERCENT = 1, /* a % begins an encoded byte, and never stands for itself */
        MODE_JSON = 2,    /* a \ begins an escape */
        MODE_FORM = 4,    /* a + is a space */
        MODES = 8,
};

/* A pattern, and how the bytes are read: in one mode there is one way only to read them. */
typedef struct Way {
        const Pattern *pattern;
        unsigned mode;
} Way;

/* How far one way has come from where an occurrence may begin. */
typedef struct Progress {
        size_t at; /* the first byte that is not read yet, from there */
        size_t n_fitted;
        size_t n_blanks; /* since then */
} Progress;

/* Whether an occurrence begins at one place: kept while more bytes are awaited, so that none is
 * read again for each that comes. */
typedef struct Attempt {
        bool is_begun;
        uint32_t open; /* the ways that may lead to one yet */
        size_t end;    /* of the longest that there is, from its beginning; 0: none */
        Progress progress[WAYS_MAX];
        uint64_t n_read; /* characters, in all attempts */
} Attempt;

struct Redactor {
        Pattern patterns[PATTERNS_MAX];
        size_t n_patterns;
        Way ways[WAYS_MAX];
        size_t n_ways;
        uint32_t first[256]; /* the ways in which an occurrence can begin with a byte */
        char mark;
        /* The stream, of which what stands before n_released is passed on, and it is known what
         * begins before at. */
        StrBuf held;
        size_t n_released, at;
        size_t from, end; /* an occurrence that may yet grow; end 0: none */
        Attempt attempt;  /* the one at at */
        size_t n_found;
};

_Static_assert(WAYS_MAX <= sizeof(uint32_t) * 8, "a bit for each way");

/* --- one character, in its forms --- */

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

static Fit read_hex(const char *data, size_t size, size_t digits, char *ret_char) {
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
        if (value >= 0x80)
                return FIT_NO;
        *ret_char = (char) value;
        return FIT_YES;
}

static bool is_space(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static Fit read_escape(const char *data, size_t size, char *ret_char, size_t *ret_used) {
        static const char names[] = "\"\\/nrt", meant[] = "\"\\/\n\r\t";
        const char *name;

        if (size < 2)
                return FIT_MORE;
        if (data[1] == 'u') {
                *ret_used = 6;
                return read_hex(data + 2, size - 2, 4, ret_char);
        }
        /* At the end of a line it is no escape, and stands for itself. */
        if (is_space(data[1])) {
                *ret_used = 1;
                *ret_char = '\\';
                return FIT_YES;
        }
        name = memchr(names, data[1], sizeof(names) - 1);
        if (!name)
                return FIT_NO;
        *ret_used = 2;
        *ret_char = meant[name - names];
        return FIT_YES;
}

static Fit read_char(unsigned mode, const char *data, size_t size, char *ret_char,
                     size_t *ret_used) {
        if (size == 0)
                return FIT_MORE;
        if (*data == '%' && mode & MODE_PERCENT) {
                *ret_used = 3;
                return read_hex(data + 1, size - 1, 2, ret_char);
        }
        if (*data == '\\' && mode & MODE_JSON)
                return read_escape(data, size, ret_char, ret_used);
        *ret_used = 1;
        *ret_char = *data == '+' && mode & MODE_FORM ? ' ' : *data;
        return FIT_YES;
}

/* --- one way, from one place on --- */

static bool is_char(const Way *way, char wanted, char c) {
        if (c == wanted)
                return true;
        if (way->pattern->is_base64)
                return (wanted == '+' && c == '-') || (wanted == '/' && c == '_');
        /* A space of a query is a plus. */
        return wanted == ' ' && c == '+' && way->mode & MODE_PERCENT;
}

/* Base64 may be broken anywhere, and none of what breaks it is a character of it. */
static bool skip_blank(const Way *way, Progress *progress, char c) {
        if (!way->pattern->is_base64 || progress->n_fitted == 0 ||
            progress->n_blanks == BLANKS_MAX || !(is_space(c) || c == '\\'))
                return false;
        progress->n_blanks++;
        return true;
}

static Fit way_follow(const Way *way, Progress *progress, const char *data, size_t size,
                      uint64_t *n_read) {
        const Secret *text = &way->pattern->text;

        while (progress->n_fitted < text->size) {
                size_t used = 0;
                char c = 0;
                Fit fit = read_char(way->mode, data + progress->at, size - progress->at, &c, &used);

                (*n_read)++;
                if (fit != FIT_YES)
                        return fit;
                if (is_char(way, text->data[progress->n_fitted], c)) {
                        progress->n_fitted++;
                        progress->n_blanks = 0;
                } else if (!skip_blank(way, progress, c))
                        return FIT_NO;
                progress->at += used;
        }
        return FIT_YES;
}

/* --- all ways, from one place on --- */

static void attempt_begin(const Redactor *redactor, Attempt *attempt, char first) {
        attempt->is_begun = true;
        attempt->open = redactor->first[(unsigned char) first];
        attempt->end = 0;
        for (uint32_t left = attempt->open; left; left &= left - 1)
                attempt->progress[__builtin_ctz(left)] = (Progress){};
}

/* Goes on with the bytes from that place on, which begin with those it had before. FIT_MORE: an
 * occurrence that is longer than the one it has may yet come. */
static Fit attempt_follow(const Redactor *redactor, Attempt *attempt, const char *data,
                          size_t size) {
        if (!attempt->is_begun)
                attempt_begin(redactor, attempt, *data);
        for (uint32_t left = attempt->open; left; left &= left - 1) {
                unsigned i = (unsigned) __builtin_ctz(left);
                Progress *progress = &attempt->progress[i];
                Fit fit = way_follow(&redactor->ways[i], progress, data, size, &attempt->n_read);

                if (fit == FIT_YES)
                        attempt->end = size_max(attempt->end, progress->at);
                if (fit != FIT_MORE)
                        attempt->open &= ~(UINT32_C(1) << i);
        }
        if (attempt->open)
                return FIT_MORE;
        return attempt->end > 0 ? FIT_YES : FIT_NO;
}

/* --- what is looked for --- */

static void add_way(Redactor *redactor, const Pattern *pattern, unsigned mode) {
        Way *way = &redactor->ways[redactor->n_ways];
        uint32_t bit = UINT32_C(1) << redactor->n_ways++;
        char wanted = *pattern->text.data;

        *way = (Way){pattern, mode};
        for (int c = 0; c < 0x80; c++)
                if (is_char(way, wanted, (char) c))
                        redactor->first[c] |= bit;
        if (mode & MODE_PERCENT)
                redactor->first['%'] |= bit;
        if (mode & MODE_JSON)
                redactor->first['\\'] |= bit;
}

/* What is read without a mode is read with it as well, but for the character that it makes another
 * one of: only a pattern that has it is looked for both with and without. */
static void add_ways(Redactor *redactor, const Pattern *pattern) {
        const Secret *text = &pattern->text;
        bool has_percent = memchr(text->data, '%', text->size),
             has_backslash = memchr(text->data, '\\', text->size),
             has_plus = memchr(text->data, '+', text->size);

        for (unsigned mode = 0; mode < MODES; mode++) {
                bool is_form = mode & MODE_FORM;

                if ((mode & MODE_PERCENT || has_percent) && (mode & MODE_JSON || has_backslash) &&
                    (pattern->is_base64 ? is_form || has_plus : !is_form))
                        add_way(redactor, pattern, mode);
        }
}

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
        add_ways(redactor, pattern);
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

/* What stands before an end, but for the marks, is passed on as it is. */
static int release(Redactor *redactor, size_t end, StrBuf *out) {
        const StrBuf *held = &redactor->held;
        int r;

        if (end == redactor->n_released)
                return 0;
        r = strbuf_append(out, held->data + redactor->n_released, end - redactor->n_released);
        if (r == 0)
                redactor->n_released = end;
        return error_trace(r);
}

static int put_mark(Redactor *redactor, StrBuf *out) {
        char mark[MARK_SIZE];
        int r;

        memset(mark, redactor->mark, sizeof(mark));
        r = release(redactor, redactor->from, out);
        if (r == 0)
                r = strbuf_append(out, mark, sizeof(mark));
        if (r < 0)
                return error_trace(r);
        redactor->n_released = redactor->end;
        redactor->end = 0;
        redactor->n_found++;
        return 0;
}

/* It is known what begins at at: an occurrence, or nothing. One that begins within another and ends
 * behind it makes it longer. */
static int step(Redactor *redactor, StrBuf *out) {
        size_t end = redactor->attempt.end;

        if (end > 0) {
                redactor->from = redactor->end > 0 ? redactor->from : redactor->at;
                redactor->end = size_max(redactor->end, redactor->at + end);
        }
        redactor->attempt.is_begun = false;
        redactor->at++;
        return redactor->at == redactor->end ? error_trace(put_mark(redactor, out)) : 0;
}

/* Where the next occurrence may begin. */
static size_t skip(const Redactor *redactor) {
        const StrBuf *held = &redactor->held;
        size_t limit = redactor->end > 0 ? redactor->end - 1 : held->size, at = redactor->at;

        while (at < limit && !redactor->first[(unsigned char) held->data[at]])
                at++;
        return at;
}

/* Forgets what is passed on, when it is at least half: what a byte costs does not depend on how
 * many are held. */
static void forget(Redactor *redactor) {
        size_t n = redactor->n_released;

        if (n < redactor->held.size - n)
                return;
        strbuf_consume(&redactor->held, n);
        redactor->n_released = 0;
        redactor->at -= n;
        if (redactor->end > 0) {
                redactor->from -= n;
                redactor->end -= n;
        }
}

static int redact(Redactor *redactor, bool is_last, StrBuf *out) {
        StrBuf *held = &redactor->held;
        int r = 0;

        while (r == 0 && (redactor->at = skip(redactor)) < held->size) {
                Fit fit = attempt_follow(redactor, &redactor->attempt, held->data + redactor->at,
                                         held->size - redactor->at);

                if (fit == FIT_MORE && !is_last)
                        break;
                r = step(redactor, out);
        }
        if (r == 0)
                r = release(redactor, redactor->end > 0 ? redactor->from : redactor->at, out);
        if (r == 0)
                forget(redactor);
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

uint64_t redactor_n_read(const Redactor *redactor) {
        return redactor->attempt.n_read;
}

bool redactor_finds(const Redactor *redactor, const char *data, size_t size) {
        Attempt attempt = {};

        for (size_t at = 0; at < size; at++) {
                (void) attempt_follow(redactor, &attempt, data + at, size - at);
                if (attempt.end > 0)
                        return true;
                attempt.is_begun = false;
        }
        return false;
}
