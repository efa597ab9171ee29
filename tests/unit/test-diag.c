/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/diag.h"
#include "basic/string-util.h"

static void check_format(const Diag *diag, const char *expected) {
        _cleanup_(freep) char *s = diag_format(diag);

        ck_assert_str_eq(s, expected);
}

START_TEST(test_format) {
        check_format(&(Diag){(char *) "a.json", 2, 5, (char *) "limits.disk", (char *) "is zero"},
                     "a.json:2:5: limits.disk: is zero");
        check_format(&(Diag){(char *) "a.json", 2, 5, NULL, (char *) "is zero"},
                     "a.json:2:5: is zero");
        check_format(&(Diag){(char *) "a.json", 0, 0, NULL, (char *) "is a FIFO"},
                     "a.json: is a FIFO");
        /* A name must not be able to write lines of its own or to move the cursor. */
        check_format(
                &(Diag){(char *) "a\nb", 1, 1, (char *) "x\x1b[2J", (char *) "caf\xc3\xa9 \xff"},
                "a\\x0ab:1:1: x\\x1b[2J: caf\xc3\xa9 \\xff");
}
END_TEST

START_TEST(test_list) {
        _cleanup_(diag_list_done) DiagList list = DIAG_LIST_NULL;

        for (unsigned i = 0; i < DIAG_MAX + 3; i++)
                ck_assert_int_eq(diag_add(&list, "f", i + 1, 1, i % 2 ? "" : "k", "fault %u", i),
                                 0);

        ck_assert_uint_eq(list.n_items, DIAG_MAX);
        ck_assert_uint_eq(list.n_dropped, 3);
        ck_assert_str_eq(list.items[0].path, "k");
        ck_assert_ptr_null(list.items[1].path);
        ck_assert_str_eq(list.items[DIAG_MAX - 1].text, "fault 19");

        diag_list_done(&list);
        ck_assert_uint_eq(list.n_items, 0);
        ck_assert_uint_eq(list.n_dropped, 0);
}
END_TEST

static const char *const quotes[][2] = {
        {"", "\"\""},
        {"abc", "\"abc\""},
        {"a\tb\x7f", "\"a\\x09b\\x7f\""},
        {"\xc2\x9b"
         "31m",
         "\"\\xc2\\x9b31m\""}, /* the C1 form of ESC [ */
        {"\xc2\xa9", "\"\xc2\xa9\""},
        {"\xe2\x82", "\"\\xe2\\x82\""},
        {"\xff\xc3\xa9\xfe", "\"\\xff\xc3\xa9\\xfe\""},
        {"0123456789012345678901234567890123456789012345678901234567890123",
         "\"0123456789012345678901234567890123456789012345678901234567890123\""},
        {"01234567890123456789012345678901234567890123456789012345678901234",
         "\"0123456789012345678901234567890123456789012345678901234567890123\xe2\x80\xa6\""},
        /* The cut falls into a character, which then goes as a whole. */
        {"012345678901234567890123456789012345678901234567890123456789012\xc3\xa9xyz",
         "\"012345678901234567890123456789012345678901234567890123456789012\xe2\x80\xa6\""},
};

/* Longer than an excerpt, and still whole. */
START_TEST(test_quote_path) {
        char path[201] = "/", want[203];
        _cleanup_(freep) char *s = NULL;

        memset(path + 1, 'x', sizeof(path) - 2);
        (void) snprintf(want, sizeof(want), "\"%s\"", path);
        s = diag_quote_path(path);
        ck_assert_str_eq(s, want);
}
END_TEST

START_TEST(test_quote) {
        _cleanup_(freep) char *s = diag_quote(quotes[_i][0]);

        ck_assert_str_eq(s, quotes[_i][1]);
}
END_TEST

START_TEST(test_excerpt) {
        _cleanup_(freep) char *s = diag_excerpt("a\0b, and the rest", 3);

        ck_assert_str_eq(s, "a\\x00b");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("diag");
        TCase *tcase = tcase_create("diag");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_format);
        tcase_add_test(tcase, test_list);
        tcase_add_loop_test(tcase, test_quote, 0, ELEMENTSOF(quotes));
        tcase_add_test(tcase, test_quote_path);
        tcase_add_test(tcase, test_excerpt);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
