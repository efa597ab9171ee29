/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Records wait in a queue until they stand in the log, which is at once unless it cannot be
 * written. What is acted on does not wait: a decision to allow is either written now or, by policy,
 * refused. The rest keeps its order and its times, and is written as soon as there is room again.
 */

#include "record/audit.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "record/audit-orphans.h"
#include "record/audit-store.h"
#include "record/journal.h"

#define WAITING_MAX 4096U
#define WAITING_BYTES_MAX (4U << 20)

typedef struct Waiting {
        STAILQ_ENTRY(Waiting) entry;
        StrBuf body;
        StrV fields; /* for the journal */
        int open;    /* 1: of a call that is open now; -1: that has ended; 0: of no call */
} Waiting;

STAILQ_HEAD(WaitingList, Waiting);

struct Audit {
        AuditStore store;
        StrBuf line; /* kept to save an allocation */
        struct WaitingList waiting;
        size_t n_waiting, waiting_bytes;
        uint64_t n_lost;
        bool fail_open, payloads, to_journal;
        bool failing; /* the last record could not be written, which was said */
        void (*warn)(const char *text);
};

static void _printf_(2, 3) audit_warn(const Audit *audit, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        if (text && audit->warn)
                audit->warn(text);
}

/* --- the queue --- */

static Waiting *waiting_free(Waiting *waiting) {
        if (!waiting)
                return NULL;
        strbuf_done(&waiting->body);
        strv_done(&waiting->fields);
        free(waiting);
        return NULL;
}
DEFINE_CLEANUP(Waiting, waiting_free);

static void queue_remove(Audit *audit, Waiting *waiting) {
        STAILQ_REMOVE(&audit->waiting, waiting, Waiting, entry);
        audit->n_waiting--;
        audit->waiting_bytes -= waiting->body.size;
        waiting_free(waiting);
}

/* Consumes it. One too many is lost: which of them makes no difference to the count, and the older
 * ones are closer to the cause. */
static Waiting *queue_add(Audit *audit, Waiting *waiting) {
        if (audit->n_waiting >= WAITING_MAX ||
            audit->waiting_bytes + waiting->body.size > WAITING_BYTES_MAX) {
                audit->n_lost++;
                return waiting_free(waiting);
        }
        STAILQ_INSERT_TAIL(&audit->waiting, waiting, entry);
        audit->n_waiting++;
        audit->waiting_bytes += waiting->body.size;
        return waiting;
}

/* --- writing --- */

static int audit_write(Audit *audit, const Waiting *waiting, char **ret_text) {
        AuditHead head;
        int r;

        audit->line.size = 0;
        r = audit_line(&audit->line, &audit->store.head, &waiting->body, &head);
        if (r < 0)
                return error_trace(r);
        r = audit_store_append(&audit->store, &audit->line, &head, waiting->open, ret_text);
        if (r == AUDIT_STORE_E_FAILED)
                return AUDIT_E_FAILED;
        if (r == 0 && audit->to_journal)
                journal_send(&waiting->fields, &audit->store.head);
        return error_fold(r);
}

static int audit_find(Audit *audit, char **ret_text) {
        int r;

        if (!audit_store_is_gone(&audit->store))
                return 0;
        if (audit->store.log_fd >= 0 && !audit->failing)
                audit_warn(audit, "the audit log %s/%s was removed: a new one is begun",
                           audit->store.place.folder, audit->store.place.log);
        r = audit_store_reopen(&audit->store, ret_text);
        return r == AUDIT_STORE_E_UNUSABLE ? AUDIT_E_FAILED : error_trace(r);
}

static void say_failing(Audit *audit, const char *text) {
        if (audit->failing)
                return;
        audit->failing = true;
        audit_warn(audit, "nothing can be written to the audit log %s/%s: %s; calls %s",
                   audit->store.place.folder, audit->store.place.log, text ?: "",
                   audit->fail_open ? "go on without (audit.on_failure)"
                                    : "are refused until it can (audit.on_failure)");
}

static void say_recovered(Audit *audit) {
        if (!audit->failing)
                return;
        audit->failing = false;
        audit_warn(audit, "the audit log is written again; records that were lost so far: %llu",
                   (unsigned long long) audit->n_lost);
}

