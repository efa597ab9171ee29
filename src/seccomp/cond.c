/* SPDX-License-Identifier: Apache-2.0 */

/* What stands behind "if": conditions on the arguments of a system call. */

#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "seccomp/parser.h"
#include "seccomp/words.h"

static int parse_value(SeccompParser *parser, const SeccompWord *word, const char *s, size_t size,
                       uint32_t *ret_value) {
        uint32_t sum = 0;

        for (;;) {
                const char *bar = memchr(s, '|', size);
                size_t n = bar ? (size_t) (bar - s) : size;
                char item[SECCOMP_WORD_SIZE_MAX + 1];
                uint32_t value;

                memcpy(item, s, n);
                item[n] = 0;
                if (seccomp_value_lookup(item, &value) != 0)
                        return seccomp_fault(
                                parser, word,
                                "'%s' is neither a known constant nor a number of 32 bits", item);
                sum |= value;
                if (!bar)
                        break;
                s += n + 1;
                size -= n + 1;
        }

        *ret_value = sum;
        return 0;
}

static int parse_values(SeccompParser *parser, const SeccompWord *word, SeccompCond *cond) {
        const char *s = word->s;
        int r;

        for (;;) {
                size_t n = strcspn(s, ",");

                if (cond->n_values == SECCOMP_VALUES_MAX)
                        return seccomp_fault(parser, word, "more than %u values in one condition",
                                             SECCOMP_VALUES_MAX);
                r = parse_value(parser, word, s, n, &cond->values[cond->n_values]);
                if (r < 0)
                        return error_trace(r);
                cond->n_values++;
                if (!s[n])
                        return 0;
                s += n + 1;
        }
}

static bool parse_arg(const char *s, unsigned *ret_arg) {
        const char *digit = string_after(s, "arg");

        if (!digit || digit[0] < '0' || digit[0] > '5' || digit[1])
                return false;
        *ret_arg = (unsigned) (digit[0] - '0');
        return true;
}

/* What stands behind argN and its mask: the test and its values. */
static int parse_test(SeccompParser *parser, const SeccompWord *test, const SeccompWord *value,
                      SeccompCond *cond) {
        int r;

        if (string_equal(test->s, "is"))
                cond->test = SECCOMP_TEST_IS;
        else if (string_equal(test->s, "not"))
                cond->test = SECCOMP_TEST_NOT;
        else if (string_equal(test->s, "has"))
                cond->test = SECCOMP_TEST_HAS;
        else
                return seccomp_fault(parser, test,
                                     "expected 'is', 'not', 'has' or 'without', not '%s'", test->s);

        r = parse_values(parser, value, cond);
        if (r < 0)
                return error_trace(r);
        if (cond->test == SECCOMP_TEST_HAS && cond->n_values != 1)
                return seccomp_fault(parser, value, "'has' takes one value: join bits by '|'");
        return 0;
}

/* One condition at the beginning of words; *ret_used says how many it took. */
static int parse_cond(SeccompParser *parser, const SeccompWord *words, size_t n_words,
                      SeccompCond *cond, size_t *ret_used) {
        size_t i = 1;
        uint32_t mask;
        int r;

        *cond = (SeccompCond){.mask = UINT32_MAX};
        if (!parse_arg(words[0].s, &cond->arg))
                return seccomp_fault(parser, &words[0],
                                     "expected an argument, 'arg0' to 'arg5', not '%s'",
                                     words[0].s);

        if (n_words > 2 && string_equal(words[1].s, "without")) {
                size_t n_faults = parser->n_faults;

                r = parse_value(parser, &words[2], words[2].s, strlen(words[2].s), &mask);
                if (r < 0 || parser->n_faults > n_faults)
                        return error_trace(r);
                cond->mask = ~mask;
                i = 3;
        }
        if (n_words < i + 2)
                return seccomp_fault(parser, &words[n_words - 1], "the condition ends too early");

        *ret_used = i + 2;
        return parse_test(parser, &words[i], &words[i + 1], cond);
}

int seccomp_parse_conds(SeccompParser *parser, const SeccompWord *words, size_t n_words,
                        SeccompRule *rule) {
        size_t n_faults = parser->n_faults, used = 0;
        int r;

        for (size_t i = 0;; i += used + 1) {
                if (rule->n_conds == SECCOMP_CONDS_MAX)
                        return seccomp_fault(parser, &words[i],
                                             "more than %u conditions in one rule",
                                             SECCOMP_CONDS_MAX);
                if (i == n_words) {
                        /* For the first one this is the "if" itself, which stands before words. */
                        const SeccompWord *last = words + i - 1;

                        return seccomp_fault(parser, last, "no condition behind '%s'", last->s);
                }
                r = parse_cond(parser, words + i, n_words - i, &rule->conds[rule->n_conds], &used);
                if (r < 0 || parser->n_faults > n_faults)
                        return error_trace(r);
                rule->n_conds++;
                if (i + used == n_words)
                        return 0;
                if (!string_equal(words[i + used].s, "and"))
                        return seccomp_fault(parser, &words[i + used], "expected 'and', not '%s'",
                                             words[i + used].s);
        }
}
