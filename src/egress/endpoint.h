/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host NAME.crate.internal of a credential, within a session: what its operations were used for
 * so far, and the secret. Apart from the connections that jobs make to it.
 */

#include "egress/counts.h"
#include "egress/exchange.h"
#include "egress/session-internal.h"

/* How often an operation was called: by the job, and in the last minute. The latter counts only
 * where no tenant is known, whose calls count together. */
typedef struct OperationUse {
        uint64_t n;
        MinuteCount minute;
} OperationUse;

struct Endpoint {
        Session *session;
        const SessionCredential *credential;
        Vault vault;
        OperationUse *uses;       /* in the order of the menu */
        size_t body_max;          /* of any operation */
        Connections *connections; /* to its upstream, for it alone; NULL: none was needed yet */
};

/* Where its connections are kept. NULL: no memory. */
Connections *endpoint_get_connections(Endpoint *endpoint);
/* NULL: one more call may be made; else the limit that forbids it. */
const char *endpoint_find_limit(Endpoint *endpoint, const Operation *operation);
/* Counts one that may. */
void endpoint_count(Endpoint *endpoint, const Operation *operation);
/* Whether one more can be told of. What cannot be is not sent. */
bool endpoint_can_tell(const Endpoint *endpoint);
/* Tells of one that is over. */
void endpoint_tell(Endpoint *endpoint, const SessionOperation *operation);
