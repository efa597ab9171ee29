/* SPDX-License-Identifier: Apache-2.0 */

/* The reading side of audit-line.h. Whoever can write to the log gives these bytes. */

#include <string.h>
#include <time.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "record/audit-line.h"

#define YEAR_MIN 1970
#define YEAR_MAX 9999

void audit_record_done(AuditRecord *record) {
        json_doc_free(record->doc);
        *record = (AuditRecord){};
}

/* A number that leaves room for all that come after it. */
static bool take_seq(const JsonDoc *doc, const JsonNode *node, uint64_t *ret_seq) {
        return node && json_node_uint64(doc, node, ret_seq) == 0 && *ret_seq > 0 &&
               *ret_seq < INT64_MAX;
}

/* Copies the hash, if it is one in the spelling that is written. */
static bool take_hash(const JsonDoc *doc, const JsonNode *node, char *ret_hash) {
        const char *s;

        if (!node || node->type != JSON_NODE_STRING || node->size != AUDIT_HASH_SIZE - 1 + 2)
                return false;
        s = json_node_slice(doc, node) + 1;
        if (memcmp(s, "sha256:", 7) != 0 || strspn(s + 7, "0123456789abcdef") != 64)
                return false;
        memcpy(ret_hash, s, AUDIT_HASH_SIZE - 1);
        ret_hash[AUDIT_HASH_SIZE - 1] = 0;
        return true;
}

static const char *record_take(AuditRecord *record) {
        const JsonNode *root = json_doc_root(record->doc), *prev, *event;

        if (root->type != JSON_NODE_OBJECT)
                return "it is no JSON object";
        if (!take_seq(record->doc, json_node_member(record->doc, root, "seq"), &record->seq))
                return "it has no sequence number";
        prev = json_node_member(record->doc, root, "prev");
        if (!prev || (prev->type == JSON_NODE_NULL ? record->seq != 1
                                                   : !take_hash(record->doc, prev, record->prev)))
                return "it has no hash of the line before";
        event = json_node_member(record->doc, root, "event");
        if (!event || event->type != JSON_NODE_STRING)
                return "it has no event";
        return NULL;
}

int audit_record_parse(const char *line, size_t size, AuditRecord *ret_record,
                       const char **ret_text) {
        _cleanup_(audit_record_done) AuditRecord record = {};
        JsonError error;
        int r;

        if (size >= AUDIT_LINE_MAX) {
                *ret_text = "it is longer than any record";
                return AUDIT_RECORD_E_INVALID;
        }
        r = json_scan(line, size, &record.doc, &error);
        if (r < 0)
                return error_trace(r);
        *ret_text = r == JSON_SCAN_E_SYNTAX ? "it is no JSON" : record_take(&record);
        if (*ret_text)
                return AUDIT_RECORD_E_INVALID;

        *ret_record = record;
        record = (AuditRecord){};
        return 0;
}

int audit_record_string(const AuditRecord *record, const char *name, char **ret_string) {
        const JsonNode *node = json_node_member(record->doc, json_doc_root(record->doc), name);
        char *string = NULL;
        int r;

        r = node ? json_node_string(record->doc, node, &string, NULL) : JSON_NODE_E_TYPE;
        if (r < 0)
                return error_trace(r);
        *ret_string = string;
        return 0;
}

/* The fraction behind the seconds, as microseconds; *s moves behind it. */
static uint64_t parse_fraction(const char **s) {
        uint64_t usec = 0, unit = USEC_PER_SEC / 10;

        if (**s != '.')
                return 0;
        for (++*s; **s >= '0' && **s <= '9'; ++*s) {
                usec += (uint64_t) (**s - '0') * unit;
                unit /= 10;
        }
        return usec;
}

int audit_parse_time(const char *text, uint64_t *ret_usec) {
        struct tm tm = {};
        const char *rest;
        uint64_t usec;
        time_t seconds;

        rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        if (!rest) {
                tm = (struct tm){};
                rest = strptime(text, "%Y-%m-%d", &tm);
                if (!rest || *rest)
                        return AUDIT_RECORD_E_INVALID;
                usec = 0;
        } else {
                usec = parse_fraction(&rest);
                if (!string_equal(rest, "Z"))
                        return AUDIT_RECORD_E_INVALID;
        }
        if (tm.tm_year + 1900 < YEAR_MIN || tm.tm_year + 1900 > YEAR_MAX)
                return AUDIT_RECORD_E_INVALID;
        seconds = timegm(&tm);
        if (seconds < 0)
                return AUDIT_RECORD_E_INVALID;
        *ret_usec = (uint64_t) seconds * USEC_PER_SEC + usec;
        return 0;
}

int audit_record_time(const AuditRecord *record, uint64_t *ret_usec) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = audit_record_string(record, "time", &text);
        if (r < 0)
                return error_trace(r);
        return text ? audit_parse_time(text, ret_usec) : AUDIT_RECORD_E_INVALID;
}

int audit_head_parse(const char *text, size_t size, AuditHead *ret_head) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        const JsonNode *root, *open;
        AuditHead head = {};
        JsonError error;
        int r;

        r = json_scan(text, size, &doc, &error);
        if (r < 0)
                return error_trace(r);
        if (r > 0)
                return AUDIT_RECORD_E_INVALID;

        root = json_doc_root(doc);
        if (!take_seq(doc, json_node_member(doc, root, "seq"), &head.seq) ||
            !take_hash(doc, json_node_member(doc, root, "hash"), head.hash))
                return AUDIT_RECORD_E_INVALID;
        open = json_node_member(doc, root, "open");
        if (open && json_node_uint64(doc, open, &head.n_open) != 0)
                return AUDIT_RECORD_E_INVALID;
        *ret_head = head;
        return 0;
}
