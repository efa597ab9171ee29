/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which executor serves a tool. An executor is one table; another kind of executor is another
 * table, nothing else changes. */

#include <stdbool.h>

#include "basic/json-scan.h"
#include "basic/string-util.h"
#include "broker/manager.h"
#include "record/audit.h"

enum {
        _EXECUTOR_E_SUCCESS,
        EXECUTOR_E_REFUSED, /* ret_text tells why, for the one who called */
        EXECUTOR_E_DENIED,  /* of prepare: call->decision tells */
        EXECUTOR_E_ENDED,   /* of start: it ended before it began, finish() has the answer */
};

/* The content of an answer: JSON texts, owned by the caller. */
typedef struct ExecutorResult {
        char *content;    /* an array */
        char *structured; /* an object, or NULL */
        bool is_error;
} ExecutorResult;

typedef struct Executor {
        const char *tool; /* NULL: several */
        /* Checks the arguments and the right to them; sets call->execution. */
        int (*prepare)(Call *call, const JsonDoc *doc, const JsonNode *arguments, char **ret_text);
        /* Begins. From here on call_finish() comes exactly once, but not from inside. */
        int (*start)(Call *call, char **ret_text);
        /* Ends the work, with grace or at once. */
        void (*stop)(Call *call, bool grace);
        /* Holds back the stream of output, or lets it go on. */
        void (*pause)(Call *call, bool pause);
        int (*finish)(Call *call, ExecutorResult *ret_result);
        /* How it ended, for the audit log. What it points to is the call's. */
        void (*describe)(const Call *call, AuditEnd *end);
        void (*free)(Call *call);
} Executor;

/* NULL: no such tool. */
const Executor *route_find(const Policy *policy, const char *tool);
