/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Puts a refusal into words. */

#include "schema/schema-node.h"

typedef struct Refusal {
        const SchemaNode *node;
        Keyword keyword;
        const JsonNode *value;   /* that was refused */
        const JsonNode *missing; /* the entry of required that it lacks */
        const char *given_up;    /* why it was not checked to the end: what follows "must" */
} Refusal;

/* whole is the value that was to be checked. 0 or -ENOMEM. */
int reason_make(const Schema *schema, const JsonDoc *doc, const JsonNode *whole,
                const Refusal *refusal, SchemaReason *ret_reason);
