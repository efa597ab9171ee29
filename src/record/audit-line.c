/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-line.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "record/audit-redact.h"

#define NSEC_PER_SEC 1000000000ULL
#define SCOPES_MAX 32U

AuditStamp audit_stamp_now(void) {
        struct timespec wall = {}, mono = {};

        (void) clock_gettime(CLOCK_REALTIME, &wall);
        (void) clock_gettime(CLOCK_MONOTONIC, &mono);
        return (AuditStamp){
                .wall_usec = (uint64_t) wall.tv_sec * USEC_PER_SEC +
                             (uint64_t) wall.tv_nsec / NSEC_PER_USEC,
                .mono_nsec = (uint64_t) mono.tv_sec * NSEC_PER_SEC + (uint64_t) mono.tv_nsec,
        };
}

void audit_hash(const void *data, size_t size, char *ret_hash) {
        static const char digits[] = "0123456789abcdef";
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx context;
        char *p = ret_hash;

        sha256_init(&context);
        sha256_update(&context, size, data);
        sha256_digest(&context, sizeof(digest), digest);

        memcpy(p, "sha256:", 7);
        p += 7;
        for (size_t i = 0; i < sizeof(digest); i++) {
                *p++ = digits[digest[i] >> 4];
                *p++ = digits[digest[i] & 0xf];
        }
        *p = 0;
}

/* --- members, each with the comma before it --- */

static int add_name(StrBuf *body, const char *name) {
        return error_trace(strbuf_appendf(body, ",\"%s\":", name));
}

/* What another process says is one, in hex. */
static int append_hex(StrBuf *body, const char *hex, size_t size) {
        if (size != 2 * SHA256_DIGEST_SIZE || strspn(hex, "0123456789abcdef") < size)
                return error_trace(strbuf_append_string(body, "null"));
        return error_trace(strbuf_appendf(body, "\"sha256:%.*s\"", (int) size, hex));
}

static int add_text(StrBuf *body, const char *name, const char *text, size_t max) {
        int r;

        r = add_name(body, name);
        if (r == 0)
                r = audit_append_text(body, text, text ? strlen(text) : 0, max);
        return error_trace(r);
}

static int add_list(StrBuf *body, const char *name, const StrV *list) {
        size_t n = list ? list->n_items : 0;
        int r;

        r = strbuf_appendf(body, ",\"%s\":[", name);
        for (size_t i = 0; r == 0 && i < n && i < SCOPES_MAX; i++) {
                r = i > 0 ? strbuf_append_byte(body, ',') : 0;
                if (r == 0)
                        r = audit_append_text(body, list->items[i], strlen(list->items[i]),
                                              AUDIT_NAME_MAX / 4);
        }
        if (r == 0 && n > SCOPES_MAX)
                r = strbuf_appendf(body, ",\"\\u2026(%zu)\"", n);
        if (r == 0)
                r = strbuf_append_byte(body, ']');
        return error_trace(r);
}

static int add_size(StrBuf *body, const char *name, const AuditData *data) {
        return error_trace(data->data ? strbuf_appendf(body, "\"%s\":%zu", name, data->size)
                                      : strbuf_appendf(body, "\"%s\":null", name));
}

static int add_hash(StrBuf *body, const char *name, const AuditData *data) {
        char hash[AUDIT_HASH_SIZE];

        if (!data->data)
                return error_trace(strbuf_appendf(body, ",\"hashes\":{\"%s\":null}", name));
        audit_hash(data->data, data->size, hash);
        return error_trace(strbuf_appendf(body, ",\"hashes\":{\"%s\":\"%s\"}", name, hash));
}

static int add_payload(StrBuf *body, const char *name, const AuditData *data) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        if (!data->data)
                return 0;
        r = audit_redact(&text, data->data, data->size, AUDIT_PAYLOAD_MAX);
        if (r == 0)
                r = add_name(body, name);
        if (r == 0)
                r = audit_append_text(body, text.data ?: "", text.size, AUDIT_PAYLOAD_MAX);
        return error_trace(r);
}

static size_t foreign_size(const char *text, size_t size) {
        return size > 0 || !text ? size : strlen(text);
}

