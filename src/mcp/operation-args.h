/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The arguments of a tool that is an operation: from the JSON of a call to the one request that it
 * stands for. What stands in the request is built from the menu and from values that were checked,
 * by what agentcrate-egress builds its own from, which checks them again.
 */

#include "basic/json-scan.h"
#include "policy/operation.h"

typedef struct OperationArgs {
        StrBuf target; /* path and query */
        StrBuf body;
        char *type; /* of the content; NULL: there is none */
} OperationArgs;

enum {
        _OPERATION_ARGS_E_SUCCESS,
        OPERATION_ARGS_E_INVALID, /* ret_text tells which, and what it may be */
};

/* arguments may be NULL. 0, OPERATION_ARGS_E_INVALID or -ENOMEM. */
int operation_args_parse(const Operation *operation, const JsonDoc *doc, const JsonNode *arguments,
                         OperationArgs *ret_args, char **ret_text);
void operation_args_done(OperationArgs *args);
