/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The requests with credentials that a job has made, as its record has them: how many had the same
 * operation, status and reason. */

#include <jansson.h>

#include "ipc/proto.h"

#define CALLED_MAX 100U

/* Counts one more in the list, which is made if there is none. What is new when the list is full is
 * counted in one entry without an operation. Without memory it is not counted. */
void called_add(json_t **list, const EgressOperation *operation);
