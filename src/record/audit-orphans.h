/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls whose broker was killed before it could record their end. */

#include <sys/queue.h>

#include "record/audit-line.h"

typedef struct AuditOrphan {
        TAILQ_ENTRY(AuditOrphan) entry;
        char *id, *tenant, *client, *tool, *trace_id;
        uint64_t uid, pid;
} AuditOrphan;

typedef struct AuditOrphans {
        TAILQ_HEAD(AuditOrphanList, AuditOrphan) list; /* in the order of their decisions */
        void *by_id;                                   /* a tree of tsearch(3) */
        size_t n;
} AuditOrphans;

void audit_orphans_init(AuditOrphans *orphans);
void audit_orphans_done(AuditOrphans *orphans);
/* Looks for them in the log and in the one file that it was renamed to last. What cannot be read is
 * left out. 0 or -ENOMEM. */
int audit_orphans_find(AuditOrphans *orphans, const char *path);
/* As the record of the end has it; borrows. */
AuditCall audit_orphan_call(const AuditOrphan *orphan);
