/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "schema/number.h"
#include "tests/unit/suite.h"

static Number parse(const char *text) {
        Number n;

        ck_assert_msg(number_parse(text, strlen(text), &n) == 0, "%s", text);
        return n;
}

/* From the smallest to the largest; those of one line are equal. */
static const char *const order[][5] = {
        {"-1e99999999999999999", "-10e99999999999999998"},
        {"-18446744073709551616"},
        {"-18446744073709551615", "-1844674407370955161.5E1"},
        {"-1.5", "-15e-1", "-0.0015e+003"},
        {"-1", "-1.0", "-0.1e1", "-1e0"},
        {"-1e-99999999999999999"},
        {"0", "-0", "0.000", "-0e5", "0e999999999999999999999"},
        {"1e-99999999999999999", "0.1e-99999999999999998"},
        {"0.1", "1e-1", "0.100", "10e-2"},
        {"0.10000000000000000000000000000000000001"},
        {"1"},
        {"9", "9.00"},
        {"10", "1e1", "1E+1", "100e-1"},
        {"99"},
        {"100", "1e2", "1e002", "1.00e2", "0.01e4"},
        {"101", "1.01e2"},
        {"9007199254740992"},
        {"9007199254740993"},
        {"9223372036854775807"},
        {"9223372036854775808"},
        {"1e308"},
        {"1e99999999999999999"},
};

START_TEST(test_order) {
        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                for (size_t k = 0; k < ELEMENTSOF(order); k++)
                        for (size_t m = 0; m < 25; m++) {
                                const char *x = order[i][m / 5], *y = order[k][m % 5];
                                Number a, b;
                                int wanted = i < k ? -1 : i > k;

                                if (!x || !y)
                                        continue;
                                a = parse(x);
                                b = parse(y);
                                ck_assert_msg(number_compare(&a, &b) == wanted, "%s, %s", x, y);
                                if (wanted == 0)
                                        ck_assert_uint_eq(number_hash(&a), number_hash(&b));
                        }
}
END_TEST

START_TEST(test_range) {
        static const char *const bad[] = {"1e123456789012345678", "-1E-123456789012345678",
                                          "0.5e+100000000000000000"};
        Number n;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ck_assert_int_eq(number_parse(bad[i], strlen(bad[i]), &n), NUMBER_E_RANGE);
}
END_TEST

START_TEST(test_whole) {
        static const char *const whole[] = {"0", "-0.0", "1", "1.0", "1e2", "120e-1", "0.5e1"};
        static const char *const broken[] = {"0.5", "1e-1", "125e-1", "-1.0000000000000000000001"};

        for (size_t i = 0; i < ELEMENTSOF(whole); i++) {
                Number n = parse(whole[i]);

                ck_assert_msg(number_is_whole(&n), "%s", whole[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(broken); i++) {
                Number n = parse(broken[i]);

                ck_assert_msg(!number_is_whole(&n), "%s", broken[i]);
        }
}
END_TEST

START_TEST(test_uint64) {
        static const char *const bad[] = {"-1",   "0.5",   "18446744073709551616",
                                          "1e20", "1e300", "99999999999999999999"};
        static const struct {
                const char *text;
                uint64_t value;
        } good[] = {{"0", 0},     {"-0", 0},      {"7", 7},
                    {"1e2", 100}, {"1.50e1", 15}, {"18446744073709551615", UINT64_MAX}};
        uint64_t value;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                Number n = parse(bad[i]);

                ck_assert_msg(number_to_uint64(&n, &value) == NUMBER_E_RANGE, "%s", bad[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                Number n = parse(good[i].text);

                ck_assert_int_eq(number_to_uint64(&n, &value), 0);
                ck_assert_uint_eq(value, good[i].value);
        }
}
END_TEST

START_TEST(test_multiple) {
        static const struct {
                const char *number, *divisor;
                bool multiple;
        } rows[] = {
                {"0", "3", true},
                {"6", "3", true},
                {"-6", "3", true},
                {"7", "3", false},
                {"0.3", "0.1", true},
                {"0.35", "0.1", false},
                {"4.02", "0.01", true},
                {"1e99999999999999999", "0.01", true},
                {"1e99999999999999999", "3", false},
                {"3e99999999999999999", "3", true},
                {"1e-99999999999999999", "1e-99999999999999999", true},
                {"1e99999999999999999", "1e-99999999999999999", true},
                {"1e-99999999999999999", "1", false},
                {"15", "10", false},
                {"150", "1e1", true},
                {"5", "2.5", true},
                {"999999999999999999999999999999999999", "999999999999999999", true},
                {"999999999999999999999999999999999998", "999999999999999999", false},
                {"0.0075", "0.0001", true},
                {"0.00751", "0.0001", false},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Number n = parse(rows[i].number), d = parse(rows[i].divisor);
                Divisor divisor;

                ck_assert_int_eq(number_to_divisor(&d, &divisor), 0);
                ck_assert_msg(number_is_multiple(&n, &divisor) == rows[i].multiple, "%s, %s",
                              rows[i].number, rows[i].divisor);
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("schema-number");

        tcase_add_test(tcase, test_order);
        tcase_add_test(tcase, test_range);
        tcase_add_test(tcase, test_whole);
        tcase_add_test(tcase, test_uint64);
        tcase_add_test(tcase, test_multiple);
        return suite_run("schema-number", tcase);
}
