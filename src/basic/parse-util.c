/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/parse-util.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "basic/macros.h"
#include "basic/time-util.h"

#define FRACTION_DIGITS_MAX 9U

typedef struct Suffix {
        const char *text;
        uint64_t factor;
} Suffix;

static const Suffix size_suffixes[] = {
        {"", 1},
        {"K", 1ULL << 10},
        {"M", 1ULL << 20},
        {"G", 1ULL << 30},
};

static const Suffix time_suffixes[] = {
        {"", USEC_PER_SEC},       {"ms", USEC_PER_MSEC},      {"s", USEC_PER_SEC},
        {"m", 60 * USEC_PER_SEC}, {"h", 3600 * USEC_PER_SEC},
};

static const Suffix no_suffixes[] = {
        {"", 1},
};

/* A decimal number: its whole part, and its fraction as numerator over denominator. */
typedef struct Decimal {
        uint64_t whole;
        uint64_t numerator, denominator;
        bool zero; /* no digit but 0 */
} Decimal;

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static int parse_digits(const char **s, uint64_t *ret_value) {
        uint64_t value = 0;

        if (**s == '-' && is_digit((*s)[1]))
                return PARSE_E_NEGATIVE;
        if (!is_digit(**s))
                return PARSE_E_SYNTAX;

        for (; is_digit(**s); (*s)++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (**s - '0'), &value))
                        return PARSE_E_OVERFLOW;

        *ret_value = value;
        return 0;
}

/* Digits, a point, digits; the point needs digits on both sides. Digits that are too fine to count
 * are read and dropped. */
static int parse_decimal(const char **s, Decimal *ret_decimal) {
        Decimal d = {.denominator = 1};
        size_t n = 0;
        int r;

        r = parse_digits(s, &d.whole);
        if (r != 0)
                return r;
        d.zero = d.whole == 0;

        if (**s == '.') {
                (*s)++;
                if (!is_digit(**s))
                        return PARSE_E_SYNTAX;
                for (; is_digit(**s); (*s)++) {
                        d.zero = d.zero && **s == '0';
                        if (n++ >= FRACTION_DIGITS_MAX)
                                continue;
                        d.numerator = d.numerator * 10 + (uint64_t) (**s - '0');
                        d.denominator *= 10;
                }
        }

        *ret_decimal = d;
        return 0;
}

static int find_suffix(const Suffix *suffixes, size_t n, const char *s, uint64_t *ret_factor) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(suffixes[i].text, s) == 0) {
                        *ret_factor = suffixes[i].factor;
                        return 0;
                }
        return (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ? PARSE_E_SUFFIX
                                                                    : PARSE_E_SYNTAX;
}

/* Overflow is told last: what is wrong in its form is wrong at any size. */
static int parse_scaled(const char *s, const Suffix *suffixes, size_t n_suffixes,
                        uint64_t *ret_value) {
        uint64_t value = 0, factor = 1;
        int number, r;

        number = parse_digits(&s, &value);
        if (number != 0 && number != PARSE_E_OVERFLOW)
                return number;
        while (is_digit(*s))
                s++;
        r = find_suffix(suffixes, n_suffixes, s, &factor);
        if (r != 0)
                return r;
        if (number != 0 || __builtin_mul_overflow(value, factor, &value))
                return PARSE_E_OVERFLOW;

        *ret_value = value;
        return 0;
}

static int parse_scaled_decimal(const char *s, const Suffix *suffixes, size_t n_suffixes,
                                uint64_t unit, uint64_t *ret_value) {
        uint64_t value, factor;
        Decimal d;
        int r;

        r = parse_decimal(&s, &d);
        if (r != 0)
                return r;
        r = find_suffix(suffixes, n_suffixes, s, &factor);
        if (r != 0)
                return r;
        if (d.zero)
                return PARSE_E_ZERO;

        /* The largest factor is 3.6 × 10⁹ and the numerator below 10⁹, so the fraction fits. */
        factor *= unit;
        if (__builtin_mul_overflow(d.whole, factor, &value) ||
            __builtin_add_overflow(value, d.numerator * factor / d.denominator, &value))
                return PARSE_E_OVERFLOW;

        *ret_value = value;
        return 0;
}

int parse_uint64(const char *s, uint64_t *ret_value) {
        return parse_scaled(s, no_suffixes, ELEMENTSOF(no_suffixes), ret_value);
}

int parse_int32(const char *s, int *ret_value) {
        bool negative = s[0] == '-' && is_digit(s[1]);
        uint64_t value;
        int r;

        r = parse_uint64(s + negative, &value);
        if (r != 0)
                return r;
        if (value > (uint64_t) INT32_MAX + negative)
                return PARSE_E_OVERFLOW;

        *ret_value = negative ? (int) -(int64_t) value : (int) value;
        return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes) {
        uint64_t value;
        int r;

        r = parse_scaled(s, size_suffixes, ELEMENTSOF(size_suffixes), &value);
        if (r != 0)
                return r;
        if (value == 0)
                return PARSE_E_ZERO;
        *ret_bytes = value;
        return 0;
}

int parse_time_usec(const char *s, uint64_t *ret_usec) {
        uint64_t value;
        int r;

        r = parse_scaled_decimal(s, time_suffixes, ELEMENTSOF(time_suffixes), 1, &value);
        if (r != 0)
                return r;
        if (value < USEC_PER_MSEC)
                return PARSE_E_SMALL;
        *ret_usec = value;
        return 0;
}

int parse_milli(const char *s, uint64_t *ret_milli) {
        uint64_t value;
        int r;

        r = parse_scaled_decimal(s, no_suffixes, ELEMENTSOF(no_suffixes), 1000, &value);
        if (r != 0)
                return r;
        if (value == 0)
                return PARSE_E_SMALL;
        *ret_milli = value;
        return 0;
}

int parse_count(const char *s, uint64_t *ret_count) {
        uint64_t value;
        int r;

        r = parse_uint64(s, &value);
        if (r != 0)
                return r;
        if (value == 0)
                return PARSE_E_ZERO;
        *ret_count = value;
        return 0;
}

const char *parse_error_to_string(int outcome) {
        switch (outcome) {
        case PARSE_E_SYNTAX:
                return "is malformed";
        case PARSE_E_SUFFIX:
                return "has an unknown suffix (known are K, M and G of a size, ms, s, m and h of a "
                       "time)";
        case PARSE_E_NEGATIVE:
                return "is negative";
        case PARSE_E_OVERFLOW:
                return "is too large";
        case PARSE_E_SMALL:
                return "is too small";
        case PARSE_E_ZERO:
                return "is zero";
        default:
                return "is valid";
        }
}
