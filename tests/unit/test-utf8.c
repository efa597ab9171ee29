/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/utf8.h"

typedef struct Case {
        const char *text;
        size_t size, valid;
} Case;

#define CASE(s, n)                                                                                 \
        { s, sizeof(s) - 1, n }

static const Case cases[] = {
        CASE("", 0),
        CASE("abc", 3),
        CASE("a\0b", 3),
        CASE("\xc2\x80", 2),
        CASE("\xdf\xbf", 2),
        CASE("\xe0\xa0\x80", 3),
        CASE("\xed\x9f\xbf", 3),     /* U+D7FF, just below the surrogates */
        CASE("\xee\x80\x80", 3),     /* U+E000, just above them */
        CASE("\xf0\x90\x80\x80", 4), /* U+10000 */
        CASE("\xf4\x8f\xbf\xbf", 4), /* U+10FFFF */
        CASE("\x80", 0),             /* a continuation alone */
        CASE("\xc0\x80", 0),         /* overlong NUL */
        CASE("\xc1\xbf", 0),         /* overlong */
        CASE("\xe0\x9f\xbf", 0),     /* overlong */
        CASE("\xf0\x8f\xbf\xbf", 0), /* overlong */
        CASE("\xed\xa0\x80", 0),     /* surrogate */
        CASE("\xed\xbf\xbf", 0),     /* surrogate */
        CASE("\xf4\x90\x80\x80", 0), /* U+110000 */
        CASE("\xf5\x80\x80\x80", 0), /* above */
        CASE("\xff", 0),             /* never */
        CASE("ab\xe2\x82", 2),       /* cut */
        CASE("ab\xe2\x82z", 2),      /* cut, then text */
        CASE("ab\xf0\x9f\x98 ", 2),  /* the fourth byte is another character */
        CASE("\xc3\xa9\xc3", 2),
};

START_TEST(test_valid_size) {
        const Case *c = &cases[_i];

        ck_assert_uint_eq(utf8_valid_size(c->text, c->size), c->valid);
        ck_assert(utf8_is_valid(c->text, c->size) == (c->valid == c->size));
}
END_TEST

START_TEST(test_sequence_size) {
        ck_assert_uint_eq(utf8_sequence_size("", 0), 0);
        ck_assert_uint_eq(utf8_sequence_size("ab", 2), 1);
        ck_assert_uint_eq(utf8_sequence_size("\xe2\x82\xac+", 4), 3);
        ck_assert_uint_eq(utf8_sequence_size("\xe2\x82\xac+", 2), 0);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("utf8");
        TCase *tcase = tcase_create("utf8");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_valid_size, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_sequence_size);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
