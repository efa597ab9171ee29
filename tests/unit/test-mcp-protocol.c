/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <jansson.h>
#include <string.h>

#include "mcp/exec-args.h"
#include "mcp/protocol.h"

#define META                                                                                       \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
        "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define REQUEST(method, params)                                                                    \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define MODERN(method, params) REQUEST(method, META "}" params)

static Tools *tools;

static void setup(void) {
        ck_assert_int_eq(tools_new(NULL, &tools), 0);
}

static void teardown(void) {
        tools = tools_free(tools);
}

/* One message on a connection; the answer parsed, NULL if there is none. */
static json_t *ask(McpPeer *peer, const char *text, McpAction *ret_action) {
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;
        _cleanup_(mcp_request_done) McpRequest request = MCP_REQUEST_NULL;
        json_t *answer = NULL;

        ck_assert_int_eq(rpc_line_parse(text, strlen(text), &line), 0);
        ck_assert_uint_eq(line->n_messages, 1);
        ck_assert_int_eq(mcp_handle(tools, peer, line, &line->messages[0], &request), 0);
        *ret_action = request.action;
        if (request.answer.size > 0) {
                answer = json_loadb(request.answer.data, request.answer.size, 0, NULL);
                ck_assert_ptr_nonnull(answer);
                ck_assert_ptr_null(strchr(request.answer.data, '\n'));
        }
        return answer;
}

static json_int_t error_code(const json_t *answer) {
        return json_integer_value(json_object_get(json_object_get(answer, "error"), "code"));
}

typedef struct Case {
        int revision; /* what initialize has settled; -1: nothing */
        const char *text;
        McpAction action;
        int code; /* 0: a result, or none */
} Case;

