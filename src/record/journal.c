/* SPDX-License-Identifier: Apache-2.0 */

#include "record/journal.h"

/* Where in the sources a record was sent from says nothing about it. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "basic/diag.h"
#include "basic/error.h"

#define ID_DECISION "c9da49685a504f639d72caf8a9312e04"
#define ID_END "b33a17292ced4436a1f548df03277def"
#define ID_START "e05834d33e56452aa409b8a8cd7a4cc6"
#define FIELDS_MAX 24U

/* Foreign text is escaped and cut; nothing is added for NULL. */
static int add_field(StrV *fields, const char *name, const char *text) {
        _cleanup_(freep) char *excerpt = NULL;

        if (!text)
                return 0;
        excerpt = diag_excerpt(text, strlen(text));
        if (!excerpt)
                return error_origin(-ENOMEM);
        return error_trace(strv_appendf(fields, "%s=%s", name, excerpt));
}

/* What is ours, and may be longer than an excerpt. */
static int add_own(StrV *fields, const char *name, const char *text) {
        return text ? error_trace(strv_appendf(fields, "%s=%.200s", name, text)) : 0;
}

static int add_message(StrV *fields, const AuditCall *call, const char *what, const char *why) {
        _cleanup_(freep) char *tool = NULL, *reason = NULL;

        if (!call->id)
                return error_trace(strv_appendf(
                        fields, "MESSAGE=connection of user %lu (pid %ld): %s: %.400s",
                        (unsigned long) call->uid, (long) call->pid, what ?: "-", why ?: ""));
        tool = diag_quote(call->tool ?: "");
        reason = diag_excerpt(why ?: "", why ? strlen(why) : 0);
        if (!tool || !reason)
                return error_origin(-ENOMEM);
        return error_trace(strv_appendf(fields, "MESSAGE=call %s of %s by %s: %s%s%s",
                                        call->id ?: "-", tool, call->tenant ?: "-", what ?: "-",
                                        why ? ": " : "", reason));
}

static int add_call(StrV *fields, const AuditCall *call) {
        int r;

        r = add_own(fields, "AGENTCRATE_CALL", call->id);
        if (r == 0)
                r = add_field(fields, "AGENTCRATE_TENANT", call->tenant);
        if (r == 0)
                r = strv_appendf(fields, "AGENTCRATE_PEER_UID=%lu", (unsigned long) call->uid);
        if (r == 0)
                r = strv_appendf(fields, "AGENTCRATE_PEER_PID=%ld", (long) call->pid);
        if (r == 0)
                r = add_field(fields, "AGENTCRATE_CLIENT", call->client);
        if (r == 0)
                r = add_field(fields, "AGENTCRATE_TOOL", call->tool);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_TRACE_ID", call->trace_id);
        return error_trace(r);
}

int journal_add_decision(StrV *fields, const AuditCall *call, const AuditDecision *decision) {
        const char *word = decision->allowed ? "allowed" : "denied";
        int r;

        r = add_message(fields, call, word, decision->reason);
        if (r == 0)
                r = strv_append(fields, "MESSAGE_ID=" ID_DECISION);
        if (r == 0)
                r = strv_append(fields, decision->allowed ? "PRIORITY=6" : "PRIORITY=5");
        if (r == 0)
                r = strv_append(fields, "AGENTCRATE_EVENT=decision");
        if (r == 0)
                r = add_call(fields, call);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_DECISION", word);
        if (r == 0)
                r = add_field(fields, "AGENTCRATE_RULE", decision->rule);
        return error_trace(r);
}

int journal_add_end(StrV *fields, const AuditCall *call, const AuditEnd *end) {
        int r;

        r = add_message(fields, call, end->outcome, end->reason);
        if (r == 0)
                r = strv_append(fields, "MESSAGE_ID=" ID_END);
        if (r == 0)
                r = strv_append(fields, "PRIORITY=6");
        if (r == 0)
                r = strv_append(fields, "AGENTCRATE_EVENT=end");
        if (r == 0)
                r = add_call(fields, call);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_OUTCOME", end->outcome);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_LIMIT", end->limit);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_JOB", end->job);
        if (r == 0)
                r = add_own(fields, "AGENTCRATE_PLAN_DIGEST", end->plan_digest);
        return error_trace(r);
}

int journal_add_start(StrV *fields, const char *path) {
        _cleanup_(freep) char *quoted = diag_quote_path(path);
        int r;

        if (!quoted)
                return error_origin(-ENOMEM);
        r = strv_appendf(fields, "MESSAGE=the audit log is %s", quoted);
        if (r == 0)
                r = strv_append(fields, "MESSAGE_ID=" ID_START);
        if (r == 0)
                r = strv_append(fields, "PRIORITY=6");
        if (r == 0)
                r = strv_append(fields, "AGENTCRATE_EVENT=start");
        return error_trace(r);
}

void journal_send(const StrV *fields, const AuditHead *head) {
        struct iovec iov[FIELDS_MAX];
        char seq[64], hash[AUDIT_HASH_SIZE + 32];
        int n = 0;

        for (size_t i = 0; i < fields->n_items && i < FIELDS_MAX - 2; i++)
                iov[n++] = (struct iovec){fields->items[i], strlen(fields->items[i])};
        (void) snprintf(seq, sizeof(seq), "AGENTCRATE_SEQ=%" PRIu64, head->seq);
        (void) snprintf(hash, sizeof(hash), "AGENTCRATE_HASH=%s", head->hash);
        iov[n++] = (struct iovec){seq, strlen(seq)};
        iov[n++] = (struct iovec){hash, strlen(hash)};
        (void) sd_journal_sendv(iov, n);
}
