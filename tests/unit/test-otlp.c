/* SPDX-License-Identifier: Apache-2.0 */
#include "record/otlp.h"

#include "basic/json-scan.h"
#include "tests/unit/suite.h"

/* A call with known ids and times. */
static Trace make_trace(void) {
        Trace trace = {.wall_nsec = 1700000000000000000, .facts.exit_code = -1};

        memset(trace.trace_id, 0xab, sizeof(trace.trace_id));
        for (size_t i = 0; i < _TRACE_STEP_MAX; i++)
                memset(trace.spans[i].id, 0x10 + (int) i, TRACE_SPAN_ID_SIZE);
        trace.spans[TRACE_ROOT].begin_nsec = 5000;
        trace.spans[TRACE_ROOT].end_nsec = 9000;
        return trace;
}

static void check_body(const Trace *trace, size_t n, const char *spans) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL, expected = STRBUF_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        ck_assert_int_eq(otlp_append_begin(&out, "1.2.3"), 0);
        ck_assert_uint_le(out.size, OTLP_FRAME_MAX);
        for (size_t i = 0; i < n; i++)
                ck_assert_int_eq(otlp_append_trace(&out, trace, i == 0), 0);
        ck_assert_int_eq(otlp_append_end(&out), 0);
        ck_assert_int_eq(json_scan(out.data, out.size, &doc, &error), 0);
        if (!spans)
                return;
        ck_assert_int_eq(
                strbuf_appendf(
                        &expected,
                        "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"agentcrate\"}},"
                        "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"1.2.3\"}}]},"
                        "\"scopeSpans\":[{\"scope\":{\"name\":\"agentcrate\","
                        "\"version\":\"1.2.3\"},\"spans\":[%s]}]}]}",
                        spans),
                0);
        ck_assert_str_eq(out.data, expected.data);
}

#define ID "\"abababababababababababababababab\""
#define CONVENTIONS                                                                                \
        "{\"key\":\"mcp.method.name\",\"value\":{\"stringValue\":\"tools/call\"}},"                \
        "{\"key\":\"gen_ai.operation.name\",\"value\":{\"stringValue\":\"execute_tool\"}}"
#define UNIX ",{\"key\":\"network.transport\",\"value\":{\"stringValue\":\"unix\"}}"
#define ALLOWED ",{\"key\":\"agentcrate.decision\",\"value\":{\"stringValue\":\"allowed\"}}"

START_TEST(test_least) {
        Trace trace = make_trace();

        check_body(&trace, 1,
                   "{\"traceId\":" ID ",\"spanId\":\"1010101010101010\",\"flags\":257,"
                   "\"name\":\"tools/call\",\"kind\":2,"
                   "\"startTimeUnixNano\":\"1700000000000000000\","
                   "\"endTimeUnixNano\":\"1700000000000004000\","
                   "\"attributes\":[" CONVENTIONS UNIX ALLOWED "]}");
        check_body(&trace, 0, "");
        check_body(&trace, 3, NULL);
}
END_TEST

START_TEST(test_denied) {
        Trace trace = make_trace();
        TraceFacts *facts = &trace.facts;

        trace.has_parent = true;
        memset(trace.parent_id, 0xcd, sizeof(trace.parent_id));
        trace_set(trace.state, "a=\"b\"");
        trace_set(facts->tool, "sandbox_exec");
        trace_set(facts->request_id, "\"\\u00e9\"");
        trace_set(facts->tenant, "dev");
        trace_set(facts->rule, "dev:tools.deny[0]");
        trace_set(facts->reason, "no\n");
        trace_set(facts->error_type, "tool_error");
        facts->denied = true;
        trace.spans[TRACE_AUTHORIZE].begin_nsec = 6000;
        trace.spans[TRACE_AUTHORIZE].end_nsec = 7000;
#define DENIAL                                                                                     \
        "{\"key\":\"agentcrate.tenant\",\"value\":{\"stringValue\":\"dev\"}},"                     \
        "{\"key\":\"agentcrate.decision\",\"value\":{\"stringValue\":\"denied\"}},"                \
        "{\"key\":\"agentcrate.rule\",\"value\":{\"stringValue\":\"dev:tools.deny[0]\"}},"         \
        "{\"key\":\"agentcrate.reason\",\"value\":{\"stringValue\":\"no\\n\"}}"
        check_body(&trace, 1,
                   "{\"traceId\":" ID ",\"spanId\":\"1010101010101010\","
                   "\"parentSpanId\":\"cdcdcdcdcdcdcdcd\",\"traceState\":\"a=\\\"b\\\"\","
                   "\"flags\":769,\"name\":\"tools/call sandbox_exec\",\"kind\":2,"
                   "\"startTimeUnixNano\":\"1700000000000000000\","
                   "\"endTimeUnixNano\":\"1700000000000004000\",\"attributes\":[" CONVENTIONS
                   ",{\"key\":\"gen_ai.tool.name\",\"value\":{\"stringValue\":\"sandbox_exec\"}}"
                   ",{\"key\":\"jsonrpc.request.id\",\"value\":{\"stringValue\":\"\\u00e9\"}}" UNIX
                   ",{\"key\":\"error.type\",\"value\":{\"stringValue\":\"tool_error\"}}," DENIAL
                   "],\"status\":{\"code\":2,\"message\":\"no\\n\"}},"
                   "{\"traceId\":" ID ",\"spanId\":\"1111111111111111\","
                   "\"parentSpanId\":\"1010101010101010\",\"traceState\":\"a=\\\"b\\\"\","
                   "\"flags\":257,\"name\":\"authorize\",\"kind\":1,"
                   "\"startTimeUnixNano\":\"1700000000000001000\","
                   "\"endTimeUnixNano\":\"1700000000000002000\",\"attributes\":[" DENIAL "]}");
}
END_TEST

