/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/string-util.h"
#include "tests/unit/suite.h"

static void assert_buf(const StrBuf *buf, const char *data, size_t size) {
        ck_assert_uint_eq(buf->size, size);
        ck_assert_ptr_nonnull(buf->data);
        ck_assert_mem_eq(buf->data, data, size);
        ck_assert_int_eq(buf->data[size], 0);
}

START_TEST(test_append) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        ck_assert_int_eq(strbuf_append(&buf, NULL, 0), 0);
        assert_buf(&buf, "", 0);
        ck_assert_int_eq(strbuf_append(&buf, "a\0b", 3), 0);
        ck_assert_int_eq(strbuf_append_string(&buf, "cd"), 0);
        ck_assert_int_eq(strbuf_append_byte(&buf, 'e'), 0);
        ck_assert_int_eq(strbuf_append_byte(&buf, 0), 0);
        ck_assert_int_eq(strbuf_appendf(&buf, "%d-%s", 42, "x"), 0);
        ck_assert_int_eq(strbuf_appendf(&buf, "%s", ""), 0);
        assert_buf(&buf,
                   "a\0bcde\0"
                   "42-x",
                   11);
}
END_TEST

/* Grows over many reallocations, at every size the same. */
START_TEST(test_growth) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        for (size_t i = 0; i < 5000; i++) {
                ck_assert_int_eq(strbuf_appendf(&buf, "%04zu", i), 0);
                ck_assert_uint_eq(buf.size, (i + 1) * 4);
                ck_assert_uint_gt(buf.capacity, buf.size);
        }
        ck_assert_mem_eq(buf.data + 4 * 4321, "4321", 4);
        strbuf_done(&buf);
        ck_assert_ptr_null(buf.data);
        ck_assert_uint_eq(buf.size, 0);
}
END_TEST

START_TEST(test_reserve) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        const char *data;

        ck_assert_int_eq(strbuf_append_string(&buf, "abc"), 0);
        ck_assert_int_eq(strbuf_reserve(&buf, 10000), 0);
        data = buf.data;
        for (size_t i = 0; i < 10000; i++)
                ck_assert_int_eq(strbuf_append_byte(&buf, 'x'), 0);
        ck_assert_ptr_eq(buf.data, data);

        /* What cannot be is refused and nothing is lost. */
        ck_assert_int_eq(strbuf_reserve(&buf, SIZE_MAX), -ENOMEM);
        ck_assert_int_eq(strbuf_reserve(&buf, SIZE_MAX - buf.size), -ENOMEM);
        ck_assert_int_eq(strbuf_reserve(&buf, SIZE_MAX / 2 + 2), -ENOMEM);
        ck_assert_uint_eq(buf.size, 10003);
        ck_assert_mem_eq(buf.data, "abcxx", 5);
}
END_TEST

START_TEST(test_consume) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        strbuf_consume(&buf, 0);
        ck_assert_ptr_null(buf.data);
        ck_assert_int_eq(strbuf_append_string(&buf, "abcdef"), 0);
        strbuf_consume(&buf, 2);
        assert_buf(&buf, "cdef", 4);
        strbuf_consume(&buf, 0);
        assert_buf(&buf, "cdef", 4);
        ck_assert_int_eq(strbuf_append_string(&buf, "g"), 0);
        assert_buf(&buf, "cdefg", 5);
        strbuf_consume(&buf, 5);
        assert_buf(&buf, "", 0);
}
END_TEST

START_TEST(test_steal) {
        StrBuf buf = STRBUF_NULL;
        char *s;

        s = strbuf_steal(&buf);
        ck_assert_str_eq(s, "");
        free(s);
        ck_assert_int_eq(strbuf_append_string(&buf, "abc"), 0);
        s = strbuf_steal(&buf);
        ck_assert_str_eq(s, "abc");
        free(s);
        ck_assert_ptr_null(buf.data);
        ck_assert_uint_eq(buf.size, 0);
        ck_assert_uint_eq(buf.capacity, 0);
}
END_TEST