/* What both events begin with. */
static int add_start(StrBuf *body, AuditStamp stamp, const char *event, const AuditCall *call) {
        time_t seconds = (time_t) (stamp.wall_usec / USEC_PER_SEC);
        struct tm tm = {};
        char text[32];
        int r;

        (void) gmtime_r(&seconds, &tm);
        (void) strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        r = strbuf_appendf(body, ",\"time\":\"%s.%06uZ\",\"mono_ns\":%" PRIu64 ",\"event\":\"%s\"",
                           text, (unsigned) (stamp.wall_usec % USEC_PER_SEC), stamp.mono_nsec,
                           event);
        if (r == 0)
                r = add_text(body, "call", call->id, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "tenant", call->tenant, AUDIT_NAME_MAX);
        if (r == 0)
                r = strbuf_appendf(body, ",\"peer\":{\"uid\":%lu,\"pid\":%ld}",
                                   (unsigned long) call->uid, (long) call->pid);
        if (r == 0)
                r = add_name(body, "client");
        if (r == 0)
                r = audit_append_text(body, call->client,
                                      foreign_size(call->client, call->client_size),
                                      AUDIT_NAME_MAX);
        if (r == 0)
                r = add_name(body, "tool");
        if (r == 0)
                r = audit_append_text(body, call->tool, foreign_size(call->tool, call->tool_size),
                                      AUDIT_NAME_MAX);
        return error_trace(r);
}

int audit_body_decision(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                        const AuditDecision *decision, bool payloads) {
        int r;

        r = add_start(body, stamp, "decision", call);
        if (r == 0)
                r = add_list(body, "scopes", decision->scopes);
        if (r == 0)
                r = add_list(body, "granted", decision->granted);
        if (r == 0)
                r = add_text(body, "decision", decision->allowed ? "allowed" : "denied", 16);
        if (r == 0)
                r = add_text(body, "rule", decision->rule, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "reason", decision->reason, AUDIT_REASON_MAX);
        if (r == 0)
                r = add_text(body, "policy_digest", decision->policy_digest, AUDIT_NAME_MAX);
        if (r == 0)
                r = strbuf_append_string(body, ",\"bytes\":{");
        if (r == 0)
                r = add_size(body, "arguments", &decision->arguments);
        if (r == 0)
                r = strbuf_append_byte(body, '}');
        if (r == 0)
                r = add_hash(body, "arguments", &decision->arguments);
        if (r == 0 && payloads)
                r = add_payload(body, "arguments", &decision->arguments);
        if (r == 0)
                r = add_text(body, "trace_id", call->trace_id, AUDIT_NAME_MAX);
        return error_trace(r);
}

static int add_durations(StrBuf *body, const AuditEnd *end) {
        return error_trace(strbuf_appendf(
                body, ",\"ms\":{\"decide\":%.3f,\"run\":%.3f,\"total\":%.3f}",
                (double) end->decide_usec / USEC_PER_MSEC, (double) end->run_usec / USEC_PER_MSEC,
                (double) end->total_usec / USEC_PER_MSEC));
}

static int add_exit(StrBuf *body, const AuditEnd *end) {
        const char *name = end->signal > 0 ? sigabbrev_np(end->signal) : NULL;
        int r;

        r = end->exit_code >= 0 ? strbuf_appendf(body, ",\"exit\":{\"code\":%d", end->exit_code)
                                : strbuf_append_string(body, ",\"exit\":{\"code\":null");
        if (r == 0 && name)
                r = strbuf_appendf(body, ",\"signal\":\"SIG%s\"}", name);
        else if (r == 0 && end->signal > 0)
                r = strbuf_appendf(body, ",\"signal\":\"%d\"}", end->signal);
        else if (r == 0)
                r = strbuf_append_string(body, ",\"signal\":null}");
        return error_trace(r);
}

static int add_output(StrBuf *body, const AuditEnd *end) {
        int r;

        r = strbuf_append_string(body, ",\"bytes\":{");
        if (r == 0)
                r = add_size(body, "result", &end->result);
        if (r == 0)
                r = strbuf_appendf(body, ",\"stdout\":%" PRIu64 ",\"stderr\":%" PRIu64 "}",
                                   end->stdout_bytes, end->stderr_bytes);
        return error_trace(r);
}

