/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "mcp/jsonrpc.h"

typedef struct Case {
        const char *text;
        RpcKind kind;
        int code;
        const char *id; /* raw; NULL: none */
        const char *method;
} Case;

#define REQUEST(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"m\"}"

static const Case cases[] = {
        {REQUEST("0"), RPC_REQUEST, 0, "0", "m"},
        {REQUEST("-1"), RPC_REQUEST, 0, "-1", "m"},
        {REQUEST("\"\""), RPC_REQUEST, 0, "\"\"", "m"},
        {REQUEST("\"7\""), RPC_REQUEST, 0, "\"7\"", "m"},
        {REQUEST("9007199254740993"), RPC_REQUEST, 0, "9007199254740993", "m"},
        {REQUEST("123456789012345678901234567890"), RPC_REQUEST, 0,
         "123456789012345678901234567890", "m"},
        {REQUEST("\"\\u00e9\xc3\xa9\""), RPC_REQUEST, 0, "\"\\u00e9\xc3\xa9\"", "m"},
        {REQUEST("null"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("1.5"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("1e2"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("1E2"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("{}"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("[]"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("true"), RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {REQUEST("1,\"id\":2"), RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"\\u006dethod\":\"n\"}", RPC_INVALID,
         RPC_PARSE_ERROR, NULL, NULL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", RPC_NOTIFICATION, 0, NULL, "m"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", RPC_RESPONSE, 0, "1", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", RPC_RESPONSE, 0, NULL, NULL},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", RPC_INVALID, RPC_INVALID_REQUEST, "1",
         NULL},
        {"{\"id\":1,\"method\":\"m\"}", RPC_INVALID, RPC_INVALID_REQUEST, "1", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID, RPC_INVALID_REQUEST, "1", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}", RPC_INVALID, RPC_INVALID_REQUEST, "1",
         NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}", RPC_INVALID,
         RPC_INVALID_REQUEST, "1", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[1]}", RPC_INVALID,
         RPC_INVALID_PARAMS, "1", NULL},
        {"{}", RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {"5", RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {"\"x\"", RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {"null", RPC_INVALID, RPC_INVALID_REQUEST, NULL, NULL},
        {"{", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {"{not json}", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {"\xff", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {"{\"a\":\"\xc3\x28\"}", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {"\xef\xbb\xbf{}", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
        {REQUEST("1") " x", RPC_INVALID, RPC_PARSE_ERROR, NULL, NULL},
};

START_TEST(test_cases) {
        const Case *c = &cases[_i];
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;
        const RpcMessage *message;

        ck_assert_int_eq(rpc_line_parse(c->text, strlen(c->text), &line), 0);
        ck_assert(!line->batch);
        ck_assert_uint_eq(line->n_messages, 1);

        message = &line->messages[0];
        ck_assert_int_eq(message->kind, c->kind);
        if (c->kind == RPC_INVALID)
                ck_assert_int_eq(message->code, c->code);
        if (c->method)
                ck_assert_str_eq(message->method, c->method);

        ck_assert(!!message->id == !!c->id);
        if (c->id) {
                ck_assert_uint_eq(message->id_size, strlen(c->id));
                ck_assert_mem_eq(message->id, c->id, message->id_size);
        }
}
END_TEST

START_TEST(test_batch) {
        static const char text[] = "[" REQUEST("1") ", 5, " REQUEST("\"1\"") "]";
        _cleanup_(rpc_line_freep) RpcLine *line = NULL, *empty = NULL;

        ck_assert_int_eq(rpc_line_parse(text, sizeof(text) - 1, &line), 0);
        ck_assert(line->batch);
        ck_assert_int_eq(line->code, 0);
        ck_assert_uint_eq(line->n_messages, 3);
        ck_assert_int_eq(line->messages[0].kind, RPC_REQUEST);
        ck_assert_int_eq(line->messages[1].kind, RPC_INVALID);
        ck_assert_int_eq(line->messages[2].kind, RPC_REQUEST);

        ck_assert_int_eq(rpc_line_parse("[]", 2, &empty), 0);
        ck_assert(empty->batch);
        ck_assert_int_eq(empty->code, RPC_INVALID_REQUEST);
        ck_assert_uint_eq(empty->n_messages, 0);
}
END_TEST

START_TEST(test_batch_maximum) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;

        ck_assert_int_eq(strbuf_append_string(&text, "[1"), 0);
        for (size_t i = 0; i < RPC_BATCH_MAX; i++)
                ck_assert_int_eq(strbuf_append_string(&text, ",1"), 0);
        ck_assert_int_eq(strbuf_append_string(&text, "]"), 0);

        ck_assert_int_eq(rpc_line_parse(text.data, text.size, &line), 0);
        ck_assert_int_eq(line->code, RPC_INVALID_REQUEST);
        ck_assert_uint_eq(line->n_messages, 0);
}
END_TEST

START_TEST(test_long_id) {
        for (size_t n = RPC_ID_MAX - 2; n <= RPC_ID_MAX - 1; n++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
                _cleanup_(rpc_line_freep) RpcLine *line = NULL;

                ck_assert_int_eq(strbuf_append_string(&text, "{\"jsonrpc\":\"2.0\",\"id\":\""), 0);
                for (size_t i = 0; i < n; i++)
                        ck_assert_int_eq(strbuf_append_byte(&text, 'x'), 0);
                ck_assert_int_eq(strbuf_append_string(&text, "\",\"method\":\"m\"}"), 0);
                ck_assert_int_eq(rpc_line_parse(text.data, text.size, &line), 0);
                ck_assert_int_eq(line->messages[0].kind,
                                 n + 2 <= RPC_ID_MAX ? RPC_REQUEST : RPC_INVALID);
        }
}
END_TEST

static bool id_equal(const char *a, const char *b) {
        return rpc_id_equal(a, strlen(a), b, strlen(b));
}

START_TEST(test_id_equal) {
        ck_assert(id_equal("7", "7"));
        ck_assert(!id_equal("7", "\"7\""));
        ck_assert(!id_equal("\"7\"", "7"));
        ck_assert(id_equal("\"a\"", "\"\\u0061\""));
        ck_assert(id_equal("\"\\u0061\"", "\"\\x61\"") == false);
        ck_assert(!id_equal("\"a\"", "\"b\""));
        ck_assert(!id_equal("\"\"", "0"));
}
END_TEST

START_TEST(test_frames) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        ck_assert_int_eq(rpc_append_result(&out, "\"a\"", 3, "{}", 2), 0);
        ck_assert_str_eq(out.data, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}");

        strbuf_done(&out);
        ck_assert_int_eq(rpc_append_error(&out, NULL, 0, -32700, "bad \xff \"x\"\n", "{}"), 0);
        ck_assert_str_eq(out.data, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
                                   "\"message\":\"bad \xef\xbf\xbd \\\"x\\\"\\n\",\"data\":{}}}");

        strbuf_done(&out);
        ck_assert_int_eq(rpc_append_notification(&out, "n", NULL, 0), 0);
        ck_assert_str_eq(out.data, "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}");

        strbuf_done(&out);
        ck_assert_int_eq(rpc_append_string(&out, "a\0\xc3", 3), 0);
        ck_assert_str_eq(out.data, "\"a\\u0000\xef\xbf\xbd\"");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("mcp-jsonrpc");
        TCase *tcase = tcase_create("mcp-jsonrpc");
        SRunner *runner;
        int n_failed;

        tcase_add_loop_test(tcase, test_cases, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_batch);
        tcase_add_test(tcase, test_batch_maximum);
        tcase_add_test(tcase, test_long_id);
        tcase_add_test(tcase, test_id_equal);
        tcase_add_test(tcase, test_frames);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
