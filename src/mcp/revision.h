/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The revisions of MCP that are spoken. Up to 2025-11-25 a connection begins with initialize, which
 * settles the revision; from 2026-07-28 on each request names it.
 */

#include <stdbool.h>

typedef enum McpRevision {
        MCP_2024_11_05,
        MCP_2025_03_26,
        MCP_2025_06_18,
        MCP_2025_11_25,
        MCP_2026_07_28,
        _MCP_REVISION_MAX,
        _MCP_REVISION_INVALID = -1,
} McpRevision;

#define MCP_REVISION_LEGACY_LATEST MCP_2025_11_25
#define MCP_REVISION_LATEST MCP_2026_07_28

const char *mcp_revision_to_string(McpRevision revision);
McpRevision mcp_revision_from_string(const char *s);

/* Each request stands by itself and results say what they are. */
static inline bool mcp_revision_modern(McpRevision revision) {
        return revision >= MCP_2026_07_28;
}

static inline bool mcp_revision_has_batches(McpRevision revision) {
        return revision == MCP_2025_03_26;
}

static inline bool mcp_revision_has_annotations(McpRevision revision) {
        return revision >= MCP_2025_03_26;
}

/* Progress notifications may carry a text. */
static inline bool mcp_revision_has_progress_text(McpRevision revision) {
        return revision >= MCP_2025_03_26;
}

/* structuredContent, outputSchema, title */
static inline bool mcp_revision_has_structured(McpRevision revision) {
        return revision >= MCP_2025_06_18;
}
