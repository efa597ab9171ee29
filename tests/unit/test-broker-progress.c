/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <jansson.h>
#include <string.h>

#include "broker/progress.h"

/* The text and the number of the notification of all that is pending. */
static char *take(Progress *progress, json_int_t *ret_progress) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        json_t *message, *params;
        char *text;

        ck_assert(progress_pending(progress));
        ck_assert_int_eq(progress_take(progress, 1000, &out), 0);
        ck_assert(!progress_pending(progress));
        ck_assert_uint_gt(progress->due_usec, 1000);
        message = json_loadb(out.data, out.size, JSON_ALLOW_NUL, NULL);
        ck_assert_ptr_nonnull(message);
        params = json_object_get(message, "params");
        *ret_progress = json_integer_value(json_object_get(params, "progress"));
        text = strdup(json_string_value(json_object_get(params, "message")));
        json_decref(message);
        return text;
}

static void add(Progress *progress, unsigned stream, const char *text) {
        ck_assert_int_eq(progress_add(progress, stream, text, strlen(text)), 0);
}

START_TEST(test_without_token) {
        _cleanup_(progress_done) Progress progress = {};

        ck_assert_int_eq(progress_init(&progress, MCP_2025_11_25, NULL, 0), 0);
        add(&progress, 0, "text");
        ck_assert(!progress_pending(&progress));
        ck_assert_uint_eq(progress.text.size, 0);
}
END_TEST

/* A character that comes in pieces is held back until it is whole, for each stream by itself. */
START_TEST(test_characters) {
        _cleanup_(progress_done) Progress progress = {};
        _cleanup_(freep) char *first = NULL, *second = NULL;
        json_int_t a, b;

        ck_assert_int_eq(progress_init(&progress, MCP_2025_11_25, "\"t\"", 3), 0);
        add(&progress, 0, "x\xe2\x82");
        add(&progress, 1, "y\xf0\x9f");
        first = take(&progress, &a);
        ck_assert_str_eq(first, "xy");

        add(&progress, 1, "\x98\x80");
        add(&progress, 0, "\xac!");
        second = take(&progress, &b);
        ck_assert_str_eq(second, "\xf0\x9f\x98\x80\xe2\x82\xac!");
        ck_assert_int_gt(b, a);
}
END_TEST

START_TEST(test_not_text) {
        _cleanup_(progress_done) Progress progress = {};
        _cleanup_(freep) char *text = NULL;
        json_int_t n;

        ck_assert_int_eq(progress_init(&progress, MCP_2025_11_25, "0", 1), 0);
        add(&progress, 0,
            "a\xff"
            "b");
        text = take(&progress, &n);
        ck_assert_str_eq(text, "a\xef\xbf\xbd"
                               "b");
}
END_TEST

/* What does not fit is left out and counted; what is kept stays within its bound. */
START_TEST(test_bound) {
        _cleanup_(progress_done) Progress progress = {};
        _cleanup_(freep) char *text = NULL;
        static char chunk[10000];
        json_int_t n, more;

        memset(chunk, 'x', sizeof(chunk));
        ck_assert_int_eq(progress_init(&progress, MCP_2025_11_25, "0", 1), 0);
        for (size_t i = 0; i < 1000; i++) {
                ck_assert_int_eq(progress_add(&progress, 0, chunk, sizeof(chunk)), 0);
                ck_assert_uint_le(progress.text.size, PROGRESS_TEXT_MAX);
        }
        text = take(&progress, &n);
        ck_assert_int_eq(n, 10000000);
        ck_assert_ptr_nonnull(strstr(text, "\n[9940000 bytes left out]\n"));

        free(text);
        add(&progress, 0, "y");
        text = take(&progress, &more);
        ck_assert_str_eq(text, "y");
        ck_assert_int_gt(more, n);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("broker-progress");
        TCase *tcase = tcase_create("broker-progress");
        SRunner *runner;
        int n_failed;

        tcase_add_test(tcase, test_without_token);
        tcase_add_test(tcase, test_characters);
        tcase_add_test(tcase, test_not_text);
        tcase_add_test(tcase, test_bound);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
