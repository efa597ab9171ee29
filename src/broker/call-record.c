/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/call-record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/authorize.h"
#include "broker/call-trace.h"
#include "broker/call.h"
#include "broker/log.h"
#include "broker/metering.h"
#include "broker/result.h"

static int make_id(char *ret_id) {
        uint64_t random;

        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return error_origin(negative_errno());
        (void) snprintf(ret_id, CALL_RECORD_ID_SIZE, "c-%016" PRIx64, random);
        return 0;
}

static AuditCall audit_call(const CallRecord *record) {
        return (AuditCall){
                .id = record->id,
                .tenant = record->tenant ? record->tenant->name : NULL,
                .uid = record->uid,
                .pid = record->pid,
                .client = record->client,
                .client_size = record->client_size,
                .tool = record->tool,
                .trace_id = record->trace_id[0] ? record->trace_id : NULL,
        };
}

static AuditData audit_data(const StrBuf *answer) {
        return answer ? (AuditData){answer->data, answer->size} : (AuditData){};
}

/* --- begin --- */

static int record_init(CallRecord *record, const Client *client, const JsonDoc *doc,
                       const McpRequest *request, Trace *trace) {
        const char *name = request->client ?: client->peer.client;
        int r;

        r = make_id(record->id);
        if (r == 0)
                r = call_trace_begin(trace, client->manager->policy, doc, request);
        if (r < 0)
                return error_trace(r);
        record->trace = trace;
        if (client->manager->exporter || trace->has_parent)
                trace_format_id(trace, record->trace_id);
        record->uid = client->who.uid;
        record->pid = client->who.pid;
        record->begun_usec = now_usec();
        record->rule = "request";
        record->client_size = request->client ? request->client_size : client->peer.client_size;
        record->client = name ? strdup(name) : NULL;
        record->tool = request->tool ? strdup(request->tool) : NULL;
        if ((name && !record->client) || (request->tool && !record->tool))
                return error_origin(-ENOMEM);
        return 0;
}

static void record_done(CallRecord *record) {
        free(record->client);
        free(record->tool);
        *record = (CallRecord){};
}

int call_record_begin(Call *call, const JsonDoc *doc, const McpRequest *request) {
        int r;

        r = record_init(&call->record, call->client, doc, request, &call->trace);
        if (r < 0)
                return error_trace(r);
        call->record.tenant = call->tenant;
        if (request->arguments)
                call->record.arguments = (AuditData){json_node_slice(doc, request->arguments),
                                                     request->arguments->size};
        return 0;
}

/* --- the decision --- */

static int record_decide(Manager *manager, const Policy *policy, CallRecord *record,
                         AuditDecision *decision, char **ret_text) {
        const ToolRights *rights = record->tool ? tools_rights(policy, record->tool) : NULL;
        AuditCall call = audit_call(record);
        int r;

        decision->scopes = rights ? &rights->scopes : NULL;
        decision->granted = record->tenant ? &record->tenant->scopes : NULL;
        decision->policy_digest = policy->digest;
        decision->arguments = record->arguments;
        call_trace_decision(record->trace, record->tenant, decision);
        r = audit_decision(manager->audit, &call, decision, ret_text);
        if (r != 0)
                return r;
        record->decided = true;
        record->decided_usec = now_usec();
        return 0;
}

int call_record_allow(Call *call, char **ret_text) {
        AuditDecision decision = {.allowed = true, .rule = call->decision.rule};
        int r;

        r = record_decide(call->manager, call->policy, &call->record, &decision, ret_text);
        if (r == AUDIT_E_FAILED) {
                call->record.rule = "audit.on_failure";
                return CALL_RECORD_E_REFUSED;
        }
        return error_trace(r);
}

/* A denial is recorded later where it cannot be now, and nothing is run by it. */
static void record_deny(Manager *manager, const Policy *policy, CallRecord *record,
                        const char *rule, const char *kind, const char *reason) {
        AuditDecision decision = {.rule = rule, .reason = reason};
        _cleanup_(freep) char *text = NULL;
        int r;

        r = record_decide(manager, policy, record, &decision, &text);
        if (r < 0)
                (void) log_errno(r, "a denial was not recorded");
        record->decided = true;
        record->denial = kind;
        record->decided_usec = now_usec();
}

/* --- what is done meanwhile --- */

bool call_record_operation(Call *call, const EgressOperation *operation) {
        const AuditCall who = audit_call(&call->record);
        const AuditOperation what = {
                .credential = operation->credential,
                .operation = operation->operation,
                .reason = operation->reason,
                .text = operation->text,
                .digest = operation->digest,
                .parameters = operation->parameters,
                .denied = operation->denied != 0,
                .status = operation->status,
                .bytes_in = operation->bytes_in,
                .bytes_out = operation->bytes_out,
                .usec = operation->usec,
                .n_dropped = operation->n_dropped,
                .tokens_in = operation->tokens_in == PROTO_EGRESS_TOKENS_NONE
                                     ? AUDIT_TOKENS_NONE
                                     : operation->tokens_in,
                .tokens_out = operation->tokens_out == PROTO_EGRESS_TOKENS_NONE
                                      ? AUDIT_TOKENS_NONE
                                      : operation->tokens_out,
        };

        metering_operation(call->manager, operation);
        call_trace_operation(&call->trace, operation);
        return audit_operation(call->manager->audit, &who, &what) == 0;
}