static int add_egress(StrBuf *body, const AuditEnd *end) {
        if (!end->has_egress)
                return 0;
        return error_trace(strbuf_appendf(body,
                                          ",\"egress\":{\"connections\":%" PRIu64 ",\"in\":%" PRIu64
                                          ",\"out\":%" PRIu64 ",\"denied\":%" PRIu64 "}",
                                          end->egress_connections, end->egress_bytes_in,
                                          end->egress_bytes_out, end->egress_denied));
}

int audit_body_end(StrBuf *body, AuditStamp stamp, const AuditCall *call, const AuditEnd *end,
                   bool payloads) {
        int r;

        r = add_start(body, stamp, "end", call);
        if (r == 0)
                r = add_text(body, "job", end->job, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "outcome", end->outcome, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "reason", end->reason, AUDIT_REASON_MAX);
        if (r == 0)
                r = add_text(body, "limit", end->limit, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "plan_digest", end->plan_digest, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_durations(body, end);
        if (r == 0)
                r = add_output(body, end);
        if (r == 0)
                r = add_egress(body, end);
        if (r == 0)
                r = add_exit(body, end);
        if (r == 0)
                r = add_hash(body, "result", &end->result);
        if (r == 0 && payloads)
                r = add_payload(body, "result", &end->result);
        if (r == 0)
                r = add_text(body, "trace_id", call->trace_id, AUDIT_NAME_MAX);
        return error_trace(r);
}

static int add_parameters(StrBuf *body, const char *parameters) {
        int r;

        r = strbuf_append_string(body, ",\"parameters\":{");
        for (const char *p = parameters, *comma = ""; r == 0 && *p; comma = ",") {
                size_t name = strcspn(p, " "), hash = p[name] ? strcspn(p + name + 1, " ") : 0;

                r = strbuf_append_string(body, comma);
                if (r == 0)
                        r = audit_append_text(body, p, name, AUDIT_NAME_MAX);
                if (r == 0)
                        r = strbuf_append_string(body, ":");
                if (r == 0)
                        r = append_hex(body, p + name + (p[name] != 0), hash);
                p += name + (p[name] != 0) + hash;
                p += *p == ' ';
        }
        return r < 0 ? error_trace(r) : strbuf_append_byte(body, '}');
}

static int add_operation_hashes(StrBuf *body, const AuditOperation *operation) {
        int r;

        if (!*operation->digest)
                return 0;
        r = strbuf_append_string(body, ",\"hashes\":{\"request\":");
        if (r == 0)
                r = append_hex(body, operation->digest, strlen(operation->digest));
        if (r == 0)
                r = add_parameters(body, operation->parameters);
        return r < 0 ? error_trace(r) : strbuf_append_byte(body, '}');
}

static int add_tokens(StrBuf *body, const AuditOperation *operation) {
        const uint64_t counts[] = {operation->tokens_in, operation->tokens_out};
        static const char *const names[] = {"input", "output"};
        int r;

        if (counts[0] == AUDIT_TOKENS_NONE && counts[1] == AUDIT_TOKENS_NONE)
                return 0;
        r = strbuf_append_string(body, ",\"tokens\":{");
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(counts); i++)
                r = counts[i] == AUDIT_TOKENS_NONE
                            ? strbuf_appendf(body, "%s\"%s\":null", i > 0 ? "," : "", names[i])
                            : strbuf_appendf(body, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", names[i],
                                             counts[i]);
        return r < 0 ? error_trace(r) : error_trace(strbuf_append_byte(body, '}'));
}

