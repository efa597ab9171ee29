/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "broker/refusals.h"

#define SECOND 1000000ULL

/* The first ones of a while are recorded, and what was left out is told with the next. */
START_TEST(test_bound) {
        Refusals refusals = {};
        uint64_t now = 100 * SECOND, missed;

        for (unsigned i = 0; i < 3 * REFUSALS_MAX; i++) {
                ck_assert_int_eq(refusals_admit(&refusals, now, &missed), i < REFUSALS_MAX);
                ck_assert_uint_eq(missed, 0);
        }
        now += REFUSALS_WHILE_USEC - 1;
        ck_assert(!refusals_admit(&refusals, now, &missed));
        now++;
        ck_assert(refusals_admit(&refusals, now, &missed));
        ck_assert_uint_eq(missed, 2 * REFUSALS_MAX + 1);
        ck_assert(refusals_admit(&refusals, now + 5 * REFUSALS_WHILE_USEC, &missed));
        ck_assert_uint_eq(missed, 0);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("broker-refusals");
        TCase *tcase = tcase_create("broker-refusals");
        SRunner *runner;
        int n_failed;

        tcase_add_test(tcase, test_bound);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
