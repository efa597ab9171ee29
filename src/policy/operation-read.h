/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a menu: the key "operations" of a credential, in its file and in what agentcrate-egress is
 * told of a job. */

#include "policy/operation.h"
#include "policy/reader.h"

#define OPERATION_BODY_SIZE_MAX (16ULL << 20)
#define OPERATION_BODY_SIZE_DEFAULT (64ULL << 10)
#define OPERATION_RESPONSE_MAX (1ULL << 30)
#define OPERATION_RESPONSE_DEFAULT (1ULL << 20)

/* Into an empty menu, which is sorted then. 0 or -ENOMEM. */
int operation_menu_read(const Reader *reader, const JsonNode *node, OperationMenu *menu);
/* The keys of one operation, those of nested objects as "body.kind". */
int operation_key_names(StrV *names);