void call_record_egress(Call *call, const CrateResult *result) {
        const AuditCall who = audit_call(&call->record);
        _cleanup_(result_egress_done) ResultEgress egress = {};

        if (result_to_egress(result, &egress) < 0) {
                log_error("what a job reached was not recorded: out of memory");
                return;
        }
        audit_egress(call->manager->audit, &who, egress.items, egress.n_items);
        for (size_t i = 0; i < egress.n_items; i++)
                call_trace_connection(&call->trace, &egress.items[i]);
}

/* --- the end --- */

static void record_end(Manager *manager, CallRecord *record, AuditEnd *end) {
        AuditCall call = audit_call(record);
        uint64_t now = now_usec();

        end->decide_usec = record->decided_usec - record->begun_usec;
        end->total_usec = now - record->begun_usec;
        call_trace_outcome(record->trace, end);
        audit_end(manager->audit, &call, end);
        metering_end(manager, record->tool, record->denial, end);
        record->ended = true;
}

void call_record_refuse(Call *call, const char *text, const StrBuf *answer) {
        bool by_policy = !call->decision.allowed && call->decision.reason;
        AuditEnd end = {.outcome = call->record.decided ? "refused" : "denied",
                        .reason = by_policy ? call->decision.reason : text,
                        .exit_code = -1,
                        .result = audit_data(answer)};

        if (!call->record.decided)
                record_deny(call->manager, call->policy, &call->record,
                            by_policy ? call->decision.rule : call->record.rule,
                            by_policy ? evaluate_step_to_string(call->decision.step)
                                      : call->record.rule,
                            end.reason);
        record_end(call->manager, &call->record, &end);
}

void call_record_end(Call *call, const StrBuf *answer) {
        AuditEnd end = {.outcome = "error",
                        .reason = "the broker could not serve the call",
                        .exit_code = -1,
                        .result = audit_data(answer)};

        if (call->execution && (call->record.finished || call->lost)) {
                end.reason = NULL;
                call->executor->describe(call, &end);
        }
        record_end(call->manager, &call->record, &end);
}

void call_record_done(Call *call) {
        CallRecord *record = &call->record;

        /* What was never begun has no tool. */
        if (record->begun_usec > 0 && !record->decided) {
                record_deny(call->manager, call->policy, record, "broker", "broker",
                            "the broker could not decide");
        }
        if (record->decided && !record->ended)
                call_record_end(call, NULL);
        record_done(record);
}

/* --- what becomes no call --- */

void call_record_reject(Client *client, const RpcLine *line, const RpcMessage *message,
                        const McpRequest *request, int code, const char *text,
                        const StrBuf *answer) {
        const JsonNode *arguments = json_node_member(line->doc, message->params, "arguments");
        AuditEnd end = {
                .outcome = "denied", .reason = text, .exit_code = -1, .result = audit_data(answer)};
        CallRecord record = {};
        Trace trace;

        if (arguments)
                record.arguments =
                        (AuditData){json_node_slice(line->doc, arguments), arguments->size};
        if (record_init(&record, client, line->doc, request, &trace) < 0)
                log_error("a call that was refused was not recorded: out of memory");
        else {
                record.tenant = authorize_tenant(client->manager->policy, &client->who);
                trace.facts.status_code = code;
                record_deny(client->manager, client->manager->policy, &record, record.rule,
                            record.rule, text);
                record_end(client->manager, &record, &end);
                call_trace_end(client->manager, &trace);
        }
        record_done(&record);
}

void call_record_reject_answered(Client *client, const RpcLine *line, const RpcMessage *message,
                                 const McpRequest *request) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(freep) char *text = NULL;
        int64_t code = RPC_INTERNAL_ERROR;
        const JsonNode *error, *message_node;
        JsonError fault;

        if (message->kind != RPC_REQUEST || !string_equal(message->method, "tools/call"))
                return;
        if (json_scan(request->answer.data, request->answer.size, &doc, &fault) == 0) {
                error = json_node_member(doc, json_doc_root(doc), "error");
                message_node = json_node_member(doc, error, "message");
                if (!message_node || json_node_string(doc, message_node, &text, NULL) != 0)
                        text = NULL;
                error = json_node_member(doc, error, "code");
                if (error)
                        (void) json_node_int64(doc, error, &code);
        }
        call_record_reject(client, line, message, request, (int) code,
                           text ?: "the request was wrong", &request->answer);
}
