/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a chain is whole. Lines go in, in their order; out come the faults, each with its place.
 * After a fault the chain is taken up at the line that is there, so that one fault is told once.
 */

#include "record/audit-line.h"

/* line 0: the file as a whole. text is one sentence. */
typedef void (*AuditFaultFn)(const char *file, uint64_t line, const char *text, void *userdata);

typedef struct AuditVerifier {
        AuditFaultFn fault;
        void *userdata;
        AuditHead want; /* the head that the chain must come to; seq 0: not known */
        bool want_seen;

        AuditHead last;  /* of the line before; seq 0: there was none */
        char *last_file; /* where it stands */
        uint64_t last_line;
        bool lost; /* the line before was no record: nothing follows from it */

        uint64_t first_seq, n_lines, n_faults, n_decisions, n_ends;
} AuditVerifier;

void audit_verifier_init(AuditVerifier *verifier, const AuditHead *want, AuditFaultFn fault,
                         void *userdata);
void audit_verifier_done(AuditVerifier *verifier);
/* Both 0 or -ENOMEM. */
int audit_verifier_line(AuditVerifier *verifier, const char *file, uint64_t line, const char *data,
                        size_t size);
int audit_verifier_end(AuditVerifier *verifier);
/* A fault that the caller has found. 0 or -ENOMEM. */
int audit_verifier_fault(AuditVerifier *verifier, const char *file, uint64_t line,
                         const char *format, ...) _printf_(4, 5);
