/* SPDX-License-Identifier: Apache-2.0 */

#include "schema/number.h"

#include <string.h>

#define EXPONENT_DIGITS_MAX 17
/* So that ten times a rest is still an uint64_t. */
#define DIVISOR_DIGITS_MAX 18

/* The part behind e or E. *ret_fits is false if it has too many digits. */
static int64_t parse_exponent(const char *s, const char *end, bool *ret_fits) {
        bool negative = *s == '-';
        int64_t value = 0;

        if (*s == '-' || *s == '+')
                s++;
        while (s < end && *s == '0')
                s++;

        *ret_fits = end - s <= EXPONENT_DIGITS_MAX;
        for (; *ret_fits && s < end; s++)
                value = value * 10 + (*s - '0');
        return negative ? -value : value;
}

static size_t n_digits_at(const char *s, const char *end) {
        const char *p = s;

        while (p < end && *p >= '0' && *p <= '9')
                p++;
        return (size_t) (p - s);
}

/* Takes away the zeros at both ends. */
static void strip_zeros(Number *n) {
        while (n->n_whole > 0 && n->whole[0] == '0') {
                n->whole++;
                n->n_whole--;
        }
        while (n->n_fraction > 0 && n->fraction[n->n_fraction - 1] == '0') {
                n->n_fraction--;
                n->exponent++;
        }
        if (n->n_whole == 0)
                while (n->n_fraction > 0 && n->fraction[0] == '0') {
                        n->fraction++;
                        n->n_fraction--;
                }
        if (n->n_fraction == 0)
                while (n->n_whole > 0 && n->whole[n->n_whole - 1] == '0') {
                        n->n_whole--;
                        n->exponent++;
                }
}

int number_parse(const char *text, size_t size, Number *ret_number) {
        const char *p = text, *end = text + size;
        Number n = {};
        bool fits = true;

        if (p < end && *p == '-') {
                n.negative = true;
                p++;
        }
        n.whole = n.fraction = p;
        n.n_whole = n_digits_at(p, end);
        p += n.n_whole;
        if (p < end && *p == '.') {
                n.fraction = p + 1;
                n.n_fraction = n_digits_at(p + 1, end);
                p += 1 + n.n_fraction;
        }
        if (p + 1 < end)
                n.exponent = parse_exponent(p + 1, end, &fits);

        n.exponent -= (int64_t) n.n_fraction;
        strip_zeros(&n);
        if (number_is_zero(&n))
                n = (Number){.whole = text, .fraction = text};
        else if (!fits)
                return NUMBER_E_RANGE;

        *ret_number = n;
        return 0;
}

static inline char digit_at(const Number *n, size_t i) {
        return i < n->n_whole ? n->whole[i] : n->fraction[i - n->n_whole];
}

/* Of two that are not zero, without their signs. */
static int compare_sizes(const Number *a, const Number *b) {
        size_t n_a = number_n_digits(a), n_b = number_n_digits(b);
        int64_t top_a = a->exponent + (int64_t) n_a, top_b = b->exponent + (int64_t) n_b;

        if (top_a != top_b)
                return top_a < top_b ? -1 : 1;
        for (size_t i = 0; i < n_a && i < n_b; i++)
                if (digit_at(a, i) != digit_at(b, i))
                        return digit_at(a, i) < digit_at(b, i) ? -1 : 1;
        /* The last digit is no zero, so that more of them are more. */
        return n_a == n_b ? 0 : n_a < n_b ? -1 : 1;
}

static int sign_of(const Number *n) {
        return number_is_zero(n) ? 0 : n->negative ? -1 : 1;
}

int number_compare(const Number *a, const Number *b) {
        int sign_a = sign_of(a), sign_b = sign_of(b);

        if (sign_a != sign_b)
                return sign_a < sign_b ? -1 : 1;
        return sign_a == 0 ? 0 : sign_a * compare_sizes(a, b);
}

int number_to_uint64(const Number *n, uint64_t *ret_value) {
        uint64_t value = 0;

        if (n->negative || !number_is_whole(n) || n->exponent > 20)
                return NUMBER_E_RANGE;
        for (size_t i = 0; i < number_n_digits(n); i++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (digit_at(n, i) - '0'), &value))
                        return NUMBER_E_RANGE;
        for (int64_t i = 0; i < n->exponent; i++)
                if (__builtin_mul_overflow(value, 10, &value))
                        return NUMBER_E_RANGE;

        *ret_value = value;
        return 0;
}

uint64_t number_hash(const Number *n) {
        uint64_t hash =
                0xcbf29ce484222325U ^ (uint64_t) n->exponent ^ ((uint64_t) n->negative << 63);

        for (size_t i = 0; i < number_n_digits(n); i++)
                hash = (hash ^ (uint8_t) digit_at(n, i)) * 0x100000001b3U;
        return hash;
}

int number_to_divisor(const Number *n, Divisor *ret_divisor) {
        Divisor divisor = {.exponent = n->exponent};

        if (n->negative || number_is_zero(n) || number_n_digits(n) > DIVISOR_DIGITS_MAX)
                return NUMBER_E_RANGE;
        for (size_t i = 0; i < number_n_digits(n); i++)
                divisor.digits = divisor.digits * 10 + (uint64_t) (digit_at(n, i) - '0');

        *ret_divisor = divisor;
        return 0;
}

static uint64_t multiply_modulo(uint64_t a, uint64_t b, uint64_t modulus) {
        return (uint64_t) ((unsigned __int128) a * b % modulus);
}

static uint64_t power_of_ten_modulo(uint64_t exponent, uint64_t modulus) {
        uint64_t result = 1 % modulus, base = 10 % modulus;

        for (; exponent > 0; exponent >>= 1) {
                if (exponent & 1)
                        result = multiply_modulo(result, base, modulus);
                base = multiply_modulo(base, base, modulus);
        }
        return result;
}

bool number_is_multiple(const Number *n, const Divisor *divisor) {
        uint64_t rest = 0;

        if (number_is_zero(n))
                return true;
        /* The number would have to be a multiple of a power of ten, and its last digit is no zero.
         */
        if (n->exponent < divisor->exponent)
                return false;

        for (size_t i = 0; i < number_n_digits(n); i++)
                rest = (rest * 10 + (uint64_t) (digit_at(n, i) - '0')) % divisor->digits;
        return multiply_modulo(
                       rest,
                       power_of_ten_modulo((uint64_t) n->exponent - (uint64_t) divisor->exponent,
                                           divisor->digits),
                       divisor->digits) == 0;
}