int audit_body_operation(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                         const AuditOperation *operation) {
        const char *name = *operation->operation ? operation->operation : NULL;
        const char *reason = *operation->reason ? operation->reason : NULL;
        const char *text = *operation->text ? operation->text : NULL;
        int r;

        r = add_start(body, stamp, "operation", call);
        if (r == 0)
                r = add_text(body, "credential", operation->credential, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "operation", name, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "decision", operation->denied ? "denied" : "allowed", 16);
        if (r == 0)
                r = add_text(body, "reason", reason, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "text", text, AUDIT_REASON_MAX);
        if (r == 0)
                r = strbuf_appendf(body,
                                   ",\"status\":%u,\"ms\":%.3f,\"bytes\":{\"in\":%" PRIu64
                                   ",\"out\":%" PRIu64 "},\"dropped\":%" PRIu64,
                                   operation->status, (double) operation->usec / USEC_PER_MSEC,
                                   operation->bytes_in, operation->bytes_out, operation->n_dropped);
        if (r == 0)
                r = add_tokens(body, operation);
        if (r == 0)
                r = add_operation_hashes(body, operation);
        if (r == 0)
                r = add_text(body, "trace_id", call->trace_id, AUDIT_NAME_MAX);
        return error_trace(r);
}

static int add_connections(StrBuf *body, const AuditEgress *egress) {
        return error_trace(strbuf_appendf(body,
                                          ",\"end\":\"more\",\"count\":%" PRIu64
                                          ",\"bytes\":{\"in\":%" PRIu64 ",\"out\":%" PRIu64 "}",
                                          egress->count, egress->bytes_in, egress->bytes_out));
}

static int add_connection(StrBuf *body, const AuditEgress *egress) {
        int r;

        if (egress->count > 0)
                return add_connections(body, egress);

        r = add_text(body, "through", egress->through, AUDIT_REASON_MAX);
        if (r == 0)
                r = add_text(body, "end", egress->end, AUDIT_NAME_MAX);
        if (r == 0)
                r = strbuf_appendf(body,
                                   ",\"ms\":%" PRIu64 ",\"bytes\":{\"in\":%" PRIu64
                                   ",\"out\":%" PRIu64 "}",
                                   (uint64_t) (egress->usec / USEC_PER_MSEC), egress->bytes_in,
                                   egress->bytes_out);
        return error_trace(r);
}

static int add_denial(StrBuf *body, const AuditEgress *egress) {
        int r;

        r = add_text(body, "rule", egress->rule, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "kind", egress->kind, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "reason", egress->reason, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "seen", egress->seen, AUDIT_REASON_MAX);
        if (r == 0)
                r = strbuf_appendf(body, ",\"count\":%" PRIu64, egress->count);
        return error_trace(r);
}

int audit_body_egress(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                      const AuditEgress *egress) {
        int r;

        r = add_start(body, stamp, egress->is_dns ? "dns" : "egress", call);
        if (r == 0)
                r = add_text(body, "job", egress->job, AUDIT_NAME_MAX);
        if (r == 0)
                r = add_text(body, "name", egress->name, AUDIT_REASON_MAX);
        if (r == 0 && egress->port > 0)
                r = strbuf_appendf(body, ",\"port\":%" PRIu64, egress->port);
        if (r == 0)
                r = add_text(body, "decision", egress->denied ? "denied" : "allowed", 16);
        if (r == 0 && !egress->is_dns)
                r = add_text(body, "address", egress->address, AUDIT_NAME_MAX);
        if (r == 0)
                r = egress->end ? add_connection(body, egress) : add_denial(body, egress);
        if (r == 0)
                r = add_text(body, "trace_id", call->trace_id, AUDIT_NAME_MAX);
        return error_trace(r);
}

int audit_line(StrBuf *line, const AuditHead *before, const StrBuf *body, AuditHead *ret_head) {
        size_t start = line->size;
        int r;

        if (before->seq > 0)
                r = strbuf_appendf(line, "{\"seq\":%" PRIu64 ",\"prev\":\"%s\"", before->seq + 1,
                                   before->hash);
        else
                r = strbuf_append_string(line, "{\"seq\":1,\"prev\":null");
        if (r == 0)
                r = strbuf_append(line, body->data, body->size);
        if (r == 0)
                r = strbuf_append_string(line, "}\n");
        if (r < 0)
                return error_trace(r);

        ret_head->seq = before->seq + 1;
        audit_hash(line->data + start, line->size - start - 1, ret_head->hash);
        return 0;
}
