/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a request got no whole answer of its upstream: a word for programs, and a sentence that names
 * the upstream, what was wrong there, and what can be done. Both go to the job and on record, so
 * nothing of the secret is in them, whatever the upstream says of itself.
 */

#include <curl/curl.h>

#include "basic/time-util.h"
#include "egress/address.h"
#include "egress/redact.h"
#include "egress/resolver.h"
#include "ipc/proto.h"
#include "policy/credential.h"

/* That a connection may take. */
#define EXCHANGE_CONNECT_USEC (10 * USEC_PER_SEC)

typedef struct ExchangeFault {
        int status;         /* what to answer if nothing was answered yet */
        const char *reason; /* one word, static; NULL: nothing was wrong */
        char text[PROTO_EGRESS_WHY_MAX];
} ExchangeFault;

/* What was asked, and of whom. */
typedef struct ExchangeSubject {
        const Credential *credential;
        const Operation *operation;
} ExchangeSubject;

/* The first one is the cause of those that follow, and stays. The text says what the upstream did,
 * which is named before it. */
void exchange_fault_set(ExchangeFault *fault, const ExchangeSubject *subject, int status,
                        const char *reason, const char *format, ...) _printf_(5, 6);
void exchange_fault_broken(ExchangeFault *fault, const ExchangeSubject *subject, const char *text);
void exchange_fault_memory(ExchangeFault *fault, const ExchangeSubject *subject);
/* The answer is longer than it may be. */
void exchange_fault_size(ExchangeFault *fault, const ExchangeSubject *subject);
/* It took longer than it may; until: what had not been done by then. */
void exchange_fault_time(ExchangeFault *fault, const ExchangeSubject *subject, const char *until);
void exchange_fault_unresolved(ExchangeFault *fault, const ExchangeSubject *subject,
                               const ResolverAnswer *answer);
/* The name leads to nothing that may be dialled, such as address. */
void exchange_fault_address(ExchangeFault *fault, const ExchangeSubject *subject,
                            const Address *address, AddressClass class);
/* What libcurl says: a code, and a text that the upstream may have had a hand in. sent: there was a
 * connection, and the request went out. */
void exchange_fault_curl(ExchangeFault *fault, const ExchangeSubject *subject, CURL *curl,
                         CURLcode code, const char *text, bool sent, Redactor *redactor);
