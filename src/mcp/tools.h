/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tools as their clients see them: name, description, schemas, hints. Those that are built in, and
 * the operations that a policy makes tools of. */

#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"
#include "mcp/revision.h"
#include "policy/policy.h"

#define TOOL_SANDBOX_EXEC "sandbox_exec"
#define TOOL_OPERATIONS_LIST "operations_list"
#define TOOL_TEMPLATE_DEFAULT "host"

/* The JSON array of tools, one text for each revision, made once: listing is deterministic. */
typedef struct Tools {
        char *json[_MCP_REVISION_MAX];
        StrV names; /* of all tools that there are, also of those that are not listed */
} Tools;

Tools *tools_free(Tools *tools);
DEFINE_CLEANUP(Tools, tools_free);
/* policy NULL: those that are built in alone. */
int tools_new(const Policy *policy, Tools **ret_tools);

/* Whether they are listed alike in every revision. */
bool tools_equal(const Tools *a, const Tools *b);

bool tools_have(const Tools *tools, const char *name);
/* What the policy has to know of a tool, or NULL: there is none of that name. */
const ToolRights *tools_rights(const Policy *policy, const char *name);
/* The i-th of all, those that are built in first; NULL behind the last. policy may be NULL. */
const ToolRights *tools_rights_at(const Policy *policy, size_t i);
