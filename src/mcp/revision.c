/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/revision.h"

#include <stddef.h>

#include "basic/string-util.h"

static const char *const revision_names[_MCP_REVISION_MAX] = {
        [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25",
        [MCP_2026_07_28] = "2026-07-28",
};

const char *mcp_revision_to_string(McpRevision revision) {
        return revision >= 0 && revision < _MCP_REVISION_MAX ? revision_names[revision] : NULL;
}

McpRevision mcp_revision_from_string(const char *s) {
        for (size_t i = 0; i < ELEMENTSOF(revision_names); i++)
                if (string_equal(revision_names[i], s))
                        return (McpRevision) i;
        return _MCP_REVISION_INVALID;
}
