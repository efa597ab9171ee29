/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/utf8-cut.h"

typedef struct Case {
        const char *text;
        size_t size, expected;
} Case;

#define CASE(s, n)                                                                                 \
        { s, sizeof(s) - 1, n }

static const Case incomplete_cases[] = {
        CASE("", 0),
        CASE("abc", 0),
        CASE("\xe2\x82\xac", 0),
        CASE("a\xe2\x82", 2),
        CASE("a\xe2", 1),
        CASE("a\xf0\x9f\x98", 3),
        CASE("a\xc3", 1),
        CASE("a\x80", 0),     /* no beginning */
        CASE("a\xf0\x80", 0), /* no character begins so */
        CASE("\xe2\x82\xac\x82", 0),
        CASE("\x82", 0),
};

START_TEST(test_incomplete_size) {
        const Case *c = &incomplete_cases[_i];

        ck_assert_uint_eq(utf8_incomplete_size(c->text, c->size), c->expected);
}
END_TEST

static const Case orphaned_cases[] = {
        CASE("", 0),
        CASE("abc", 0),
        CASE("\x82\xac"
             "a",
             2),
        CASE("\xac", 1),
        CASE("\x9f\x98\x80z", 3),
        CASE("\x80\x80\x80\x80", 3),
        CASE("\xe2\x82", 0),
};

START_TEST(test_orphaned_size) {
        const Case *c = &orphaned_cases[_i];

        ck_assert_uint_eq(utf8_orphaned_size(c->text, c->size), c->expected);
}
END_TEST

START_TEST(test_replace_invalid) {
        _cleanup_(freep) char *plain = utf8_replace_invalid("caf\xc3\xa9");
        _cleanup_(freep) char *mended = utf8_replace_invalid("a\xff\xe2\x82z");
        _cleanup_(freep) char *empty = utf8_replace_invalid("");

        ck_assert_str_eq(plain, "caf\xc3\xa9");
        ck_assert_str_eq(mended, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
        ck_assert_str_eq(empty, "");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("utf8-cut");
        TCase *tcase = tcase_create("utf8-cut");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_incomplete_size, 0, ELEMENTSOF(incomplete_cases));
        tcase_add_loop_test(tcase, test_orphaned_size, 0, ELEMENTSOF(orphaned_cases));
        tcase_add_test(tcase, test_replace_invalid);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
