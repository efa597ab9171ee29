/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "basic/string-util.h"
#include "mcp/framing.h"

/* Feeds text in pieces of n bytes and writes what comes out as "line|line|#|", # for oversize. */
static void run(const char *text, size_t size, size_t n, size_t max, StrBuf *out) {
        Framer framer;

        framer_init(&framer, max);
        for (size_t i = 0; i < size; i += n) {
                ck_assert_int_eq(framer_add(&framer, text + i, size_min(n, size - i)), 0);
                for (;;) {
                        const char *line;
                        size_t line_size;
                        int r;

                        r = framer_next(&framer, &line, &line_size);
                        if (r == FRAMER_E_MORE)
                                break;
                        if (r == FRAMER_E_OVERSIZE)
                                ck_assert_int_eq(strbuf_append_string(out, "#|"), 0);
                        else {
                                ck_assert_int_eq(r, 0);
                                ck_assert_int_eq(strbuf_append(out, line, line_size), 0);
                                ck_assert_int_eq(strbuf_append_string(out, "|"), 0);
                        }
                }
                ck_assert_uint_le(framer_pending(&framer), max + n);
        }
        framer_done(&framer);
}

typedef struct Case {
        const char *text, *expected;
} Case;

/* The longest line is 8 bytes. */
static const Case cases[] = {
        {"a\nbb\n", "a|bb|"},
        {"a\r\nb\r\n", "a|b|"},
        {"\n\r\n  \n\t\na\n\n", "a|"},
        {"a", ""},
        {"a\nb", "a|"},
        {"12345678\n", "12345678|"},
        {"12345678\r\n", "12345678|"},
        {"123456789\nx\n", "#|x|"},
        {"123456789abcdefghijklmnopqrstuvwxyz\nx\n", "#|x|"},
        {"x\n123456789abcdefghij", "x|#|"},
        {"123456789\n123456789\nx\n", "#|#|x|"},
        {"a\rb\n", "a\rb|"},
        {"\xe2\x80\xa8\v\f\n", "\xe2\x80\xa8\v\f|"},
        {"\xff\n", "\xff|"},
};

START_TEST(test_cases) {
        const Case *c = &cases[_i];

        /* Each way of splitting gives the same lines. */
        for (size_t n = 1; n <= strlen(c->text); n++) {
                _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

                run(c->text, strlen(c->text), n, 8, &out);
                ck_assert_str_eq(out.data ?: "", c->expected);
        }
}
END_TEST

START_TEST(test_nul_is_content) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        run("a\0b\n", 4, 1, 8, &out);
        ck_assert_uint_eq(out.size, 4);
        ck_assert_mem_eq(out.data, "a\0b|", 4);
}
END_TEST

/* 64 MiB without a newline must neither be kept nor take quadratic time; the test's own time limit
 * catches the latter. */
START_TEST(test_endless_line) {
        static char chunk[65536];
        const char *line;
        size_t size, n_oversize = 0;
        Framer framer;

        memset(chunk, 'x', sizeof(chunk));
        framer_init(&framer, 1 << 20);
        for (size_t i = 0; i < 1024; i++) {
                int r;

                ck_assert_int_eq(framer_add(&framer, chunk, sizeof(chunk)), 0);
                while ((r = framer_next(&framer, &line, &size)) != FRAMER_E_MORE) {
                        ck_assert_int_eq(r, FRAMER_E_OVERSIZE);
                        n_oversize++;
                }
                ck_assert_uint_le(framer.buffer.capacity, 4 << 20);
        }
        ck_assert_uint_eq(n_oversize, 1);

        ck_assert_int_eq(framer_add(&framer, "\nok\n", 4), 0);
        ck_assert_int_eq(framer_next(&framer, &line, &size), 0);
        ck_assert_uint_eq(size, 2);
        ck_assert_mem_eq(line, "ok", 2);
        framer_done(&framer);
}
END_TEST

START_TEST(test_gives_memory_back) {
        static char chunk[1 << 20];
        const char *line;
        size_t size;
        Framer framer;

        memset(chunk, 'x', sizeof(chunk));
        framer_init(&framer, 4 << 20);
        ck_assert_int_eq(framer_add(&framer, chunk, sizeof(chunk)), 0);
        ck_assert_int_eq(framer_add(&framer, "\n", 1), 0);
        ck_assert_int_eq(framer_next(&framer, &line, &size), 0);
        ck_assert_int_eq(framer_next(&framer, &line, &size), FRAMER_E_MORE);
        ck_assert_int_eq(framer_add(&framer, "a", 1), 0);
        ck_assert_uint_le(framer.buffer.capacity, 65536);
        framer_done(&framer);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("mcp-framing");
        TCase *tcase = tcase_create("mcp-framing");
        SRunner *runner;
        int n_failed;

        tcase_add_loop_test(tcase, test_cases, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_nul_is_content);
        tcase_add_test(tcase, test_endless_line);
        tcase_add_test(tcase, test_gives_memory_back);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
