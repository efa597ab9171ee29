/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <math.h>

#include "basic/json-scan.h"
#include "basic/macros.h"
#include "basic/string-util.h"

/* A scan that must succeed. */
static JsonDoc *scan(const char *text, size_t size) {
        JsonDoc *doc = NULL;
        JsonError error = {};
        int r = json_scan(text, size, &doc, &error);

        ck_assert_msg(r == 0, "%u:%u: %s", error.line, error.column, error.text);
        return doc;
}

static const char *const good[] = {
        "null",
        " true\n",
        "\t\r\nfalse ",
        "0",
        "-0",
        "-0.0e-0",
        "123.456E+7",
        "\"\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "\"\\ud83d\\ude00\\uDBFF\\uDFFF\"",
        "\"\\u0000\"",
        "\"caf\xc3\xa9 \xf0\x9f\x98\x80 \x7f\"",
        "[]",
        "[ ]",
        "{ }",
        "[1,[2,[3]],{\"a\":[{}]}]",
        "{\"a\":1,\"A\":2,\"\":3,\"\\u00e9\":4,\"e\":5}",
};

START_TEST(test_good) {
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(good[_i], strlen(good[_i]));
        const JsonNode *root = json_doc_root(doc);

        ck_assert_ptr_nonnull(root);
        ck_assert_ptr_null(root->parent);
        ck_assert_uint_eq(root->size, strlen(good[_i]) - root->offset -
                                              strspn(good[_i] + root->offset + root->size, " \n"));
}
END_TEST

typedef struct Bad {
        const char *text;
        unsigned line, column;
        const char *error;
} Bad;

static const Bad bad[] = {
        {"", 1, 1, "expected a value, found the end of the text"},
        {" \n ", 2, 2, "expected a value, found the end of the text"},
        {"\xef\xbb\xbf{}", 1, 1, "the text begins with a byte order mark: save it without"},
        {"nul", 1, 1, "expected a value, found 'n'"},
        {"NaN", 1, 1, "expected a value, found 'N'"},
        {"+1", 1, 1, "expected a value, found '+'"},
        {".5", 1, 1, "expected a value, found '.'"},
        {"01", 1, 1, "a number begins with a needless zero"},
        {"-", 1, 2, "expected a digit, found the end of the text"},
        {"-x", 1, 2, "expected a digit, found 'x'"},
        {"1.", 1, 3, "expected a digit, found the end of the text"},
        {"1e+", 1, 4, "expected a digit, found the end of the text"},
        {"0x1", 1, 2, "expected nothing behind the value, found 'x'"},
        {"1 2", 1, 3, "expected nothing behind the value, found '2'"},
        {"{} // x", 1, 4, "expected nothing behind the value, found '/'"},
        {"'a'", 1, 1, "expected a value, found '''"},
        {"[1,\n 2\n", 3, 1, "expected ',' or ']', found the end of the text"},
        {"[1,]", 1, 4, "expected a value, found ']'"},
        {"[1}", 1, 3, "expected ',' or ']', found '}'"},
        {"[,1]", 1, 2, "expected a value, found ','"},
        {"{\"a\" 1}", 1, 6, "expected ':', found '1'"},
        {"{\"a\":1,}", 1, 8, "expected a member name in quotes, found '}'"},
        {"{a:1}", 1, 2, "expected a member name in quotes, found 'a'"},
        {"{\"a\":1 \"b\":2}", 1, 8, "expected ',' or '}', found '\"'"},
        {"{\"a\":}", 1, 6, "expected a value, found '}'"},
        {"{1:2}", 1, 2, "expected a member name in quotes, found '1'"},
        {"]", 1, 1, "expected a value, found ']'"},
        {"\x01", 1, 1, "expected a value, found the byte 0x01"},
        {" \"abc", 1, 2, "a string that begins here has no closing quote"},
        {"\"abc\\\"", 1, 1, "a string that begins here has no closing quote"},
        {"\"a\tb\"", 1, 3, "the byte 0x09 in a string: write it as \\u0009"},
        {"\"a\nb\"", 1, 3, "the byte 0x0a in a string: write it as \\u000a"},
        {"\"\\x\"", 1, 3, "expected one of \" \\ / b f n r t u behind a backslash, found 'x'"},
        {"\"\\", 1, 3,
         "expected one of \" \\ / b f n r t u behind a backslash, found the end of the text"},
        {"\"\\u12g4\"", 1, 6, "expected four hex digits behind \\u, found 'g'"},
        {"\"\\u12", 1, 6, "expected four hex digits behind \\u, found the end of the text"},
        {"\"x\\ud800\"", 1, 3, "\\ud800 is half of a surrogate pair and stands alone"},
        {"\"\\udc00\"", 1, 2, "\\udc00 is half of a surrogate pair and stands alone"},
        {"\"\\ud800\\u0041\"", 1, 2, "\\ud800 is half of a surrogate pair and stands alone"},
        {"\"\\ud800\\ud800\"", 1, 2, "\\ud800 is half of a surrogate pair and stands alone"},
        {"\"\\ud800\\n\"", 1, 2, "\\ud800 is half of a surrogate pair and stands alone"},
        {"[\n\"\xff\"]", 2, 2, "the byte 0xff is not valid UTF-8 here"},
        {"\"\xed\xa0\x80\"", 1, 2, "the byte 0xed is not valid UTF-8 here"},
        {"\"\xc0\xaf\"", 1, 2, "the byte 0xc0 is not valid UTF-8 here"},
        {"\"\xf4\x90\x80\x80\"", 1, 2, "the byte 0xf4 is not valid UTF-8 here"},
        {"\"\xe2\x82\"", 1, 2, "the byte 0xe2 is not valid UTF-8 here"},
        {"{\"a\\u0000b\":1}", 1, 4, "a member name holds U+0000"},
        {"{\"a\":1,\n \"a\":2}", 2, 2, "the member \"a\" stands twice in one object"},
        {"{\"a\":1,\"\\u0061\":2}", 1, 8, "the member \"a\" stands twice in one object"},
        {"{\"\\u0061\":1,\"a\":{\"b\":1,\"b\":2}}", 1, 24,
         "the member \"b\" stands twice in one object"},
        {"{\"\\/\":1,\"/\":2}", 1, 9, "the member \"/\" stands twice in one object"},
        {"{\"\":1,\"\":2}", 1, 7, "the member \"\" stands twice in one object"},
        {"{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\n"
         "\"i\":0,\"c\":0,\"a\":0}",
         2, 7, "the member \"c\" stands twice in one object"},
};

