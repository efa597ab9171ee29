/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The answer to one request with a credential, as agentcrate-egress passes it on: bytes of HTTP
 * that end with the connection. It is believed no more than it must be. */

#include <jansson.h>

#include "broker/route.h"
#include "ipc/proto.h"
#include "policy/exposed.h"

#define OPERATION_HEAD_MAX (72U << 10)

typedef struct OperationAnswer {
        StrBuf head; /* until it is whole */
        size_t body_max;
        int status;      /* 0: the head is not whole yet */
        json_t *headers; /* names in lower case */
        StrBuf body;
} OperationAnswer;

enum {
        _OPERATION_ANSWER_E_SUCCESS,
        OPERATION_ANSWER_E_INVALID, /* it is no answer, or a longer one than there may be */
};

void operation_answer_done(OperationAnswer *answer);
/* Takes bytes; *ret_size is how many of them were content, which are the last ones. 0,
 * OPERATION_ANSWER_E_INVALID or -ENOMEM. */
int operation_answer_add(OperationAnswer *answer, const char *data, size_t size, size_t *ret_size);

/* How a call has ended. */
typedef struct OperationOutcome {
        const ExposedTool *tool;
        const OperationAnswer *answer;
        const EgressOperation *told; /* NULL: nothing was sent, or it is not known */
        const char *reason;          /* one word; NULL: the upstream has answered */
        const char *text;            /* the same in a sentence */
        uint64_t usec;
} OperationOutcome;

/* What the endpoint says of a refusal or a failure, out of its own content; owned by the caller.
 * NULL: nothing that is a sentence. */
char *operation_answer_text(const OperationAnswer *answer);
int operation_outcome_to_result(const OperationOutcome *outcome, ExecutorResult *ret_result);
