/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a job was refused, as its record has it. */

#include <jansson.h>
#include <stddef.h>

#include "crate/result.h"
#include "plan/plan.h"

#define DENIED_MAX 100U
/* A line for each of the first connections, and one for the rest of each destination. */
#define REACHED_MAX (100U + PLAN_LISTENS_MAX)

/* The list of a report of agentcrate-egress, without what is no entry of one. NULL: it is no
 * report, or there is no memory. */
json_t *denied_from_report(const void *data, size_t size);
/* The connections of such a report, in its own form, bounded; the same. */
json_t *reached_from_report(const void *data, size_t size);
/* The member of the record. NULL: no memory. */
json_t *denied_to_json(const CrateResult *result);
