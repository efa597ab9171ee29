/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"

void audit_verifier_init(AuditVerifier *verifier, const AuditHead *want, AuditFaultFn fault,
                         void *userdata) {
        *verifier = (AuditVerifier){.fault = fault, .userdata = userdata};
        if (want)
                verifier->want = *want;
}

void audit_verifier_done(AuditVerifier *verifier) {
        free(verifier->last_file);
        *verifier = (AuditVerifier){};
}

int audit_verifier_fault(AuditVerifier *verifier, const char *file, uint64_t line,
                         const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0) {
                text = NULL;
                return error_origin(-ENOMEM);
        }
        verifier->n_faults++;
        verifier->fault(file, line, text, verifier->userdata);
        return 0;
}

/* This line and the one before. */
static int check_link(AuditVerifier *verifier, const char *file, uint64_t line,
                      const AuditRecord *record) {
        const AuditHead *last = &verifier->last;

        if (verifier->n_lines == 0 || verifier->lost)
                return 0;
        if (record->seq > last->seq + 1)
                return audit_verifier_fault(verifier, file, line,
                                            "it has the number %" PRIu64
                                            ", and the line before has %" PRIu64 ": %" PRIu64
                                            " lines are missing here",
                                            record->seq, last->seq, record->seq - last->seq - 1);
        if (record->seq <= last->seq)
                return audit_verifier_fault(verifier, file, line,
                                            "it has the number %" PRIu64
                                            ", and the line before has %" PRIu64
                                            ": lines are not in their order, or not of one log",
                                            record->seq, last->seq);
        if (!string_equal(record->prev, last->hash))
                return audit_verifier_fault(
                        verifier, verifier->last_file, verifier->last_line,
                        "it was changed, or is not of this log: the next line, %" PRIu64
                        ", has another hash of it",
                        record->seq);
        return 0;
}

/* This line and the head. */
static int check_want(AuditVerifier *verifier, const char *file, uint64_t line) {
        if (verifier->want.seq == 0 || verifier->last.seq != verifier->want.seq)
                return 0;
        verifier->want_seen = true;
        if (string_equal(verifier->last.hash, verifier->want.hash))
                return 0;
        return audit_verifier_fault(verifier, file, line,
                                    "it was changed: the head of the chain has another hash of it");
}

static int remember(AuditVerifier *verifier, const char *file, uint64_t line, const char *data,
                    size_t size, const AuditRecord *record) {
        if (!string_equal(verifier->last_file, file)) {
                free(verifier->last_file);
                verifier->last_file = strdup(file);
                if (!verifier->last_file)
                        return error_origin(-ENOMEM);
        }
        verifier->last_line = line;
        verifier->lost = !record;
        if (!record)
                return 0;
        verifier->last.seq = record->seq;
        audit_hash(data, size, verifier->last.hash);
        return 0;
}

static void count_event(AuditVerifier *verifier, const AuditRecord *record) {
        const JsonNode *event = json_node_member(record->doc, json_doc_root(record->doc), "event");

        if (json_node_string_equal(record->doc, event, "decision"))
                verifier->n_decisions++;
        else if (json_node_string_equal(record->doc, event, "end"))
                verifier->n_ends++;
}

int audit_verifier_line(AuditVerifier *verifier, const char *file, uint64_t line, const char *data,
                        size_t size) {
        _cleanup_(audit_record_done) AuditRecord record = {};
        const char *text = NULL;
        int r;

        r = audit_record_parse(data, size, &record, &text);
        if (r < 0)
                return error_trace(r);
        if (r > 0) {
                r = audit_verifier_fault(verifier, file, line, "it is no record: %s", text);
                if (r == 0)
                        r = remember(verifier, file, line, data, size, NULL);
                verifier->n_lines++;
                return error_trace(r);
        }

        r = check_link(verifier, file, line, &record);
        if (r == 0)
                r = remember(verifier, file, line, data, size, &record);
        if (r == 0)
                r = check_want(verifier, file, line);
        if (r < 0)
                return error_trace(r);
        if (verifier->first_seq == 0)
                verifier->first_seq = record.seq;
        count_event(verifier, &record);
        verifier->n_lines++;
        return 0;
}

int audit_verifier_end(AuditVerifier *verifier) {
        const AuditHead *want = &verifier->want, *last = &verifier->last;

        if (want->seq == 0 || verifier->want_seen)
                return 0;
        if (last->seq < want->seq)
                return error_trace(audit_verifier_fault(
                        verifier, verifier->last_file ?: "", verifier->last_line,
                        "the log ends here with the number %" PRIu64
                        ", but its head has come to %" PRIu64 ": the last %" PRIu64
                        " lines are missing",
                        last->seq, want->seq, want->seq - last->seq));
        return error_trace(audit_verifier_fault(
                verifier, verifier->last_file ?: "", verifier->last_line,
                "the head of the chain, %" PRIu64 ", is not among the lines", want->seq));
}