START_TEST(test_strv) {
        _cleanup_(strv_done) StrV v = STRV_NULL, copy = STRV_NULL;

        ck_assert_int_eq(strv_append(&v, "a"), 0);
        ck_assert_int_eq(strv_append_n(&v, "bcd", 2), 0);
        ck_assert_int_eq(strv_append_n(&v, "x", 0), 0);
        ck_assert_int_eq(strv_appendf(&v, "%s=%d", "n", 7), 0);
        ck_assert_uint_eq(v.n_items, 4);
        ck_assert_str_eq(v.items[0], "a");
        ck_assert_str_eq(v.items[1], "bc");
        ck_assert_str_eq(v.items[2], "");
        ck_assert_str_eq(v.items[3], "n=7");
        ck_assert_ptr_null(v.items[4]);

        ck_assert_int_eq(strv_append(&copy, "first"), 0);
        ck_assert_int_eq(strv_copy(&copy, &v), 0);
        ck_assert_uint_eq(copy.n_items, 5);
        ck_assert_str_eq(copy.items[4], "n=7");
        ck_assert_ptr_ne(copy.items[4], v.items[3]);
        ck_assert_ptr_null(copy.items[5]);
        strv_done(&v);
        ck_assert_ptr_null(v.items);
        ck_assert_uint_eq(v.n_items, 0);
        ck_assert_int_eq(strv_copy(&copy, &v), 0);
        ck_assert_uint_eq(copy.n_items, 5);
}
END_TEST

START_TEST(test_environment) {
        _cleanup_(strv_done) StrV env = STRV_NULL;

        ck_assert_ptr_null(strv_env_get(&env, "A"));
        ck_assert_int_eq(strv_env_set(&env, "AB", "1"), 0);
        ck_assert_int_eq(strv_env_set(&env, "A", "x=y\nz"), 0);
        ck_assert_int_eq(strv_env_set(&env, "E", ""), 0);
        ck_assert_int_eq(strv_env_set(&env, "AB", "2"), 0);
        ck_assert_uint_eq(env.n_items, 3);
        /* Replaced where it stood. */
        ck_assert_str_eq(env.items[0], "AB=2");
        ck_assert_str_eq(strv_env_get(&env, "A"), "x=y\nz");
        ck_assert_str_eq(strv_env_get(&env, "E"), "");
        ck_assert_ptr_null(strv_env_get(&env, "B"));
        ck_assert_ptr_null(strv_env_get(&env, "ABC"));
        ck_assert_ptr_null(strv_env_get(&env, ""));
}
END_TEST

START_TEST(test_small) {
        const char *s = "prefix-rest";

        ck_assert(string_equal("a", "a") && string_equal(NULL, NULL) && string_equal("", ""));
        ck_assert(!string_equal("a", "b") && !string_equal("a", NULL) && !string_equal(NULL, "a"));
        ck_assert(!string_equal("", NULL) && !string_equal("a", "ab"));
        ck_assert(string_empty(NULL) && string_empty("") && !string_empty("a"));
        ck_assert_ptr_eq(string_after(s, "prefix-"), s + 7);
        ck_assert_ptr_eq(string_after(s, ""), s);
        ck_assert_str_eq(string_after(s, s), "");
        ck_assert_ptr_null(string_after(s, "rest"));
        ck_assert_ptr_null(string_after("pre", "prefix"));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("string-util");

        tcase_add_test(tcase, test_append);
        tcase_add_test(tcase, test_growth);
        tcase_add_test(tcase, test_reserve);
        tcase_add_test(tcase, test_consume);
        tcase_add_test(tcase, test_steal);
        tcase_add_test(tcase, test_strv);
        tcase_add_test(tcase, test_environment);
        tcase_add_test(tcase, test_small);
        return suite_run("string-util", tcase);
}
