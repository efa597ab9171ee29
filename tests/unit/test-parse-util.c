/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/parse-util.h"

typedef int (*Parser)(const char *s, uint64_t *ret_value);

typedef struct Case {
        Parser parse;
        const char *text;
        int outcome;
        uint64_t value;
} Case;

#define UNTOUCHED 4711ULL

static const Case cases[] = {
        {parse_uint64, "0", 0, 0},
        {parse_uint64, "010", 0, 10},
        {parse_uint64, "18446744073709551615", 0, UINT64_MAX},
        {parse_uint64, "18446744073709551616", PARSE_E_OVERFLOW, 0},
        {parse_uint64, "99999999999999999999999", PARSE_E_OVERFLOW, 0},
        {parse_uint64, "", PARSE_E_SYNTAX, 0},
        {parse_uint64, "-1", PARSE_E_NEGATIVE, 0},
        {parse_uint64, "-", PARSE_E_SYNTAX, 0},
        {parse_uint64, "+1", PARSE_E_SYNTAX, 0},
        {parse_uint64, " 1", PARSE_E_SYNTAX, 0},
        {parse_uint64, "1 ", PARSE_E_SYNTAX, 0},
        {parse_uint64, "1.0", PARSE_E_SYNTAX, 0},
        {parse_uint64, "0x10", PARSE_E_SUFFIX, 0},
        {parse_uint64, "ten", PARSE_E_SYNTAX, 0},

        {parse_size, "1", 0, 1},
        {parse_size, "2K", 0, 2048},
        {parse_size, "64M", 0, 64ULL << 20},
        {parse_size, "3G", 0, 3ULL << 30},
        {parse_size, "0", PARSE_E_ZERO, 0},
        {parse_size, "0G", PARSE_E_ZERO, 0},
        {parse_size, "-1", PARSE_E_NEGATIVE, 0},
        {parse_size, "1Q", PARSE_E_SUFFIX, 0},
        {parse_size, "1k", PARSE_E_SUFFIX, 0},
        {parse_size, "1MB", PARSE_E_SUFFIX, 0},
        {parse_size, "M", PARSE_E_SYNTAX, 0},
        {parse_size, "1.5G", PARSE_E_SYNTAX, 0},
        {parse_size, "17179869183G", 0, 17179869183ULL << 30},
        {parse_size, "17179869184G", PARSE_E_OVERFLOW, 0},
        {parse_size, "18446744073709551616", PARSE_E_OVERFLOW, 0},
        {parse_size, "18446744073709551616Q", PARSE_E_SUFFIX, 0},

        {parse_time_usec, "10", 0, 10000000},
        {parse_time_usec, "500ms", 0, 500000},
        {parse_time_usec, "10s", 0, 10000000},
        {parse_time_usec, "5m", 0, 300000000},
        {parse_time_usec, "2h", 0, 7200000000},
        {parse_time_usec, "1.5s", 0, 1500000},
        {parse_time_usec, "0.001", 0, 1000},
        {parse_time_usec, "1.0000000009s", 0, 1000000},
        {parse_time_usec, "0.000277778h", 0, 1000000}, /* 1.0000008 s, cut */
        {parse_time_usec, "0", PARSE_E_ZERO, 0},
        {parse_time_usec, "0.000s", PARSE_E_ZERO, 0},
        {parse_time_usec, "0.9ms", PARSE_E_SMALL, 0},
        {parse_time_usec, "0.00000000000001s", PARSE_E_SMALL, 0},
        {parse_time_usec, "-1", PARSE_E_NEGATIVE, 0},
        {parse_time_usec, "-0.5s", PARSE_E_NEGATIVE, 0},
        {parse_time_usec, "5 m", PARSE_E_SYNTAX, 0},
        {parse_time_usec, "5d", PARSE_E_SUFFIX, 0},
        {parse_time_usec, "5M", PARSE_E_SUFFIX, 0},
        {parse_time_usec, ".5s", PARSE_E_SYNTAX, 0},
        {parse_time_usec, "5.s", PARSE_E_SYNTAX, 0},
        {parse_time_usec, "1.2.3", PARSE_E_SYNTAX, 0},
        {parse_time_usec, "5124095576h", 0, 5124095576ULL * 3600 * 1000000},
        {parse_time_usec, "5124095577h", PARSE_E_OVERFLOW, 0},
        {parse_time_usec, "18446744073709.551616s", PARSE_E_OVERFLOW, 0},

        {parse_milli, "1.5", 0, 1500},
        {parse_milli, "2", 0, 2000},
        {parse_milli, "0.001", 0, 1},
        {parse_milli, "0.0001", PARSE_E_SMALL, 0},
        {parse_milli, "0.0", PARSE_E_ZERO, 0},
        {parse_milli, "-1.5", PARSE_E_NEGATIVE, 0},
        {parse_milli, "1e3", PARSE_E_SUFFIX, 0},
        {parse_milli, "18446744073709552", PARSE_E_OVERFLOW, 0},

        {parse_count, "512", 0, 512},
        {parse_count, "0", PARSE_E_ZERO, 0},
        {parse_count, "-3", PARSE_E_NEGATIVE, 0},
        {parse_count, "5K", PARSE_E_SUFFIX, 0},
};

START_TEST(test_values) {
        const Case *c = &cases[_i];
        uint64_t value = UNTOUCHED;

        ck_assert_msg(c->parse(c->text, &value) == c->outcome, "%s", c->text);
        ck_assert_uint_eq(value, c->outcome == 0 ? c->value : UNTOUCHED);
}
END_TEST

START_TEST(test_int32) {
        int value = 7;

        ck_assert_int_eq(parse_int32("-2147483648", &value), 0);
        ck_assert_int_eq(value, INT32_MIN);
        ck_assert_int_eq(parse_int32("2147483647", &value), 0);
        ck_assert_int_eq(value, INT32_MAX);
        ck_assert_int_eq(parse_int32("2147483648", &value), PARSE_E_OVERFLOW);
        ck_assert_int_eq(parse_int32("-2147483649", &value), PARSE_E_OVERFLOW);
        ck_assert_int_eq(parse_int32("--1", &value), PARSE_E_SYNTAX);
        ck_assert_int_eq(value, INT32_MAX);
}
END_TEST

START_TEST(test_error_texts) {
        ck_assert_str_eq(parse_error_to_string(PARSE_E_NEGATIVE), "is negative");
        ck_assert_str_eq(
                parse_error_to_string(PARSE_E_SUFFIX),
                "has an unknown suffix (known are K, M and G of a size, ms, s, m and h of a time)");
        for (int i = PARSE_E_SYNTAX; i < PARSE_E_ZERO; i++)
                ck_assert_str_ne(parse_error_to_string(i), parse_error_to_string(i + 1));
}
END_TEST

int main(void) {
        Suite *suite = suite_create("parse-util");
        TCase *tcase = tcase_create("parse-util");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_values, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_int32);
        tcase_add_test(tcase, test_error_texts);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
