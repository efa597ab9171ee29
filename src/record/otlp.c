/* SPDX-License-Identifier: Apache-2.0 */

#include "record/otlp.h"

#include <inttypes.h>
#include <string.h>

#include "basic/error.h"
#include "record/audit-line.h"

/* SpanKind and StatusCode of the protocol. */
enum {
        OTLP_KIND_INTERNAL = 1,
        OTLP_KIND_SERVER = 2,
        OTLP_KIND_CLIENT = 3,
        OTLP_STATUS_ERROR = 2,
};

/* Bits of a span's flags: sampled; that it is known whether the parent is of another process; that
 * it is. */
enum {
        OTLP_FLAG_SAMPLED = 0x001,
        OTLP_FLAG_HAS_REMOTE = 0x100,
        OTLP_FLAG_REMOTE = 0x200,
};

/* The names of the steps inside, and what each lies in. */
static const struct {
        const char *name;
        TraceStep parent;
} steps[_TRACE_STEP_MAX] = {
        [TRACE_AUTHORIZE] = {"authorize", TRACE_ROOT},
        [TRACE_ROUTE] = {"route", TRACE_ROOT},
        [TRACE_EXEC] = {"exec", TRACE_ROOT},
        [TRACE_CREATE] = {"create", TRACE_EXEC},
        [TRACE_RUN] = {"run", TRACE_EXEC},
        [TRACE_DRAIN] = {"drain", TRACE_EXEC},
        [TRACE_DESTROY] = {"destroy", TRACE_EXEC},
};

/* Appending that goes on until something fails. */
typedef struct Writer {
        StrBuf *out;
        int r;
        bool more; /* there is an attribute before */
} Writer;

static void put(Writer *w, const char *text) {
        if (w->r == 0)
                w->r = strbuf_append_string(w->out, text);
}

static void put_text(Writer *w, const char *text) {
        size_t size = strlen(text);

        if (w->r == 0)
                w->r = audit_append_text(w->out, text, size, size);
}

static void put_hex(Writer *w, const char *key, const uint8_t *bytes, size_t n) {
        static const char digits[] = "0123456789abcdef";
        char text[2 * TRACE_ID_SIZE + 1] = "";

        for (size_t i = 0; i < n; i++) {
                text[2 * i] = digits[bytes[i] >> 4];
                text[2 * i + 1] = digits[bytes[i] & 15];
        }
        put(w, key);
        put(w, "\"");
        put(w, text);
        put(w, "\"");
}

static void put_key(Writer *w, const char *key) {
        put(w, w->more ? ",{\"key\":\"" : "{\"key\":\"");
        put(w, key);
        put(w, "\",\"value\":{");
        w->more = true;
}

/* What is empty is not told. */
static void put_string(Writer *w, const char *key, const char *value) {
        if (string_empty(value))
                return;
        put_key(w, key);
        put(w, "\"stringValue\":");
        put_text(w, value);
        put(w, "}}");
}

static void put_number(Writer *w, const char *key, int64_t value) {
        put_key(w, key);
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, "\"intValue\":\"%" PRId64 "\"}}", value);
}

/* It was checked to be a string or a number; either is told as a string. */
static void put_request_id(Writer *w, const char *id) {
        if (string_empty(id))
                return;
        put_key(w, "jsonrpc.request.id");
        put(w, *id == '"' ? "\"stringValue\":" : "\"stringValue\":\"");
        put(w, id);
        put(w, *id == '"' ? "}}" : "\"}}");
}

static void put_status_code(Writer *w, int32_t code) {
        if (code == 0)
                return;
        put_key(w, "rpc.response.status_code");
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, "\"stringValue\":\"%" PRId32 "\"}}", code);
}

static void put_decision(Writer *w, const TraceFacts *facts) {
        put_string(w, "agentcrate.decision", facts->denied ? "denied" : "allowed");
        put_string(w, "agentcrate.rule", facts->rule);
        put_string(w, "agentcrate.reason", facts->reason);
}

