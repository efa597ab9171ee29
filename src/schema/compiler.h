/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What compile.c and compile-value.c share. */

#include "schema/schema-node.h"

typedef struct Compiler {
        Schema *schema;
        DiagList *diags;
        size_t depth;
        bool full; /* it was already said that there are too many schemas */
} Compiler;

#define compiler_fault(compiler, node, ...)                                                        \
        schema_fault((compiler)->schema, (compiler)->diags, (node), __VA_ARGS__)

/* A fault that begins with the value as the file has it. 0 or -ENOMEM, as all of these. */
int compiler_fault_value(const Compiler *compiler, const JsonNode *node, const char *text);
/* Whether it is a list with as many entries as may be; else that was said. */
int compiler_check_list(const Compiler *compiler, const JsonNode *node, size_t min, bool *ret_good);

typedef int (*CompilerRead)(Compiler *compiler, const JsonNode *value, SchemaNode *target);

/* Of the keywords whose value holds no schema; NULL for the others. */
extern const CompilerRead compiler_value_readers[_KEYWORD_MAX];
