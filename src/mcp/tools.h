/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The built-in tools as their clients see them: name, description, schemas, hints. */

#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"
#include "mcp/revision.h"
#include "policy/evaluate.h"

#define TOOL_SANDBOX_EXEC "sandbox_exec"
#define TOOL_TEMPLATE_DEFAULT "host"

/* The JSON array of tools, one text for each revision, made once: listing is deterministic. */
typedef struct Tools {
        char *json[_MCP_REVISION_MAX];
} Tools;

Tools *tools_free(Tools *tools);
DEFINE_CLEANUP(Tools, tools_free);
int tools_new(Tools **ret_tools);

/* Whether they are listed alike in every revision. */
bool tools_equal(const Tools *a, const Tools *b);

bool tools_have(const char *name);
/* What the policy has to know of a tool, or NULL. */
const ToolRights *tools_rights(const char *name);
/* The i-th of all; NULL behind the last. */
const ToolRights *tools_rights_at(size_t i);