START_TEST(test_run) {
        Trace trace = make_trace();

        trace.facts.exit_code = 7;
        trace.spans[TRACE_RUN] = (TraceSpan){.begin_nsec = 6000, .end_nsec = 8000, .failed = true};
        memset(trace.spans[TRACE_RUN].id, 0x15, TRACE_SPAN_ID_SIZE);
        trace_set(trace.facts.request_id, "12");
        trace.facts.status_code = -32602;
        trace_set(trace.facts.error_type, "-32602");
        trace.parent_malformed = true;
        check_body(
                &trace, 1,
                "{\"traceId\":" ID ",\"spanId\":\"1010101010101010\",\"flags\":257,"
                "\"name\":\"tools/call\",\"kind\":2,"
                "\"startTimeUnixNano\":\"1700000000000000000\","
                "\"endTimeUnixNano\":\"1700000000000004000\",\"attributes\":[" CONVENTIONS
                ",{\"key\":\"jsonrpc.request.id\",\"value\":{\"stringValue\":\"12\"}}" UNIX
                ",{\"key\":\"error.type\",\"value\":{\"stringValue\":\"-32602\"}}"
                ",{\"key\":\"rpc.response.status_code\",\"value\":{\"stringValue\":\"-32602\"}"
                "}" ALLOWED
                ",{\"key\":\"agentcrate.traceparent\",\"value\":{\"stringValue\":\"malformed\"}}"
                "],\"status\":{\"code\":2}},"
                "{\"traceId\":" ID ",\"spanId\":\"1515151515151515\","
                "\"parentSpanId\":\"1313131313131313\",\"flags\":257,\"name\":\"run\",\"kind\":1,"
                "\"startTimeUnixNano\":\"1700000000000001000\","
                "\"endTimeUnixNano\":\"1700000000000003000\",\"attributes\":["
                "{\"key\":\"process.exit.code\",\"value\":{\"intValue\":\"7\"}}],"
                "\"status\":{\"code\":2}}");
}
END_TEST

/* The worst that a client can make of all that it chooses. */
START_TEST(test_bound) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        Trace trace = make_trace();
        TraceFacts *facts = &trace.facts;

#define FILL(member) memset(member, 1, sizeof(member) - 1)
        FILL(facts->tenant);
        FILL(facts->rule);
        FILL(facts->reason);
        FILL(facts->job);
        FILL(facts->template);
        FILL(facts->plan_digest);
        FILL(facts->limit);
        FILL(facts->error_type);
        memset(facts->request_id, '1', sizeof(facts->request_id) - 1);
        memset(trace.state, '"', TRACE_STATE_MAX);
        for (size_t i = 0; i < _TRACE_STEP_MAX; i++)
                trace.spans[i] = (TraceSpan){.begin_nsec = 5000, .end_nsec = 6000, .failed = true};
        for (size_t i = 0; i < TRACE_REQUESTS_MAX; i++) {
                TraceRequest *request = trace_add_request(&trace, 5, 1);

                ck_assert_ptr_nonnull(request);
                FILL(request->name);
                FILL(request->reason);
                request->status = UINT32_MAX;
                if (i % 2 == 0)
                        FILL(request->address);
                request->bytes_in = request->bytes_out = UINT64_MAX;
                request->span.failed = request->denied = true;
        }
        ck_assert_ptr_null(trace_add_request(&trace, 5, 1));
        ck_assert_int_eq(otlp_append_trace(&out, &trace, true), 0);
        ck_assert_uint_gt(out.size, OTLP_TRACE_MAX / 4);
        ck_assert_uint_le(out.size, OTLP_TRACE_MAX);
}
END_TEST

/* What is no UTF-8 cannot make the body invalid. */
START_TEST(test_bytes) {
        Trace trace = make_trace();

        trace_set(trace.facts.reason, "\xff\xc3(\x1b\x7f\xed\xa0\x80 \xf0\x9f\x98\x80");
        trace_set(trace.facts.error_type, "x");
        check_body(&trace, 2, NULL);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("otlp");

        tcase_add_test(tcase, test_least);
        tcase_add_test(tcase, test_denied);
        tcase_add_test(tcase, test_run);
        tcase_add_test(tcase, test_bound);
        tcase_add_test(tcase, test_bytes);
        return suite_run("otlp", tcase);
}