START_TEST(test_bad) {
        const Bad *c = &bad[_i];
        JsonDoc *doc = NULL;
        JsonError error = {};

        ck_assert_int_eq(json_scan(c->text, strlen(c->text), &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_ptr_null(doc);
        ck_assert_str_eq(error.text, c->error);
        ck_assert_uint_eq(error.line, c->line);
        ck_assert_uint_eq(error.column, c->column);
}
END_TEST

/* A NUL byte ends nothing: the size does. */
START_TEST(test_nul_bytes) {
        JsonDoc *doc = NULL;
        JsonError error = {};

        ck_assert_int_eq(json_scan("1\0", 2, &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "expected nothing behind the value, found the byte 0x00");
        ck_assert_int_eq(json_scan("\"\\\0\"", 4, &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_int_eq(json_scan("\"\0\"", 3, &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "the byte 0x00 in a string: write it as \\u0000");
}
END_TEST

START_TEST(test_tree) {
        static const char text[] = "{\n  \"a\": [1, \"x\"],\n  \"\\u0062\": {\"c.d\": null}\n}";
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text, strlen(text));
        const JsonNode *root = json_doc_root(doc), *a, *b, *x, *c;
        _cleanup_(freep) char *key = NULL, *path_root = NULL, *path_x = NULL, *path_c = NULL;

        ck_assert_int_eq(root->type, JSON_NODE_OBJECT);
        ck_assert_uint_eq(root->n_children, 2);
        a = json_node_member(doc, root, "a");
        b = json_node_member(doc, root, "b");
        ck_assert_ptr_eq(root->first, a);
        ck_assert_ptr_eq(a->next, b);
        ck_assert_ptr_null(b->next);
        ck_assert_ptr_null(json_node_member(doc, root, "c"));
        ck_assert_ptr_null(json_node_member(doc, a, "a"));
        ck_assert_ptr_null(json_node_member(doc, NULL, "a"));

        x = a->first->next;
        ck_assert_uint_eq(x->line, 2);
        ck_assert_uint_eq(x->column, 12);
        ck_assert_uint_eq(x->size, 3);
        ck_assert(memcmp(json_node_slice(doc, x), "\"x\"", 3) == 0);
        ck_assert(memcmp(json_node_slice(doc, a), "[1, \"x\"]", a->size) == 0);
        ck_assert(json_node_string_equal(doc, x, "x"));
        ck_assert(!json_node_string_equal(doc, x, "xy"));
        ck_assert(!json_node_string_equal(doc, a, "x"));
        ck_assert(!json_node_string_equal(doc, NULL, "x"));

        ck_assert_int_eq(json_node_key(doc, b, &key), 0);
        ck_assert_str_eq(key, "b");
        c = b->first;
        ck_assert_uint_eq(c->line, 3);

        path_root = json_node_path(doc, root);
        path_x = json_node_path(doc, x);
        path_c = json_node_path(doc, c);
        ck_assert_str_eq(path_root, "");
        ck_assert_str_eq(path_x, "a[1]");
        ck_assert_str_eq(path_c, "b.c.d");
}
END_TEST

/* A member that is not there has no value of any type. */
START_TEST(test_no_node) {
        _cleanup_(json_doc_freep) JsonDoc *doc = scan("{}", 2);
        const JsonNode *node = json_node_member(doc, json_doc_root(doc), "a");
        char *text = NULL;
        uint64_t natural;
        int64_t whole;
        double real;
        bool value;

        ck_assert_ptr_null(node);
        ck_assert_int_eq(json_node_string(doc, node, &text, NULL), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_uint64(doc, node, &natural), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_int64(doc, node, &whole), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_double(doc, node, &real), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_bool(node, &value), JSON_NODE_E_TYPE);
}
END_TEST

START_TEST(test_strings) {
        static const char text[] =
                "[\"\\u00e9\\n\\ud83d\\ude00\", \"a\\u0000b\", \"pl\xc3\xa4in\", 1]";
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text, strlen(text));
        const JsonNode *node = json_doc_root(doc)->first;
        _cleanup_(freep) char *escaped = NULL, *nul = NULL, *plain = NULL;
        size_t size = 0;

        ck_assert_int_eq(json_node_string(doc, node, &escaped, NULL), 0);
        ck_assert_str_eq(escaped, "\xc3\xa9\n\xf0\x9f\x98\x80");

        node = node->next;
        ck_assert_int_eq(json_node_string(doc, node, &nul, NULL), JSON_NODE_E_NUL);
        ck_assert_ptr_null(nul);
        ck_assert_int_eq(json_node_string(doc, node, &nul, &size), 0);
        ck_assert_uint_eq(size, 3);
        ck_assert(memcmp(nul, "a\0b", 4) == 0);
        ck_assert(!json_node_string_equal(doc, node, "a"));

        node = node->next;
        ck_assert_int_eq(json_node_string(doc, node, &plain, &size), 0);
        ck_assert_uint_eq(size, 6);
        ck_assert_str_eq(plain, "pl\xc3\xa4in");

        ck_assert_int_eq(json_node_string(doc, node->next, &plain, NULL), JSON_NODE_E_TYPE);
}
END_TEST

typedef struct Number {
        const char *text;
        int signed_outcome, unsigned_outcome;
        int64_t signed_value;
        uint64_t unsigned_value;
} Number;

static const Number numbers[] = {
        {"0", 0, 0, 0, 0},
        {"-0", 0, JSON_NODE_E_RANGE, 0, 0},
        {"-5", 0, JSON_NODE_E_RANGE, -5, 0},
        {"9223372036854775807", 0, 0, INT64_MAX, INT64_MAX},
        {"9223372036854775808", JSON_NODE_E_RANGE, 0, 0, 1ULL << 63},
        {"-9223372036854775808", 0, JSON_NODE_E_RANGE, INT64_MIN, 0},
        {"-9223372036854775809", JSON_NODE_E_RANGE, JSON_NODE_E_RANGE, 0, 0},
        {"18446744073709551615", JSON_NODE_E_RANGE, 0, 0, UINT64_MAX},
        {"18446744073709551616", JSON_NODE_E_RANGE, JSON_NODE_E_RANGE, 0, 0},
        {"1.0", JSON_NODE_E_RANGE, JSON_NODE_E_RANGE, 0, 0},
        {"1e2", JSON_NODE_E_RANGE, JSON_NODE_E_RANGE, 0, 0},
        {"\"1\"", JSON_NODE_E_TYPE, JSON_NODE_E_TYPE, 0, 0},
        {"true", JSON_NODE_E_TYPE, JSON_NODE_E_TYPE, 0, 0},
};

START_TEST(test_numbers) {
        const Number *c = &numbers[_i];
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(c->text, strlen(c->text));
        const JsonNode *root = json_doc_root(doc);
        int64_t s = 0;
        uint64_t u = 0;

        ck_assert_int_eq(json_node_int64(doc, root, &s), c->signed_outcome);
        ck_assert_int_eq(s, c->signed_value);
        ck_assert_int_eq(json_node_uint64(doc, root, &u), c->unsigned_outcome);
        ck_assert_uint_eq(u, c->unsigned_value);
}
END_TEST

START_TEST(test_double_and_bool) {
        static const char text[] = "[1.5e3, 1e999, \"x\", true, false, null]";
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text, strlen(text));
        const JsonNode *node = json_doc_root(doc)->first;
        double d = 0;
        bool b = false;

        ck_assert_int_eq(json_node_double(doc, node, &d), 0);
        ck_assert(d > 1499.9 && d < 1500.1);
        ck_assert_int_eq(json_node_double(doc, node->next, &d), JSON_NODE_E_RANGE);
        node = node->next->next;
        ck_assert_int_eq(json_node_double(doc, node, &d), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_bool(node, &b), JSON_NODE_E_TYPE);
        ck_assert_int_eq(json_node_bool(node->next, &b), 0);
        ck_assert(b);
        ck_assert_int_eq(json_node_bool(node->next->next, &b), 0);
        ck_assert(!b);
}
END_TEST

static int scan_repeated(const char *before, const char *part, size_t n, const char *after,
                         JsonError *ret_error) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        ck_assert_int_eq(strbuf_append_string(&buf, before), 0);
        for (size_t i = 0; i < n; i++)
                ck_assert_int_eq(strbuf_append_string(&buf, part), 0);
        ck_assert_int_eq(strbuf_append_string(&buf, after), 0);
        return json_scan(buf.data, buf.size, &doc, ret_error);
}

START_TEST(test_depth) {
        JsonError error = {};

        ck_assert_int_eq(scan_repeated("", "[", JSON_SCAN_DEPTH_MAX, "", &error),
                         JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "expected a value, found the end of the text");
        ck_assert_int_eq(scan_repeated("", "[", JSON_SCAN_DEPTH_MAX + 1, "", &error),
                         JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "nested deeper than 64 levels");
        ck_assert_uint_eq(error.column, 65);
        ck_assert_int_eq(scan_repeated("", "{\"a\":", 1000000, "", &error), JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "nested deeper than 64 levels");
}
END_TEST

START_TEST(test_node_bound) {
        JsonError error = {};

        ck_assert_int_eq(scan_repeated("[0", ",0", JSON_SCAN_NODES_MAX - 2, "]", &error), 0);
        ck_assert_int_eq(scan_repeated("[0", ",0", JSON_SCAN_NODES_MAX - 1, "]", &error),
                         JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "more than 1048576 values");
}
END_TEST

/* With a comparison of all pairs this would take minutes. */
START_TEST(test_many_members) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        JsonError error = {};

        ck_assert_int_eq(strbuf_append_byte(&buf, '{'), 0);
        for (unsigned i = 0; i < 200000; i++)
                ck_assert_int_eq(strbuf_appendf(&buf, "\"\\u00%02x%06u\":0,", 0x30 + i % 10, i), 0);
        ck_assert_int_eq(strbuf_append_string(&buf, "\"x\":0}"), 0);
        ck_assert_int_eq(json_scan(buf.data, buf.size, &doc, &error), 0);
        ck_assert_uint_eq(json_doc_root(doc)->n_children, 200001);

        buf.size--;
        ck_assert_int_eq(strbuf_append_string(&buf, ",\"\\u0030\\u0030\\u0030000010\":0}"), 0);
        doc = json_doc_free(doc);
        ck_assert_int_eq(json_scan(buf.data, buf.size, &doc, &error), 0);
        doc = json_doc_free(doc);
        buf.size--;
        ck_assert_int_eq(strbuf_append_string(&buf, ",\"0000010\":0}"), 0);
        ck_assert_int_eq(json_scan(buf.data, buf.size, &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "the member \"0000010\" stands twice in one object");
}
END_TEST

/* A name that is cut for the message is cut between characters. */
START_TEST(test_long_twin) {
        static const char name[] = "0123456789012345678901234567890123456789012345678901234567"
                                   "8\xc3\xa9rest";
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        JsonDoc *doc = NULL;
        JsonError error = {};

        ck_assert_int_eq(strbuf_appendf(&buf, "{\"%s\":1,\"%s\":1}", name, name), 0);
        ck_assert_int_eq(json_scan(buf.data, buf.size, &doc, &error), JSON_SCAN_E_SYNTAX);
        ck_assert_str_eq(error.text, "the member \"01234567890123456789012345678901234567890123456"
                                     "789012345678\" stands twice in one object");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("json-scan");
        TCase *tcase = tcase_create("json-scan");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 60); /* catches hangs only; valgrind is slow */
        tcase_add_loop_test(tcase, test_good, 0, ELEMENTSOF(good));
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad));
        tcase_add_test(tcase, test_nul_bytes);
        tcase_add_test(tcase, test_tree);
        tcase_add_test(tcase, test_no_node);
        tcase_add_test(tcase, test_strings);
        tcase_add_loop_test(tcase, test_numbers, 0, ELEMENTSOF(numbers));
        tcase_add_test(tcase, test_double_and_bool);
        tcase_add_test(tcase, test_depth);
        tcase_add_test(tcase, test_node_bound);
        tcase_add_test(tcase, test_many_members);
        tcase_add_test(tcase, test_long_twin);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
