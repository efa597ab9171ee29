/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/call-trace.h"

#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/export.h"

/* --- begin --- */

/* The text of a member, or NULL: it is no string, or there is no memory. */
static char *take_text(const JsonDoc *doc, const JsonNode *node, size_t *ret_size) {
        char *text = NULL;

        *ret_size = 0;
        return node && json_node_string(doc, node, &text, ret_size) == 0 ? text : NULL;
}

static void set_parent(Trace *trace, const JsonDoc *doc, const JsonNode *meta) {
        const JsonNode *node = json_node_member(doc, meta, "traceparent");
        _cleanup_(freep) char *parent = NULL, *state = NULL;
        size_t parent_size, state_size;

        if (!node)
                return;
        parent = take_text(doc, node, &parent_size);
        state = take_text(doc, json_node_member(doc, meta, "tracestate"), &state_size);
        trace_set_parent(trace, parent, parent_size, state, state_size);
}

int call_trace_begin(Trace *trace, const Policy *policy, const JsonDoc *doc,
                     const McpRequest *request) {
        TraceFacts *facts = &trace->facts;
        int r;

        r = trace_begin(trace);
        if (r < 0)
                return error_trace(r);
        set_parent(trace, doc, request->meta);
        /* Names that anybody could make up would make as many kinds of spans. */
        if (request->tool && tools_rights(policy, request->tool))
                trace_set(facts->tool, request->tool);
        if (request->revision != _MCP_REVISION_INVALID)
                trace_set(facts->revision, mcp_revision_to_string(request->revision));
        /* A part of it would be another one. */
        if (request->id && request->id_size < sizeof(facts->request_id))
                memcpy(facts->request_id, request->id, request->id_size);
        return 0;
}

/* --- steps --- */

void call_trace_started(Trace *trace) {
        trace_step_end(trace, TRACE_CREATE);
        trace_step_begin(trace, TRACE_RUN);
}

void call_trace_ended(Trace *trace, uint64_t wall_usec) {
        trace_step_end(trace, TRACE_CREATE);
        trace_step_split(trace, TRACE_RUN, wall_usec, TRACE_DRAIN);
        trace_step_end(trace, TRACE_DRAIN);
}

void call_trace_decision(Trace *trace, const Tenant *tenant, const AuditDecision *decision) {
        TraceFacts *facts = &trace->facts;

        facts->denied = !decision->allowed;
        trace_set(facts->tenant, tenant ? tenant->name : NULL);
        trace_set(facts->rule, decision->rule);
        trace_set(facts->reason, decision->reason);
        trace_step_end(trace, TRACE_AUTHORIZE);
}

void call_trace_operation(Trace *trace, const EgressOperation *operation) {
        uint64_t now = now_usec();
        TraceRequest *request = trace_add_request(
                trace, operation->usec < now ? now - operation->usec : 0, operation->usec);

        trace->n_operations++;
        if (!request)
                return;
        (void) snprintf(request->name, sizeof(request->name), "%s%s%s", operation->credential,
                        operation->operation[0] ? "." : "", operation->operation);
        trace_set(request->reason, operation->reason);
        request->status = operation->status;
        request->denied = operation->denied;
        request->span.failed = operation->reason[0];
}

void call_trace_connection(Trace *trace, const AuditEgress *connection) {
        TraceRequest *request;

        /* What was refused took no time and went nowhere; of many together no time is known. */
        if (connection->denied || connection->count > 0)
                return;
        request = trace_add_request(trace, connection->begun_usec, connection->usec);
        if (!request)
                return;
        trace_set(request->name, connection->name);
        trace_set(request->address, connection->address);
        request->port = (uint16_t) connection->port;
        request->bytes_in = connection->bytes_in;
        request->bytes_out = connection->bytes_out;
}

/* As the conventions for MCP have it: the code of an error of JSON-RPC, else what the result is. */
static void set_error_type(TraceFacts *facts, const AuditEnd *end) {
        if (string_equal(end->outcome, "exited"))
                return;
        if (string_equal(end->outcome, "error"))
                facts->status_code = RPC_INTERNAL_ERROR;
        if (facts->status_code != 0)
                (void) snprintf(facts->error_type, sizeof(facts->error_type), "%d",
                                facts->status_code);
        else if (string_equal(end->outcome, "cancelled"))
                trace_set(facts->error_type, "cancelled");
        else if (string_equal(end->limit, "wall_time"))
                trace_set(facts->error_type, "timeout");
        else
                trace_set(facts->error_type, "tool_error");
}

void call_trace_outcome(Trace *trace, const AuditEnd *end) {
        TraceFacts *facts = &trace->facts;
        TraceSpan *spans = trace->spans;
        bool ran = spans[TRACE_RUN].begin_nsec > 0;

        if (end->reason && !facts->reason[0])
                trace_set(facts->reason, end->reason);
        trace_set(facts->job, end->job);
        trace_set(facts->limit, end->limit);
        trace_set(facts->plan_digest, end->plan_digest);
        facts->exit_code = end->exit_code;
        facts->has_egress = end->has_egress;
        facts->egress_connections = end->egress_connections;
        facts->egress_bytes_in = end->egress_bytes_in;
        facts->egress_bytes_out = end->egress_bytes_out;
        facts->egress_denied = end->egress_denied;
        set_error_type(facts, end);
        if (!facts->error_type[0])
                return;
        spans[TRACE_EXEC].failed = true;
        spans[TRACE_CREATE].failed = !ran;
        spans[TRACE_RUN].failed = true;
}

void call_trace_end(const Manager *manager, Trace *trace) {
        if (!manager->exporter || trace->spans[TRACE_ROOT].begin_nsec == 0)
                return;
        trace_end(trace);
        exporter_add(manager->exporter, trace);
}