/* Writes all that waits. 0, AUDIT_E_FAILED or -ENOMEM. */
static int audit_flush(Audit *audit, char **ret_text) {
        int r;

        if (STAILQ_EMPTY(&audit->waiting))
                return 0;
        r = audit_find(audit, ret_text);
        while (r == 0 && !STAILQ_EMPTY(&audit->waiting)) {
                Waiting *first = STAILQ_FIRST(&audit->waiting);

                r = audit_write(audit, first, ret_text);
                if (r == 0)
                        queue_remove(audit, first);
        }
        if (r == AUDIT_E_FAILED)
                say_failing(audit, *ret_text);
        else if (r == 0)
                say_recovered(audit);
        return error_trace(r);
}

/* Gives back NULL if there is no room for it, and it is lost. */
static Waiting *audit_queue(Audit *audit, Waiting *waiting) {
        _cleanup_(freep) char *cause = NULL;

        if (audit->n_waiting >= WAITING_MAX)
                (void) audit_flush(audit, &cause);
        return queue_add(audit, waiting);
}

/* --- what the broker calls --- */

static int refuse_record(const char *cause, char **ret_text) {
        return outcome_text(AUDIT_E_FAILED, ret_text,
                            "the call was not run, for it cannot be recorded: the audit log cannot "
                            "be written (%s); tell the operator of this broker",
                            cause ?: "no memory");
}

int audit_decision(Audit *audit, const AuditCall *call, const AuditDecision *decision,
                   char **ret_text) {
        _cleanup_(waiting_freep) Waiting *waiting = calloc(1, sizeof(Waiting));
        _cleanup_(freep) char *cause = NULL;
        Waiting *queued;
        int r;

        if (!waiting)
                return error_origin(-ENOMEM);
        r = audit_body_decision(&waiting->body, audit_stamp_now(), call, decision, audit->payloads);
        if (r == 0 && audit->to_journal)
                r = journal_add_decision(&waiting->fields, call, decision);
        if (r < 0)
                return error_trace(r);

        waiting->open = call->id ? 1 : 0;
        queued = audit_queue(audit, TAKE_PTR(waiting));
        r = audit_flush(audit, &cause);
        if (r == 0 && queued)
                return 0;
        if (!decision->allowed || audit->fail_open)
                return 0;
        /* It is not what happens. */
        if (queued)
                queue_remove(audit, queued);
        return refuse_record(cause, ret_text);
}

int audit_operation(Audit *audit, const AuditCall *call, const AuditOperation *operation) {
        _cleanup_(waiting_freep) Waiting *waiting = calloc(1, sizeof(Waiting));
        _cleanup_(freep) char *cause = NULL;
        int r = -ENOMEM;

        if (waiting)
                r = audit_body_operation(&waiting->body, audit_stamp_now(), call, operation);
        if (r < 0) {
                audit->n_lost++;
                audit_warn(audit, "an operation was not recorded: %s", strerrordesc_np(-r));
        } else {
                (void) audit_queue(audit, TAKE_PTR(waiting));
                r = audit_flush(audit, &cause);
        }
        return r != 0 && !audit->fail_open ? AUDIT_E_FAILED : 0;
}

bool audit_goes_on(const Audit *audit) {
        return audit->fail_open;
}

static int queue_egress(Audit *audit, const AuditCall *call, const AuditEgress *egress) {
        _cleanup_(waiting_freep) Waiting *waiting = calloc(1, sizeof(Waiting));
        int r;

        if (!waiting)
                return error_origin(-ENOMEM);
        r = audit_body_egress(&waiting->body, audit_stamp_now(), call, egress);
        if (r < 0)
                return error_trace(r);
        (void) audit_queue(audit, TAKE_PTR(waiting));
        return 0;
}

void audit_egress(Audit *audit, const AuditCall *call, const AuditEgress *items, size_t n_items) {
        _cleanup_(freep) char *cause = NULL;

        for (size_t i = 0; i < n_items; i++)
                if (queue_egress(audit, call, &items[i]) < 0) {
                        audit->n_lost++;
                        audit_warn(audit, "what a job reached was not recorded: no memory");
                }
        if (n_items > 0)
                (void) audit_flush(audit, &cause);
}

