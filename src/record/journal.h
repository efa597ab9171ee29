/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Records in the journal, with fields of their own. Where there is no journal nothing happens. */

#include "record/audit-line.h"

/* The fields of a record, "NAME=value" each. 0 or -ENOMEM. */
int journal_add_decision(StrV *fields, const AuditCall *call, const AuditDecision *decision);
int journal_add_end(StrV *fields, const AuditCall *call, const AuditEnd *end);
/* How far the chain is when a log is opened. */
int journal_add_start(StrV *fields, const char *path);

/* Sends them with the place in the chain. */
void journal_send(const StrV *fields, const AuditHead *head);
