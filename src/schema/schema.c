/* SPDX-License-Identifier: Apache-2.0 */

/* What compiling, checking and narrowing share. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "schema/schema-node.h"

const char *keyword_to_string(Keyword keyword) {
        static const char *const names[] = {
                [KEYWORD_TYPE] = "type",
                [KEYWORD_ENUM] = "enum",
                [KEYWORD_CONST] = "const",
                [KEYWORD_MINIMUM] = "minimum",
                [KEYWORD_MAXIMUM] = "maximum",
                [KEYWORD_EXCLUSIVE_MINIMUM] = "exclusiveMinimum",
                [KEYWORD_EXCLUSIVE_MAXIMUM] = "exclusiveMaximum",
                [KEYWORD_MULTIPLE_OF] = "multipleOf",
                [KEYWORD_MIN_LENGTH] = "minLength",
                [KEYWORD_MAX_LENGTH] = "maxLength",
                [KEYWORD_PATTERN] = "pattern",
                [KEYWORD_ITEMS] = "items",
                [KEYWORD_MIN_ITEMS] = "minItems",
                [KEYWORD_MAX_ITEMS] = "maxItems",
                [KEYWORD_UNIQUE_ITEMS] = "uniqueItems",
                [KEYWORD_PROPERTIES] = "properties",
                [KEYWORD_REQUIRED] = "required",
                [KEYWORD_ADDITIONAL_PROPERTIES] = "additionalProperties",
                [KEYWORD_ALL_OF] = "allOf",
                [KEYWORD_ANY_OF] = "anyOf",
                [KEYWORD_ONE_OF] = "oneOf",
                [KEYWORD_NOT] = "not",
                [KEYWORD_REF] = "$ref",
                [KEYWORD_DEFS] = "$defs",
                [KEYWORD_DEFINITIONS] = "definitions",
                [KEYWORD_FALSE] = "false",
        };

        return names[keyword];
}

const char *value_type_to_string(unsigned type) {
        static const char *const names[] = {
                "null", "boolean", "integer", "number", "string", "array", "object",
        };

        return names[__builtin_ctz(type)];
}

/* --- names --- */

int name_compare(const void *a, const void *b) {
        const SchemaName *x = a, *y = b;

        if (x->size != y->size)
                return x->size < y->size ? -1 : 1;
        return memcmp(x->name, y->name, x->size);
}

const SchemaName *schema_node_name(const SchemaNode *node, const char *name, size_t size) {
        SchemaName wanted = {.name = name, .size = size};

        return node->n_names == 0 ? NULL
                                  : bsearch(&wanted, node->names, node->n_names, sizeof(SchemaName),
                                            name_compare);
}

/* --- destruction --- */

static void schema_node_free(SchemaNode *node) {
        for (size_t i = 0; i < node->n_names; i++)
                free(node->names[i].owned);
        free(node->names);
        free(node->all_of.nodes);
        free(node->any_of.nodes);
        free(node->one_of.nodes);
        pcre2_code_free(node->pattern);
        free(node);
}

Schema *schema_free(Schema *schema) {
        if (!schema)
                return NULL;

        for (size_t i = 0; i < schema->n_nodes; i++)
                schema_node_free(schema->nodes[i]);
        free(schema->nodes);
        json_doc_free(schema->doc);
        free(schema->text);
        free(schema->file);
        free(schema->path);
        free(schema);
        return NULL;
}

/* --- places --- */

void schema_place(const Schema *schema, const JsonNode *node, uint32_t *ret_line,
                  uint32_t *ret_column) {
        *ret_line = schema->line + node->line - 1;
        *ret_column = node->line == 1 ? schema->column + node->column - 1 : node->column;
}

char *schema_path(const Schema *schema, const JsonNode *node) {
        _cleanup_(freep) char *inner = NULL;
        char *path;

        inner = json_node_path(schema->doc, node);
        if (!inner || asprintf(&path, "%s%s%s", schema->path,
                               *schema->path && *inner && *inner != '[' ? "." : "", inner) < 0)
                return NULL;
        return path;
}

int schema_fault(const Schema *schema, DiagList *diags, const JsonNode *node, const char *format,
                 ...) {
        _cleanup_(freep) char *path = NULL, *text = NULL;
        uint32_t line, column;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0) {
                text = NULL;
                return error_origin(-ENOMEM);
        }

        path = schema_path(schema, node);
        if (!path)
                return error_origin(-ENOMEM);
        schema_place(schema, node, &line, &column);
        return error_trace(diag_add(diags, schema->file, line, column, path, "%s", text));
}

/* --- values --- */

int schema_append_compact(StrBuf *out, const JsonDoc *doc, const JsonNode *node) {
        const char *s = json_node_slice(doc, node);
        bool quoted = false;
        int r = 0;

        for (size_t i = 0; i < node->size && r == 0; i++) {
                if (quoted && s[i] == '\\') {
                        r = strbuf_append(out, s + i++, 2);
                        continue;
                }
                if (s[i] == '"')
                        quoted = !quoted;
                if (quoted || !strchr(" \t\r\n", s[i]))
                        r = strbuf_append_byte(out, s[i]);
        }
        return error_trace(r);
}

char *schema_excerpt(const Schema *schema, const JsonNode *node) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        if (schema_append_compact(&text, schema->doc, node) < 0)
                return NULL;
        return diag_excerpt(text.data, text.size);
}
