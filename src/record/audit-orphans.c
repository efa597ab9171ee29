/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-orphans.h"

#include <search.h>
#include <string.h>

#include "basic/error.h"
#include "record/audit-read.h"

/* A log that was renamed while a call ran: no call outlives two rotations. */
#define FILES_MAX 2U

static int compare_ids(const void *a, const void *b) {
        const AuditOrphan *x = a, *y = b;

        return strcmp(x->id, y->id);
}

static AuditOrphan *orphan_free(AuditOrphan *orphan) {
        if (!orphan)
                return NULL;
        free(orphan->id);
        free(orphan->tenant);
        free(orphan->client);
        free(orphan->tool);
        free(orphan->trace_id);
        free(orphan);
        return NULL;
}
DEFINE_CLEANUP(AuditOrphan, orphan_free);

void audit_orphans_init(AuditOrphans *orphans) {
        *orphans = (AuditOrphans){};
        TAILQ_INIT(&orphans->list);
}

static void orphans_remove(AuditOrphans *orphans, AuditOrphan *orphan) {
        (void) tdelete(orphan, &orphans->by_id, compare_ids);
        TAILQ_REMOVE(&orphans->list, orphan, entry);
        orphans->n--;
        orphan_free(orphan);
}

void audit_orphans_done(AuditOrphans *orphans) {
        while (!TAILQ_EMPTY(&orphans->list))
                orphans_remove(orphans, TAILQ_FIRST(&orphans->list));
}

static int orphan_read(AuditOrphan *orphan, const AuditRecord *record) {
        const JsonNode *peer = json_node_member(record->doc, json_doc_root(record->doc), "peer");
        const JsonNode *uid = json_node_member(record->doc, peer, "uid");
        const JsonNode *pid = json_node_member(record->doc, peer, "pid");
        int r;

        r = audit_record_string(record, "tenant", &orphan->tenant);
        if (r == 0)
                r = audit_record_string(record, "client", &orphan->client);
        if (r == 0)
                r = audit_record_string(record, "tool", &orphan->tool);
        if (r == 0)
                r = audit_record_string(record, "trace_id", &orphan->trace_id);
        if (uid)
                (void) json_node_uint64(record->doc, uid, &orphan->uid);
        if (pid)
                (void) json_node_uint64(record->doc, pid, &orphan->pid);
        return error_trace(r);
}

/* Consumes it. */
static int orphans_add(AuditOrphans *orphans, AuditOrphan *orphan) {
        void *node = tsearch(orphan, &orphans->by_id, compare_ids);

        if (!node) {
                orphan_free(orphan);
                return error_origin(-ENOMEM);
        }
        /* Nobody gives an id twice. */
        if (*(AuditOrphan **) node != orphan) {
                orphan_free(orphan);
                return 0;
        }
        TAILQ_INSERT_TAIL(&orphans->list, orphan, entry);
        orphans->n++;
        return 0;
}

static int take_record(AuditOrphans *orphans, const AuditRecord *record) {
        const JsonNode *event = json_node_member(record->doc, json_doc_root(record->doc), "event");
        _cleanup_(orphan_freep) AuditOrphan *orphan = calloc(1, sizeof(AuditOrphan));
        void *node;
        int r;

        if (!orphan)
                return error_origin(-ENOMEM);
        r = audit_record_string(record, "call", &orphan->id);
        if (r < 0 || !orphan->id)
                return error_trace(r);

        if (json_node_string_equal(record->doc, event, "end")) {
                node = tfind(orphan, &orphans->by_id, compare_ids);
                if (node)
                        orphans_remove(orphans, *(AuditOrphan **) node);
                return 0;
        }
        if (!json_node_string_equal(record->doc, event, "decision"))
                return 0;
        r = orphan_read(orphan, record);
        return r < 0 ? error_trace(r) : orphans_add(orphans, TAKE_PTR(orphan));
}

static int take_file(AuditOrphans *orphans, const char *path) {
        _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
        _cleanup_(freep) char *error = NULL;
        AuditText text;
        int r;

        r = audit_reader_open(&reader, path, &error);
        while (r == 0) {
                _cleanup_(audit_record_done) AuditRecord record = {};
                const char *fault;

                r = audit_reader_next(&reader, false, &text);
                if (r != 0)
                        break;
                r = audit_record_parse(text.data, text.size, &record, &fault);
                if (r == 0)
                        r = take_record(orphans, &record);
                else if (r > 0)
                        r = 0;
        }
        return r == -ENOMEM ? error_trace(r) : 0;
}

int audit_orphans_find(AuditOrphans *orphans, const char *path) {
        _cleanup_(strv_done) StrV files = STRV_NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = audit_find_files(path, &files, &text);
        if (r != 0)
                return r == -ENOMEM ? error_trace(r) : 0;
        for (size_t i = files.n_items - size_min(files.n_items, FILES_MAX);
             r == 0 && i < files.n_items; i++)
                r = take_file(orphans, files.items[i]);
        return error_trace(r);
}

AuditCall audit_orphan_call(const AuditOrphan *orphan) {
        return (AuditCall){
                .id = orphan->id,
                .tenant = orphan->tenant,
                .uid = (uid_t) orphan->uid,
                .pid = (pid_t) orphan->pid,
                .client = orphan->client,
                .tool = orphan->tool,
                .trace_id = orphan->trace_id,
        };
}