static void put_crate(Writer *w, const Trace *trace) {
        const TraceFacts *facts = &trace->facts;

        put_string(w, "agentcrate.job", facts->job);
        put_string(w, "agentcrate.template", facts->template);
        put_string(w, "agentcrate.limit", facts->limit);
        put_string(w, "agentcrate.plan_digest", facts->plan_digest);
        if (trace->n_operations > 0)
                put_number(w, "agentcrate.operations", (int64_t) trace->n_operations);
        if (!facts->has_egress)
                return;
        put_number(w, "agentcrate.egress.connections", (int64_t) facts->egress_connections);
        put_number(w, "agentcrate.egress.bytes_in", (int64_t) facts->egress_bytes_in);
        put_number(w, "agentcrate.egress.bytes_out", (int64_t) facts->egress_bytes_out);
        put_number(w, "agentcrate.egress.denied", (int64_t) facts->egress_denied);
}

static void put_root(Writer *w, const Trace *trace) {
        const TraceFacts *facts = &trace->facts;

        put_string(w, "mcp.method.name", "tools/call");
        put_string(w, "gen_ai.operation.name", "execute_tool");
        put_string(w, "gen_ai.tool.name", facts->tool);
        put_request_id(w, facts->request_id);
        put_string(w, "mcp.protocol.version", facts->revision);
        put_string(w, "network.transport", "unix");
        put_string(w, "error.type", facts->error_type);
        put_status_code(w, facts->status_code);
        put_string(w, "agentcrate.tenant", facts->tenant);
        put_decision(w, facts);
        put_crate(w, trace);
        put_string(w, "agentcrate.traceparent", trace->parent_malformed ? "malformed" : NULL);
}

static void put_attributes(Writer *w, const Trace *trace, TraceStep step) {
        const TraceFacts *facts = &trace->facts;

        put(w, ",\"attributes\":[");
        w->more = false;
        if (step == TRACE_ROOT)
                put_root(w, trace);
        else if (step == TRACE_AUTHORIZE) {
                put_string(w, "agentcrate.tenant", facts->tenant);
                put_decision(w, facts);
        } else if (step == TRACE_EXEC)
                put_crate(w, trace);
        else if (step == TRACE_RUN && facts->exit_code >= 0)
                put_number(w, "process.exit.code", facts->exit_code);
        put(w, "]");
}

static void put_times(Writer *w, const Trace *trace, const TraceSpan *span) {
        uint64_t root = trace->spans[TRACE_ROOT].begin_nsec;

        if (w->r == 0)
                w->r = strbuf_appendf(w->out,
                                      ",\"startTimeUnixNano\":\"%" PRIu64
                                      "\",\"endTimeUnixNano\":\"%" PRIu64 "\"",
                                      trace->wall_nsec + (span->begin_nsec - root),
                                      trace->wall_nsec + (span->end_nsec - root));
}

/* Only what failed has a status: that there was no failure is what unset means. */
static void put_status(Writer *w, const Trace *trace, TraceStep step) {
        bool failed = step == TRACE_ROOT ? trace->facts.error_type[0] : trace->spans[step].failed;

        if (!failed)
                return;
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, ",\"status\":{\"code\":%d", OTLP_STATUS_ERROR);
        if (step == TRACE_ROOT && trace->facts.reason[0]) {
                put(w, ",\"message\":");
                put_text(w, trace->facts.reason);
        }
        put(w, "}");
}

static void put_place(Writer *w, const Trace *trace, TraceStep step) {
        unsigned flags = OTLP_FLAG_SAMPLED | OTLP_FLAG_HAS_REMOTE;

        put_hex(w, "{\"traceId\":", trace->trace_id, sizeof(trace->trace_id));
        put_hex(w, ",\"spanId\":", trace->spans[step].id, TRACE_SPAN_ID_SIZE);
        if (step != TRACE_ROOT)
                put_hex(w, ",\"parentSpanId\":", trace->spans[steps[step].parent].id,
                        TRACE_SPAN_ID_SIZE);
        else if (trace->has_parent) {
                put_hex(w, ",\"parentSpanId\":", trace->parent_id, sizeof(trace->parent_id));
                flags |= OTLP_FLAG_REMOTE;
        }
        if (trace->state[0]) {
                put(w, ",\"traceState\":");
                put_text(w, trace->state);
        }
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, ",\"flags\":%u", flags);
}

