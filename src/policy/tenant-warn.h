/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a tenant says in vain. */

#include "policy/reader.h"
#include "policy/tenant.h"

/* Of a tenant that was read without a fault, and whose rules are sorted. 0 or a negative errno. */
int tenant_warn(const Reader *reader, const JsonNode *root, const Tenant *t);