static const Case cases[] = {
        {-1, REQUEST("ping", ""), MCP_ANSWER, 0},
        {-1, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", MCP_ANSWER, 0},
        {-1, REQUEST("ping", "\"_meta\":{\"progressToken\":1}"), MCP_ANSWER, 0},
        {MCP_2025_11_25, REQUEST("ping", ""), MCP_ANSWER, 0},
        {-1, MODERN("ping", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {-1, REQUEST("foo/bar", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {MCP_2025_11_25, REQUEST("resources/templates/list", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {MCP_2025_11_25, REQUEST("completion/complete", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {MCP_2025_11_25, REQUEST("logging/setLevel", "\"level\":\"info\""), MCP_ANSWER,
         RPC_METHOD_NOT_FOUND},
        {-1, MODERN("logging/setLevel", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {-1, MODERN("server/discover", ""), MCP_ANSWER, 0},
        {-1, REQUEST("server/discover", ""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {MCP_2025_11_25, REQUEST("server/discover", ""), MCP_ANSWER, RPC_METHOD_NOT_FOUND},
        {MCP_2025_11_25, MODERN("server/discover", ""), MCP_ANSWER, 0},
        {-1, REQUEST("initialize", "\"protocolVersion\":\"2025-06-18\""), MCP_ANSWER, 0},
        {-1, REQUEST("initialize", ""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("initialize", "\"protocolVersion\":1"), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", ""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {MCP_2024_11_05, REQUEST("tools/list", ""), MCP_ANSWER, 0},
        {-1, MODERN("tools/list", ""), MCP_ANSWER, 0},
        {-1, MODERN("tools/list", ",\"cursor\":\"\""), MCP_ANSWER, 0},
        {-1, MODERN("tools/list", ",\"cursor\":\"x\""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("tools/list", ",\"cursor\":1"), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("tools/call", ""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("tools/call", ",\"name\":\"nope\""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("tools/call", ",\"name\":7"), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("tools/call", ",\"name\":\"sandbox_exec\",\"arguments\":[]"), MCP_ANSWER,
         RPC_INVALID_PARAMS},
        {-1, MODERN("tools/call", ",\"name\":\"sandbox_exec\""), MCP_CALL, 0},
        {MCP_2024_11_05, REQUEST("tools/call", "\"name\":\"sandbox_exec\""), MCP_CALL, 0},
        {-1, REQUEST("tools/call", "\"name\":\"sandbox_exec\""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", META ",\"progressToken\":0}"), MCP_ANSWER, 0},
        {-1, REQUEST("tools/list", META ",\"progressToken\":null}"), MCP_ANSWER,
         RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", META ",\"progressToken\":1.5}"), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", META ",\"io.modelcontextprotocol/logLevel\":\"info\"}"),
         MCP_ANSWER, 0},
        {-1, REQUEST("tools/list", META ",\"io.modelcontextprotocol/logLevel\":\"loud\"}"),
         MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", "\"_meta\":7"), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1,
         REQUEST("tools/list",
                 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"),
         MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":7}"),
         MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1,
         REQUEST("tools/list",
                 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2099-01-01\"}"),
         MCP_ANSWER, RPC_UNSUPPORTED_VERSION},
        {-1, MODERN("subscriptions/listen", ",\"notifications\":{\"toolsListChanged\":true}"),
         MCP_LISTEN, 0},
        {-1, MODERN("subscriptions/listen", ""), MCP_ANSWER, RPC_INVALID_PARAMS},
        {-1, MODERN("subscriptions/listen", ",\"notifications\":{\"toolsListChanged\":1}"),
         MCP_ANSWER, RPC_INVALID_PARAMS},
        {MCP_2025_11_25, REQUEST("subscriptions/listen", "\"notifications\":{}"), MCP_ANSWER,
         RPC_METHOD_NOT_FOUND},
        {-1, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", MCP_NOTHING, 0},
        {-1, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}", MCP_NOTHING, 0},
        {-1, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}", MCP_NOTHING, 0},
        {-1,
         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
         "{\"requestId\":null}}",
         MCP_NOTHING, 0},
        {-1,
         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
         "{\"requestId\":0}}",
         MCP_CANCEL, 0},
        {-1, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/agentcrate/connection\"}",
         MCP_CONNECTION, 0},
        {-1, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", MCP_NOTHING, 0},
        {-1, "garbage", MCP_ANSWER, RPC_PARSE_ERROR},
};

START_TEST(test_cases) {
        const Case *c = &cases[_i];
        McpPeer peer = {.initialized = c->revision >= 0, .revision = (McpRevision) c->revision};
        McpAction action;
        json_t *answer;

        answer = ask(&peer, c->text, &action);
        ck_assert_int_eq(action, c->action);
        ck_assert(!!answer == (action == MCP_ANSWER || action == MCP_LISTEN));
        ck_assert_int_eq(error_code(answer), c->code);
        if (action == MCP_ANSWER && c->code == 0)
                ck_assert(json_is_object(json_object_get(answer, "result")));
        json_decref(answer);
}
END_TEST

START_TEST(test_initialize_versions) {
        static const char *const versions[][2] = {
                {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"},
                {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
                {"2026-07-28", "2025-11-25"}, {"1999-01-01", "2025-11-25"},
                {"2024-10-07", "2025-11-25"},
        };
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        McpPeer peer = MCP_PEER_NULL;
        McpAction action;
        json_t *answer;

        ck_assert_int_eq(
                strbuf_appendf(&text,
                               "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
                               "{\"protocolVersion\":\"%s\"}}",
                               versions[_i][0]),
                0);
        answer = ask(&peer, text.data, &action);
        ck_assert_str_eq(json_string_value(json_object_get(json_object_get(answer, "result"),
                                                           "protocolVersion")),
                         versions[_i][1]);
        ck_assert(peer.initialized);
        ck_assert_str_eq(mcp_revision_to_string(peer.revision), versions[_i][1]);
        ck_assert(mcp_peer_has_batches(&peer) == string_equal(versions[_i][1], "2025-03-26"));
        json_decref(answer);
}
END_TEST

START_TEST(test_unsupported_version_data) {
        McpPeer peer = MCP_PEER_NULL;
        McpAction action;
        json_t *answer, *data;

        answer = ask(&peer,
                     REQUEST("tools/list",
                             "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"1\"}"),
                     &action);
        data = json_object_get(json_object_get(answer, "error"), "data");
        ck_assert_str_eq(json_string_value(json_object_get(data, "requested")), "1");
        ck_assert_str_eq(json_string_value(json_array_get(json_object_get(data, "supported"), 0)),
                         "2026-07-28");
        json_decref(answer);
}
END_TEST

/* Each modern result says that it is complete and who gives it; a legacy one has neither. */
START_TEST(test_modern_members) {
        static const char *const requests[] = {MODERN("server/discover", ""),
                                               MODERN("tools/list", "")};
        McpPeer peer = MCP_PEER_NULL, legacy = {true, MCP_2025_11_25};
        McpAction action;
        json_t *answer, *result;

        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                answer = ask(&peer, requests[i], &action);
                result = json_object_get(answer, "result");
                ck_assert_str_eq(json_string_value(json_object_get(result, "resultType")),
                                 "complete");
                ck_assert_str_eq(json_string_value(json_object_get(result, "cacheScope")),
                                 "private");
                ck_assert(json_is_integer(json_object_get(result, "ttlMs")));
                ck_assert(json_is_object(
                        json_object_get(json_object_get(result, "_meta"), MCP_META_SERVER)));
                json_decref(answer);
        }

        answer = ask(&legacy, REQUEST("tools/list", ""), &action);
        result = json_object_get(answer, "result");
        ck_assert_uint_eq(json_object_size(result), 1);
        json_decref(answer);
}
END_TEST

START_TEST(test_listen_ids) {
        McpPeer peer = MCP_PEER_NULL;
        McpAction action;
        json_t *answer, *params;
        _cleanup_(strbuf_done) StrBuf end = STRBUF_NULL, told = STRBUF_NULL;

        answer = ask(&peer, MODERN("subscriptions/listen", ",\"notifications\":{}"), &action);
        params = json_object_get(answer, "params");
        ck_assert_str_eq(json_string_value(json_object_get(answer, "method")),
                         "notifications/subscriptions/acknowledged");
        ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(params, "_meta"),
                                                            MCP_META_SUBSCRIPTION)),
                         1);
        ck_assert(json_is_object(json_object_get(params, "notifications")));
        json_decref(answer);

        answer = ask(&peer,
                     MODERN("subscriptions/listen",
                            ",\"notifications\":{\"toolsListChanged\":true,\"x\":true}"),
                     &action);
        params = json_object_get(json_object_get(answer, "params"), "notifications");
        ck_assert(json_is_true(json_object_get(params, "toolsListChanged")));
        ck_assert_uint_eq(json_object_size(params), 1);
        json_decref(answer);

        ck_assert_int_eq(mcp_append_tools_changed(&told, NULL), 0);
        ck_assert_str_eq(told.data,
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");

        ck_assert_int_eq(mcp_append_listen_end(&end, "\"a\"", 3), 0);
        answer = json_loadb(end.data, end.size, 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(answer, "id")), "a");
        ck_assert_str_eq(json_string_value(json_object_get(
                                 json_object_get(json_object_get(answer, "result"), "_meta"),
                                 MCP_META_SUBSCRIPTION)),
                         "a");
        json_decref(answer);
}
END_TEST

static json_t *tool_of(McpRevision revision, const char *name) {
        json_t *list, *tool = NULL, *item;
        size_t i;

        list = json_loads(tools->json[revision], 0, NULL);
        ck_assert_uint_eq(json_array_size(list), tools->names.n_items);
        json_array_foreach(list, i,
                           item) if (string_equal(json_string_value(json_object_get(item, "name")),
                                                  name)) tool = json_incref(item);
        json_decref(list);
        return tool;
}

START_TEST(test_tool_by_revision) {
        McpRevision revision = (McpRevision) _i;

        for (size_t i = 0; i < tools->names.n_items; i++) {
                json_t *tool = tool_of(revision, tools->names.items[i]);

                ck_assert_ptr_nonnull(tool);
                ck_assert(!!json_object_get(tool, "annotations") == (revision >= MCP_2025_03_26));
                ck_assert(!!json_object_get(tool, "outputSchema") == (revision >= MCP_2025_06_18));
                ck_assert(!!json_object_get(tool, "title") == (revision >= MCP_2025_06_18));
                json_decref(tool);
        }
}
END_TEST

/* The listed arguments are exactly those that are taken. */
START_TEST(test_schema_matches_arguments) {
        json_t *tool = tool_of(MCP_REVISION_LATEST, TOOL_SANDBOX_EXEC), *schema, *properties;
        size_t n = 0;

        schema = json_object_get(tool, "inputSchema");
        properties = json_object_get(schema, "properties");
        ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
        for (; exec_args_name(n); n++)
                ck_assert_msg(json_object_get(properties, exec_args_name(n)) != NULL,
                              "%s is not in the schema", exec_args_name(n));
        ck_assert_uint_eq(json_object_size(properties), n);
        json_decref(tool);
}
END_TEST

START_TEST(test_call_result_by_revision) {
        McpRevision revision = (McpRevision) _i;
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        json_t *answer, *result;

        ck_assert_int_eq(mcp_append_call_result(&out, revision, "1", 1, "[]", "{\"a\":1}", false),
                         0);
        answer = json_loadb(out.data, out.size, 0, NULL);
        result = json_object_get(answer, "result");
        ck_assert(json_is_false(json_object_get(result, "isError")));
        ck_assert(!!json_object_get(result, "structuredContent") == (revision >= MCP_2025_06_18));
        ck_assert(!!json_object_get(result, "resultType") == (revision >= MCP_2026_07_28));
        json_decref(answer);
}
END_TEST

START_TEST(test_tool_error) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        json_t *answer, *result;

        ck_assert_int_eq(mcp_append_tool_error(&out, MCP_2026_07_28, "1", 1, "no \xff"), 0);
        answer = json_loadb(out.data, out.size, 0, NULL);
        result = json_object_get(answer, "result");
        ck_assert(json_is_true(json_object_get(result, "isError")));
        ck_assert_ptr_null(json_object_get(result, "structuredContent"));
        ck_assert_str_eq(json_string_value(json_object_get(
                                 json_array_get(json_object_get(result, "content"), 0), "text")),
                         "no \xef\xbf\xbd");
        json_decref(answer);
}
END_TEST

START_TEST(test_progress) {
        _cleanup_(strbuf_done) StrBuf old = STRBUF_NULL, out = STRBUF_NULL;

        ck_assert_int_eq(mcp_append_progress(&old, MCP_2024_11_05, "0", 1, 5, "x", 1), 0);
        ck_assert_str_eq(old.data, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
                                   "\"params\":{\"progressToken\":0,\"progress\":5}}");
        ck_assert_int_eq(mcp_append_progress(&out, MCP_2025_03_26, "\"t\"", 3, 5, "x", 1), 0);
        ck_assert_str_eq(out.data,
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                         "{\"progressToken\":\"t\",\"progress\":5,\"message\":\"x\"}}");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("mcp-protocol");
        TCase *tcase = tcase_create("mcp-protocol");
        SRunner *runner;
        int n_failed;

        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_add_loop_test(tcase, test_cases, 0, ELEMENTSOF(cases));
        tcase_add_loop_test(tcase, test_initialize_versions, 0, 7);
        tcase_add_test(tcase, test_unsupported_version_data);
        tcase_add_test(tcase, test_modern_members);
        tcase_add_test(tcase, test_listen_ids);
        tcase_add_loop_test(tcase, test_tool_by_revision, 0, _MCP_REVISION_MAX);
        tcase_add_test(tcase, test_schema_matches_arguments);
        tcase_add_loop_test(tcase, test_call_result_by_revision, 0, _MCP_REVISION_MAX);
        tcase_add_test(tcase, test_tool_error);
        tcase_add_test(tcase, test_progress);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