static void put_span(Writer *w, const Trace *trace, TraceStep step) {
        put_place(w, trace, step);
        if (step == TRACE_ROOT) {
                put(w, ",\"name\":\"tools/call");
                put(w, trace->facts.tool[0] ? " " : "");
                put(w, trace->facts.tool);
        } else {
                put(w, ",\"name\":\"");
                put(w, steps[step].name);
        }
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, "\",\"kind\":%d",
                                      step == TRACE_ROOT ? OTLP_KIND_SERVER : OTLP_KIND_INTERNAL);
        put_times(w, trace, &trace->spans[step]);
        put_attributes(w, trace, step);
        put_status(w, trace, step);
        put(w, "}");
}

static void put_operation(Writer *w, const TraceRequest *request) {
        put_string(w, "agentcrate.operation", request->name);
        put_string(w, "agentcrate.decision", request->denied ? "denied" : "allowed");
        put_number(w, "http.response.status_code", request->status);
        put_string(w, "error.type", request->reason);
}

static void put_connection(Writer *w, const TraceRequest *request) {
        put_string(w, "server.address", request->name);
        put_number(w, "server.port", request->port);
        put_string(w, "network.peer.address", request->address);
        put_number(w, "agentcrate.bytes_in", (int64_t) request->bytes_in);
        put_number(w, "agentcrate.bytes_out", (int64_t) request->bytes_out);
}

/* Inside of exec: it may be of no crate. */
static void put_request(Writer *w, const Trace *trace, const TraceRequest *request) {
        put_hex(w, ",{\"traceId\":", trace->trace_id, sizeof(trace->trace_id));
        put_hex(w, ",\"spanId\":", request->span.id, TRACE_SPAN_ID_SIZE);
        put_hex(w, ",\"parentSpanId\":", trace->spans[TRACE_EXEC].id, TRACE_SPAN_ID_SIZE);
        if (trace->state[0]) {
                put(w, ",\"traceState\":");
                put_text(w, trace->state);
        }
        put(w, ",\"name\":");
        put_text(w, request->name);
        if (w->r == 0)
                w->r = strbuf_appendf(w->out, ",\"flags\":%u,\"kind\":%d",
                                      OTLP_FLAG_SAMPLED | OTLP_FLAG_HAS_REMOTE, OTLP_KIND_CLIENT);
        put_times(w, trace, &request->span);
        put(w, ",\"attributes\":[");
        w->more = false;
        if (request->address[0])
                put_connection(w, request);
        else
                put_operation(w, request);
        put(w, "]");
        if (request->span.failed && w->r == 0)
                w->r = strbuf_appendf(w->out, ",\"status\":{\"code\":%d}", OTLP_STATUS_ERROR);
        put(w, "}");
}

int otlp_append_trace(StrBuf *out, const Trace *trace, bool first) {
        Writer w = {.out = out};

        for (TraceStep step = 0; step < _TRACE_STEP_MAX; step++) {
                if (trace->spans[step].begin_nsec == 0)
                        continue;
                if (!first || step != TRACE_ROOT)
                        put(&w, ",");
                put_span(&w, trace, step);
        }
        for (size_t i = 0; i < trace->n_requests && i < TRACE_REQUESTS_MAX; i++)
                put_request(&w, trace, &trace->requests[i]);
        return error_trace(w.r);
}

int otlp_append_begin(StrBuf *out, const char *version) {
        return error_trace(strbuf_appendf(
                out,
                "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"agentcrate\"}},"
                "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%s\"}}]},"
                "\"scopeSpans\":[{\"scope\":{\"name\":\"agentcrate\",\"version\":\"%s\"},"
                "\"spans\":[",
                version, version));
}

int otlp_append_end(StrBuf *out) {
        return error_trace(strbuf_append_string(out, "]}]}]}"));
}
