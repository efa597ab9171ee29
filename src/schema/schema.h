/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON Schema as constraints on the arguments of a call.
 *
 * A subset that can be read in one sitting and bounded in what it costs. Whoever writes a
 * constraint means to forbid something, so that nothing is ever passed over: a keyword that is not
 * known here, a reference that leads out of the schema, and keywords beside a reference (which one
 * draft ignores and another obeys) are errors when the schema is loaded.
 *
 *   type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
 *   minLength maxLength pattern items (one schema) minItems maxItems uniqueItems
 *   properties required additionalProperties allOf anyOf oneOf not $ref $defs definitions
 *
 * with the meaning of draft 7, in which later drafts agree; title, description, default, examples,
 * $schema and $comment say nothing. A compiled schema never changes; it keeps a copy of its text,
 * and needs neither the document nor the file that it came from.
 *
 * A check that would cost more than it may refuses. There is no outcome in which a value that was
 * not checked to the end is allowed.
 */

#include <stddef.h>
#include <stdint.h>

#include "basic/diag.h"
#include "basic/json-scan.h"
#include "basic/macros.h"
#include "basic/string-util.h"

#define SCHEMA_SIZE_MAX (256U << 10) /* bytes of its text */
#define SCHEMA_NESTING_MAX 32U       /* schemas within one another */
#define SCHEMA_NODES_MAX 4096U       /* schemas in all */
#define SCHEMA_ENTRIES_MAX 1024U     /* of one list or of one properties */
/* Schemas that wait for one another while a value is checked, references included. */
#define SCHEMA_CHECK_DEPTH_MAX 256U

typedef struct Schema Schema;

enum {
        _SCHEMA_E_SUCCESS,
        SCHEMA_E_INVALID, /* of schema_compile(): the diagnostics tell */
        SCHEMA_E_REFUSED, /* of schema_check(): the reason tells */
};

Schema *schema_free(Schema *schema);
DEFINE_CLEANUP(Schema, schema_free);

/*
 * Compiles the schema that stands at node. file is its name in diagnostics and reasons. Every fault
 * is added to diags. 0, SCHEMA_E_INVALID or -ENOMEM.
 */
int schema_compile(const JsonDoc *doc, const JsonNode *node, const char *file, DiagList *diags,
                   Schema **ret_schema);

/* Why a value was refused: the first keyword, in a fixed order, that refuses it. */
typedef struct SchemaReason {
        char *path;          /* of the part of the value, cut and escaped; "" for all of it */
        const char *keyword; /* that refused it; "false" for the schema that allows nothing, "limit"
                                for what may be spent on one check */
        char *allowed;       /* what follows "must", from the schema only: no part of the value */
        char *rule;          /* key path of the keyword in its file */
        char *file;          /* NULL if it has none */
        uint32_t line, column;
} SchemaReason;

#define SCHEMA_REASON_NULL ((SchemaReason){})

void schema_reason_done(SchemaReason *reason);
/* "limits.pids must be at most 64 (owner.json:9:54: maximum)"; what names the value if it is
 * refused as a whole. Owned by the caller, NULL if out of memory. */
char *schema_reason_text(const SchemaReason *reason, const char *what);

/* Checks a value; NULL stands for an object without members, which is what a call without arguments
 * means. 0, SCHEMA_E_REFUSED or a negative errno, with which nothing is allowed either. */
int schema_check(const Schema *schema, const JsonDoc *doc, const JsonNode *value,
                 SchemaReason *ret_reason);

/*
 * The schema that a tool is listed with, narrowed by a constraint on the same arguments, so that a
 * client can see what would be refused. What properties.NAME of the constraint says by enum, const,
 * minimum, maximum, maxLength and pattern is merged into properties.NAME of the listed one, if that
 * has such a member, and only to make it narrower; all else is given back byte for byte. The result
 * has no line break if listed has none. 0, -EINVAL if listed is no JSON, or -ENOMEM.
 */
int schema_narrow(const Schema *constraint, const char *listed, size_t size, StrBuf *ret_narrowed);