void audit_end(Audit *audit, const AuditCall *call, const AuditEnd *end) {
        _cleanup_(waiting_freep) Waiting *waiting = calloc(1, sizeof(Waiting));
        _cleanup_(freep) char *cause = NULL;
        int r = -ENOMEM;

        if (waiting)
                r = audit_body_end(&waiting->body, audit_stamp_now(), call, end, audit->payloads);
        if (r == 0 && audit->to_journal)
                r = journal_add_end(&waiting->fields, call, end);
        if (r < 0) {
                audit->n_lost++;
                audit_warn(audit, "the end of a call was not recorded: %s", strerrordesc_np(-r));
                return;
        }
        waiting->open = -1;
        (void) audit_queue(audit, TAKE_PTR(waiting));
        (void) audit_flush(audit, &cause);
}

void audit_reopen(Audit *audit) {
        _cleanup_(freep) char *text = NULL, *cause = NULL;
        int r;

        r = audit_store_reopen(&audit->store, &text);
        if (r != 0)
                audit_warn(audit, "the audit log was not opened anew: %s",
                           text ?: strerrordesc_np(-r));
        (void) audit_flush(audit, &cause);
}

uint64_t audit_n_lost(const Audit *audit) {
        return audit->n_lost;
}

Audit *audit_free(Audit *audit) {
        _cleanup_(freep) char *cause = NULL;

        if (!audit)
                return NULL;
        (void) audit_flush(audit, &cause);
        audit->n_lost += audit->n_waiting;
        if (audit->n_lost > 0)
                audit_warn(audit,
                           "records that are not in the audit log, for it could not be "
                           "written: %llu",
                           (unsigned long long) audit->n_lost);
        while (!STAILQ_EMPTY(&audit->waiting))
                queue_remove(audit, STAILQ_FIRST(&audit->waiting));
        audit_store_done(&audit->store);
        strbuf_done(&audit->line);
        free(audit);
        return NULL;
}

static void audit_announce(const Audit *audit, const char *path) {
        _cleanup_(strv_done) StrV fields = STRV_NULL;

        if (audit->to_journal && journal_add_start(&fields, path) == 0)
                journal_send(&fields, &audit->store.head);
}

/* A broker was killed: nobody else will record how its calls ended. */
static int audit_end_orphans(Audit *audit, const char *path) {
        _cleanup_(audit_orphans_done) AuditOrphans orphans;
        AuditOrphan *orphan;
        int r;

        audit_orphans_init(&orphans);
        r = audit_orphans_find(&orphans, path);
        if (r < 0)
                return error_trace(r);
        audit->store.head.n_open = orphans.n;
        TAILQ_FOREACH(orphan, &orphans.list, entry) {
                const AuditCall call = audit_orphan_call(orphan);
                const AuditEnd end = {
                        .outcome = "lost",
                        .reason = "the broker was killed before the call ended",
                        .exit_code = -1,
                };

                audit_end(audit, &call, &end);
        }
        if (orphans.n > 0)
                audit_warn(audit, "calls that were cut off when the broker was killed: %zu",
                           orphans.n);
        return 0;
}

int audit_open(const AuditConfig *config, Audit **ret_audit, char **ret_text) {
        _cleanup_(audit_freep) Audit *audit = NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        audit = calloc(1, sizeof(Audit));
        if (!audit)
                return error_origin(-ENOMEM);
        audit->store = AUDIT_STORE_NULL;
        STAILQ_INIT(&audit->waiting);
        audit->fail_open = config->fail_open;
        audit->payloads = config->payloads;
        audit->to_journal = config->to_journal;
        audit->warn = config->warn;

        r = audit_store_open(&audit->store, config->path, config->warn, &text);
        /* Each record tries again. */
        if (r == AUDIT_STORE_E_UNUSABLE && config->fail_open)
                say_failing(audit, text);
        else if (r == AUDIT_STORE_E_UNUSABLE) {
                *ret_text = TAKE_PTR(text);
                return AUDIT_E_UNUSABLE;
        } else if (r < 0)
                return error_trace(r);

        audit_announce(audit, config->path);
        if (r == 0 && audit->store.unclean) {
                r = audit_end_orphans(audit, config->path);
                if (r < 0)
                        return error_trace(r);
        }
        *ret_audit = TAKE_PTR(audit);
        return 0;
}
