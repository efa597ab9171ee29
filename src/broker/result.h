/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a result record to the answer of a tool call: text for the model, and the record itself. */

#include <jansson.h>

#include "broker/route.h"
#include "crate/result.h"

/* lost_text: the job was ended by the broker for this reason; NULL: it ended by itself. */
int result_to_answer(const CrateResult *result, const char *lost_text, ExecutorResult *ret_answer);
/* The same for the audit log; what it points to is the result's. */
void result_to_audit(const CrateResult *result, bool lost, AuditEnd *end);
/* What the job reached or was not let reach, for the audit log; it points into the result and into
 * list. */
typedef struct ResultEgress {
        AuditEgress *items;
        size_t n_items;
        json_t *list;
} ResultEgress;

int result_to_egress(const CrateResult *result, ResultEgress *ret_egress);
void result_egress_done(ResultEgress *egress);
/* An error as one sentence with its remedy; owned by the caller, NULL if out of memory. */
char *result_error_text(const CrateError *error);
