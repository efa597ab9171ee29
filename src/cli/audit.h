/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the verbs of agentcrate audit share. */

#include "cli/command.h"
#include "record/audit-read.h"

/* Its exit statuses, beside EXIT_USAGE. */
#define EXIT_AUDIT_FAULT 1
#define EXIT_AUDIT_UNREADABLE 125

typedef struct AuditOptions {
        CommonOptions common; /* the first, as all tables of options want it */
        char *head;
        uint64_t lines;
        bool lines_given, follow;
        char *tenant, *tool, *outcome;
        uint64_t since_usec, until_usec; /* since 1970; 0: not given */
} AuditOptions;

int audit_verify(const AuditOptions *options, StrV *files);
int audit_query(const AuditOptions *options, StrV *files);
int audit_tail(const AuditOptions *options, StrV *files);

/* The files that are meant by no file. */
int audit_log_path(char **ret_path);
/* Prints a record, or what stands where one should be; nothing that a terminal would obey. */
void audit_print(const AuditText *text, const AuditRecord *record, bool json);
