/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbers of JSON as the decimals that they are: 2^63, 1e2 and 0.1 are compared digit by digit and
 * never become a double, in which a limit of 9007199254740993 would let 9007199254740992 pass.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _NUMBER_E_SUCCESS,
        NUMBER_E_RANGE, /* an exponent of more than 17 digits; for number_to_uint64 any other number
                           than one from 0 to 2^64 - 1 */
};

/* value = ±0.DIGITS * 10^(exponent + n_digits). Neither end of the digits is a zero; they are those
 * of both slices, which point into the text that was parsed. Zero has no digits and no sign. */
typedef struct Number {
        const char *whole, *fraction;
        size_t n_whole, n_fraction;
        int64_t exponent; /* of the last digit */
        bool negative;
} Number;

/* Text that a JSON scanner took for a number. */
int number_parse(const char *text, size_t size, Number *ret_number);

static inline size_t number_n_digits(const Number *n) {
        return n->n_whole + n->n_fraction;
}

static inline bool number_is_zero(const Number *n) {
        return number_n_digits(n) == 0;
}

/* 1.0 and 1e2 are whole, as JSON Schema says since draft 6. */
static inline bool number_is_whole(const Number *n) {
        return number_is_zero(n) || n->exponent >= 0;
}

/* -1, 0, 1 */
int number_compare(const Number *a, const Number *b);
int number_to_uint64(const Number *n, uint64_t *ret_value);
/* Equal numbers have equal ones, however they are written. */
uint64_t number_hash(const Number *n);

/* What multipleOf divides by: digits * 10^exponent, digits not 0. */
typedef struct Divisor {
        uint64_t digits;
        int64_t exponent;
} Divisor;

/* NUMBER_E_RANGE unless it is above 0 and has at most 18 digits. */
int number_to_divisor(const Number *n, Divisor *ret_divisor);
bool number_is_multiple(const Number *n, const Divisor *divisor);
