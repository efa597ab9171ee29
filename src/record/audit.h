/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audit log: one line of JSON for each decision, and one for the end of each call.
 *
 * A line has a sequence number and the hash of the line before. The number and the hash of the last
 * line, the head of the chain, are written beside the log and told to the journal, so that a tail
 * that was cut off is missed. A line is handed to the kernel by one write before what it tells is
 * acted on; one that could not be written whole is taken back, so that lines never mix. What a
 * client gave is escaped and cut: a line is valid JSON, pure ASCII and shorter than AUDIT_LINE_MAX,
 * whatever it tells of.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "basic/string-util.h"

#define AUDIT_LINE_MAX (64U * 1024U)
/* "sha256:", 64 hex digits and a NUL. */
#define AUDIT_HASH_SIZE (7 + 64 + 1)

typedef struct Audit Audit;

/* What stands in both lines of a call. All strings are borrowed and may be NULL; those with a size
 * may hold any bytes. */
typedef struct AuditCall {
        const char *id; /* NULL: of a decision that is none on a call, which no end follows */
        const char *tenant;
        uid_t uid;
        pid_t pid;
        const char *client; /* as it named itself */
        const char *tool;   /* as it was asked for */
        const char *trace_id;
        size_t client_size, tool_size; /* where only the beginning is kept, of the whole; else 0 */
} AuditCall;

/* Bytes that went in or out: their hash and size are recorded, themselves only if the policy says
 * so. */
typedef struct AuditData {
        const void *data; /* NULL: there were none */
        size_t size;
} AuditData;

typedef struct AuditDecision {
        bool allowed;
        const char *rule;          /* that decided, such as "owner" */
        const char *reason;        /* why not; NULL if allowed */
        const StrV *scopes;        /* that the tool declares; NULL: none */
        const StrV *granted;       /* that the tenant has; NULL: none */
        const char *policy_digest; /* NULL: not known */
        AuditData arguments;       /* the JSON text of the arguments */
} AuditDecision;

typedef struct AuditEnd {
        /* That of the result record, or "denied", "refused" (allowed, but there was no room or no
         * way to run it) or "error" (the broker broke). */
        const char *outcome;
        const char *reason; /* in one sentence; NULL: none */
        const char *limit;  /* that was met; NULL: none */
        const char *plan_digest;
        const char *job;
        uint64_t decide_usec, run_usec, total_usec;
        int exit_code; /* -1: none */
        int signal;    /* 0: none */
        uint64_t stdout_bytes, stderr_bytes;
        bool has_egress; /* the job could reach something: what follows is known */
        uint64_t egress_connections, egress_bytes_in, egress_bytes_out, egress_denied;
        AuditData result; /* the answer as it was sent; none if nobody wants it any more */
} AuditEnd;

#define AUDIT_TOKENS_NONE UINT64_MAX

/* A request with a credential, of a job that runs. */
typedef struct AuditOperation {
        const char *credential, *operation; /* operation "": it was none of the job's */
        const char *reason;                 /* why it was refused or failed; "": it was not */
        const char *text;                   /* the same in a sentence */
        const char *digest;     /* SHA-256 of method, path, query and content; "": none */
        const char *parameters; /* "NAME HASH NAME HASH …", each hash in hex */
        bool denied;
        uint32_t status;
        uint64_t bytes_in, bytes_out, usec;
        uint64_t n_dropped;             /* refused before this one, which have no line */
        uint64_t tokens_in, tokens_out; /* of a language model; AUDIT_TOKENS_NONE: not told */
} AuditOperation;

/* What a job reached, or was not let reach: names that it asked for, and connections. NULL or 0:
 * not known, or there is none. */
typedef struct AuditEgress {
        bool denied;
        bool is_dns;
        const char *job;
        const char *name;
        uint64_t port;
        const char *rule, *kind, *reason; /* of a denial: what judged, and how */
        const char *address;
        const char *through; /* the names that lead there */
        const char *seen;    /* what it claimed to be for */
        uint64_t count;  /* of denials that are all the same, or of connections without a line */
        const char *end; /* of a connection: how it ended */
        uint64_t bytes_in, bytes_out, usec;
        uint64_t begun_usec; /* of CLOCK_MONOTONIC; not in the log, which has the time */
} AuditEgress;

typedef struct AuditConfig {
        const char *path; /* absolute; borrowed only while it is opened */
        bool fail_open;   /* go on without a record where none can be written */
        bool payloads;    /* record arguments and results themselves, too */
        bool to_journal;
        void (*warn)(const char *text); /* what an operator should know; one sentence */
} AuditConfig;

enum {
        _AUDIT_E_SUCCESS,
        AUDIT_E_UNUSABLE, /* ret_text tells what is wrong with the file, and what to do */
        AUDIT_E_FAILED,   /* this record could not be written, and the policy is to refuse */
};

/* Where the log of the calling user lies. 0, AUDIT_E_UNUSABLE (there is no home) or -ENOMEM. */
int audit_default_path(char **ret_path, char **ret_text);

/*
 * Opens the log, and makes it and its folder if there is none. An incomplete line at its end is
 * moved into a file of its own. 0, AUDIT_E_UNUSABLE or a negative errno.
 */
int audit_open(const AuditConfig *config, Audit **ret_audit, char **ret_text);
/* Writes to disk what is still on its way. */
Audit *audit_free(Audit *audit);
DEFINE_CLEANUP(Audit, audit_free);

/* The file may have been renamed: goes on in a new one. What fails is told to warn; then the old
 * one stays in use. */
void audit_reopen(Audit *audit);

/* One line. 0, AUDIT_E_FAILED (ret_text tells the client) or -ENOMEM. */
int audit_decision(Audit *audit, const AuditCall *call, const AuditDecision *decision,
                   char **ret_text);
/* One line; what fails is told to warn and counted, since there is nothing left to refuse. */
void audit_end(Audit *audit, const AuditCall *call, const AuditEnd *end);

/* The same; AUDIT_E_FAILED: it could not be written now, and the policy is to refuse what would be
 * next. Else 0. */
int audit_operation(Audit *audit, const AuditCall *call, const AuditOperation *operation);
/* Whether what could not be recorded is done all the same. */
bool audit_goes_on(const Audit *audit);
/* As audit_end(), a line for each. */
void audit_egress(Audit *audit, const AuditCall *call, const AuditEgress *items, size_t n_items);

/* How many records could not be written. */
uint64_t audit_n_lost(const Audit *audit);
