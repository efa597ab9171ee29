/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The audit log as whoever can write to it leaves it: the verifier, the reader of records and of
 * heads. And the other way: whatever a client says becomes one JSON string, and a payload that is
 * redacted shows no secret.
 */

#include "tests/fuzz/fuzz.h"

#include "record/audit-line.h"
#include "record/audit-redact.h"
#include "record/audit-verify.h"

static void on_fault(const char *file, uint64_t line _unused_, const char *text, void *userdata) {
        uint64_t *n = userdata;

        FUZZ_ASSERT(file && text && *text);
        (*n)++;
}

static void verify(const char *text, size_t size) {
        AuditHead want = {.seq = 2};
        AuditVerifier verifier;
        uint64_t n = 0, line = 0;

        audit_hash("", 0, want.hash);
        audit_verifier_init(&verifier, &want, on_fault, &n);
        while (size > 0) {
                const char *newline = memchr(text, '\n', size);
                size_t length = newline ? (size_t) (newline - text) : size;

                FUZZ_ASSERT(audit_verifier_line(&verifier, "log", ++line, text, length) == 0);
                text += length + (newline ? 1 : 0);
                size -= length + (newline ? 1 : 0);
        }
        FUZZ_ASSERT(audit_verifier_end(&verifier) == 0);
        FUZZ_ASSERT(verifier.n_faults == n);
        /* Nobody has the hash of nothing. */
        FUZZ_ASSERT(n > 0);
        audit_verifier_done(&verifier);
}

static void read_record(const char *text, size_t size) {
        _cleanup_(audit_record_done) AuditRecord record = {};
        _cleanup_(freep) char *tool = NULL;
        const char *fault = NULL;
        AuditHead head;
        uint64_t usec;
        int r;

        r = audit_record_parse(text, size, &record, &fault);
        FUZZ_ASSERT(r == 0 || (r == AUDIT_RECORD_E_INVALID && fault));
        if (r == 0) {
                FUZZ_ASSERT(record.seq > 0);
                FUZZ_ASSERT(audit_record_string(&record, "tool", &tool) == 0);
                (void) audit_record_time(&record, &usec);
        }
        r = audit_head_parse(text, size, &head);
        FUZZ_ASSERT(r == 0 || r == AUDIT_RECORD_E_INVALID);
        FUZZ_ASSERT(r != 0 || (head.seq > 0 && strlen(head.hash) == AUDIT_HASH_SIZE - 1));
}

static void write_text(const char *text, size_t size) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        FUZZ_ASSERT(audit_append_text(&out, text, size, AUDIT_NAME_MAX) == 0);
        FUZZ_ASSERT(out.size <= 6 * AUDIT_NAME_MAX + 64);
        for (size_t i = 0; i < out.size; i++)
                FUZZ_ASSERT(out.data[i] >= ' ' && out.data[i] <= '~');
        FUZZ_ASSERT(json_scan(out.data, out.size, &doc, &error) == 0);
        FUZZ_ASSERT(json_doc_root(doc)->type == JSON_NODE_STRING);
}

/* What is whole is JSON again, and no value of a secret's name is left. */
static void redact(const char *text, size_t size) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        const JsonNode *password;

        FUZZ_ASSERT(audit_redact(&out, text, size, SIZE_MAX / 2) == 0);
        if (json_scan(out.data ?: "", out.size, &doc, &error) != 0) {
                FUZZ_ASSERT(string_equal(out.data, "[not readable]"));
                return;
        }
        password = json_node_member(doc, json_doc_root(doc), "password");
        FUZZ_ASSERT(!password || json_node_string_equal(doc, password, "[redacted]"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        /* A copy of its very size: reading behind it is seen. */
        _cleanup_(freep) char *text = malloc(size_max(size, 1));

        FUZZ_ASSERT(text);
        memcpy(text, data, size);
        verify(text, size);
        read_record(text, size);
        write_text(text, size);
        redact(text, size);
        return 0;
}
