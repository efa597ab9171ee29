/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tools as each tenant sees them under one policy: what a tenant can never call is not listed,
 * and what its arguments must be like shows in the schema. Made when it is first asked for, and
 * shared by all who see everything as it is.
 */

#include "mcp/tools.h"
#include "policy/policy.h"

typedef struct Catalogue Catalogue;

/* Keeps the policy. */
int catalogue_new(Policy *policy, Catalogue **ret_catalogue);
Catalogue *catalogue_free(Catalogue *catalogue);
DEFINE_CLEANUP(Catalogue, catalogue_free);

/* All tools that there are, whoever may see them. */
const Tools *catalogue_all(const Catalogue *catalogue);
/* tenant is one of the policy's, or NULL for nobody. *ret_tools is the catalogue's. */
int catalogue_get(Catalogue *catalogue, const Tenant *tenant, const Tools **ret_tools);
