/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What compile.c builds and check.c reads; nobody else looks into it. */

#include <stdbool.h>

#include "schema/number.h"
#include "schema/pattern.h"
#include "schema/schema.h"

typedef enum Keyword {
        KEYWORD_TYPE,
        KEYWORD_ENUM,
        KEYWORD_CONST,
        KEYWORD_MINIMUM,
        KEYWORD_MAXIMUM,
        KEYWORD_EXCLUSIVE_MINIMUM,
        KEYWORD_EXCLUSIVE_MAXIMUM,
        KEYWORD_MULTIPLE_OF,
        KEYWORD_MIN_LENGTH,
        KEYWORD_MAX_LENGTH,
        KEYWORD_PATTERN,
        KEYWORD_ITEMS,
        KEYWORD_MIN_ITEMS,
        KEYWORD_MAX_ITEMS,
        KEYWORD_UNIQUE_ITEMS,
        KEYWORD_PROPERTIES,
        KEYWORD_REQUIRED,
        KEYWORD_ADDITIONAL_PROPERTIES,
        KEYWORD_ALL_OF,
        KEYWORD_ANY_OF,
        KEYWORD_ONE_OF,
        KEYWORD_NOT,
        KEYWORD_REF,
        KEYWORD_DEFS,
        KEYWORD_DEFINITIONS,
        _KEYWORD_MAX,
        KEYWORD_FALSE = _KEYWORD_MAX, /* no keyword: the schema false */
} Keyword;

/* "false" for KEYWORD_FALSE. */
const char *keyword_to_string(Keyword keyword);

/* Types of values, as a set. */
enum {
        VALUE_NULL = 1 << 0,
        VALUE_BOOLEAN = 1 << 1,
        VALUE_INTEGER = 1 << 2, /* a number that is whole */
        VALUE_NUMBER = 1 << 3,  /* any number */
        VALUE_STRING = 1 << 4,
        VALUE_ARRAY = 1 << 5,
        VALUE_OBJECT = 1 << 6,
        _VALUE_MAX = 1 << 7,
};

/* Of one bit. */
const char *value_type_to_string(unsigned type);

typedef struct SchemaNode SchemaNode;

typedef struct SchemaList {
        const SchemaNode **nodes;
        size_t n_nodes;
} SchemaList;

/* A member that properties or required names. */
typedef struct SchemaName {
        const char *name;
        size_t size;
        char *owned;              /* name, if it is not the document's */
        const SchemaNode *schema; /* NULL if properties does not name it */
        const JsonNode *required; /* the entry of required, or NULL */
} SchemaName;

struct SchemaNode {
        const JsonNode *at;
        enum {
                SCHEMA_RULES,
                SCHEMA_ANYTHING,
                SCHEMA_NOTHING,
        } kind;
        uint32_t given; /* one bit a keyword */
        unsigned types; /* VALUE_X */

        const JsonNode *enumeration, *constant;
        Number minimum, maximum, exclusive_minimum, exclusive_maximum;
        Divisor multiple_of;
        uint64_t min_length, max_length, min_items, max_items;
        pcre2_code *pattern;
        bool unique_items;

        const SchemaNode *items, *additional, *negated, *reference;
        SchemaList all_of, any_of, one_of;
        SchemaName *names; /* sorted by name_compare() */
        size_t n_names, n_required;

        enum {
                LOOP_UNSEEN,
                LOOP_OPEN,
                LOOP_NONE,
        } loop; /* only while it is compiled */
};

struct Schema {
        char *text;
        JsonDoc *doc;
        char *file;
        char *path; /* key path of the schema in its file */
        uint32_t line, column;
        SchemaNode **nodes; /* in the order of the text; the first is the whole */
        size_t n_nodes, n_nodes_max;
};

static inline bool schema_node_has(const SchemaNode *node, Keyword keyword) {
        return node->given & (1U << keyword);
}

/* By size, then by bytes. */
int name_compare(const void *a, const void *b);
const SchemaName *schema_node_name(const SchemaNode *node, const char *name, size_t size);

/* The place in the file of something in the schema's own document. */
void schema_place(const Schema *schema, const JsonNode *node, uint32_t *ret_line,
                  uint32_t *ret_column);
/* Its key path; owned by the caller, NULL if out of memory. */
char *schema_path(const Schema *schema, const JsonNode *node);

_printf_(4, 5) int schema_fault(const Schema *schema, DiagList *diags, const JsonNode *node,
                                const char *format, ...);

/* A value without the spaces and line breaks between its parts. 0 or -ENOMEM. */
int schema_append_compact(StrBuf *out, const JsonDoc *doc, const JsonNode *node);
/* The same of the schema's own text, as diag_excerpt() has it. */
char *schema_excerpt(const Schema *schema, const JsonNode *node);

/* Resolves all references, and finds those that lead to themselves. 0 or -ENOMEM. */
int schema_resolve(Schema *schema, DiagList *diags);
