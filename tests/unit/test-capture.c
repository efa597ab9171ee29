/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "basic/utf8.h"
#include "crate/capture.h"

#define LINE_MAX_SIZE 64U

static void capture_add_all(Capture *capture, const char *data, size_t size, size_t chunk) {
        for (size_t i = 0; i < size; i += chunk)
                ck_assert_int_eq(capture_add(capture, data + i, size_min(chunk, size - i)), 0);
}

static char *capture_take(Capture *capture, size_t *ret_size, const char **ret_encoding) {
        char *text = NULL;

        ck_assert_int_eq(capture_text(capture, &text, ret_size, ret_encoding), 0);
        ck_assert_ptr_nonnull(text);
        ck_assert_int_eq(text[*ret_size], 0);
        capture_done(capture);
        return text;
}

START_TEST(test_whole) {
        static const size_t chunks[] = {1, 3, 7, 100};
        Capture capture;
        const char *encoding;
        size_t size;

        for (size_t i = 0; i < ELEMENTSOF(chunks); i++) {
                _cleanup_(freep) char *text = NULL;

                capture_init(&capture, 10);
                capture_add_all(&capture,
                                "a\nb\xe2\x82\xac"
                                "12cd",
                                10, chunks[i]);
                ck_assert(!capture_truncated(&capture));
                text = capture_take(&capture, &size, &encoding);
                ck_assert_str_eq(text, "a\nb\xe2\x82\xac"
                                       "12cd");
                ck_assert_str_eq(encoding, "utf-8");
        }
}
END_TEST

START_TEST(test_empty) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, CAPTURE_DEFAULT);
        ck_assert(!capture_truncated(&capture));
        ck_assert_ptr_null(capture.head);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_uint_eq(size, 0);
        ck_assert_str_eq(encoding, "utf-8");
}
END_TEST

START_TEST(test_nothing_kept) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, 0);
        ck_assert_int_eq(capture_add(&capture, "abc", 3), 0);
        ck_assert(capture_truncated(&capture));
        ck_assert_uint_eq(capture.total, 3);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_uint_eq(size, 0);
}
END_TEST

/* The end of a long output holds the verdict of compilers and test runners: it must be there. */
START_TEST(test_head_and_tail) {
        _cleanup_(strbuf_done) StrBuf all = STRBUF_NULL;
        _cleanup_(freep) char *text = NULL, *gap = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        for (int i = 1; i <= 20000; i++)
                ck_assert_int_eq(strbuf_appendf(&all, "%d\n", i), 0);
        ck_assert_int_eq(strbuf_append_string(&all, "FAILED test_x: boom\n"), 0);
        capture_init(&capture, 1000);
        capture_add_all(&capture, all.data, all.size, 777);
        ck_assert(capture_truncated(&capture));
        ck_assert_uint_eq(capture.total, all.size);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_uint_le(size, 1000 + LINE_MAX_SIZE);
        ck_assert_int_eq(strncmp(text, all.data, 500), 0);
        ck_assert_str_eq(text + size - 500, all.data + all.size - 500);
        ck_assert_int_ge(asprintf(&gap, "\n[\xe2\x80\xa6 %zu bytes left out \xe2\x80\xa6]\n",
                                  all.size - 1000),
                         0);
        ck_assert_ptr_eq(strstr(text, gap), text + 500);
}
END_TEST

/* Whatever the place of the cut: valid, within the bound, whole characters only. */
START_TEST(test_cut_between_characters) {
        for (size_t offset = 0; offset < 12; offset++) {
                _cleanup_(strbuf_done) StrBuf all = STRBUF_NULL;
                _cleanup_(freep) char *text = NULL;
                Capture capture;
                const char *encoding;
                unsigned long long left_out = 0;
                size_t size;
                char *gap;

                for (size_t i = 0; i < 90 + offset; i++)
                        ck_assert_int_eq(strbuf_append_byte(&all, 'a'), 0);
                for (size_t i = 0; i < 50; i++)
                        ck_assert_int_eq(strbuf_append_string(&all, offset % 2
                                                                            ? "\xe2\x82\xac"
                                                                            : "\xf0\x9f\x98\x80"),
                                         0);
                capture_init(&capture, 200);
                capture_add_all(&capture, all.data, all.size, 1 + offset);
                text = capture_take(&capture, &size, &encoding);
                ck_assert_str_eq(encoding, "utf-8");
                ck_assert(utf8_is_valid(text, size));
                gap = strchr(text, '\n');
                ck_assert_ptr_nonnull(gap);
                ck_assert_int_eq(sscanf(gap, "\n[\xe2\x80\xa6 %llu bytes", &left_out), 1);
                ck_assert_uint_eq((size_t) (gap - text) + strlen(strrchr(text, ']') + 2) + left_out,
                                  all.size);
                ck_assert_uint_le((size_t) (gap - text) + strlen(strrchr(text, ']') + 2), 200);
        }
}
END_TEST

START_TEST(test_not_utf8) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, 100);
        ck_assert_int_eq(capture_add(&capture, "ok \260\241\377\376 end\n", 12), 0);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_str_eq(encoding, "base64");
        ck_assert_str_eq(text, "b2sgsKH//iBlbmQK");
}
END_TEST

/* Base64 is of the kept bytes and nothing else: head and tail, without a line between them. */
START_TEST(test_not_utf8_truncated) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, 6);
        ck_assert_int_eq(capture_add(&capture, "\377bcdefghi\376k", 11), 0);
        ck_assert(capture_truncated(&capture));
        text = capture_take(&capture, &size, &encoding);
        ck_assert_str_eq(encoding, "base64");
        ck_assert_str_eq(text, "/2Jjaf5r");
}
END_TEST

/* A job that ends in the middle of a character has written just that. */
START_TEST(test_partial_at_end_of_stream) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, 100);
        ck_assert_int_eq(capture_add(&capture, "ok \xe2\x82", 5), 0);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_str_eq(encoding, "base64");
}
END_TEST

/* When the owner ended the stream, half a character is the owner's doing and goes. */
START_TEST(test_partial_at_limit) {
        _cleanup_(freep) char *text = NULL;
        Capture capture;
        const char *encoding;
        size_t size;

        capture_init(&capture, 100);
        ck_assert_int_eq(capture_add(&capture, "ok \xe2\x82", 5), 0);
        capture_end(&capture);
        ck_assert_int_eq(capture_add(&capture, "\xac more", 6), 0);
        ck_assert(capture_truncated(&capture));
        ck_assert_uint_eq(capture.total, 5);
        text = capture_take(&capture, &size, &encoding);
        ck_assert_str_eq(encoding, "utf-8");
        ck_assert_str_eq(text, "ok ");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("capture");
        TCase *tcase = tcase_create("capture");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_whole);
        tcase_add_test(tcase, test_empty);
        tcase_add_test(tcase, test_nothing_kept);
        tcase_add_test(tcase, test_head_and_tail);
        tcase_add_test(tcase, test_cut_between_characters);
        tcase_add_test(tcase, test_not_utf8);
        tcase_add_test(tcase, test_not_utf8_truncated);
        tcase_add_test(tcase, test_partial_at_end_of_stream);
        tcase_add_test(tcase, test_partial_at_limit);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
