/* SPDX-License-Identifier: Apache-2.0 */

/* $ref: JSON pointers (RFC 6901) within the schema, and that following them comes to an end. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "schema/equal.h"
#include "schema/schema-node.h"

#define REMEDY "define it below $defs and refer by \"#/$defs/NAME\""

static int fault_ref(const Schema *schema, DiagList *diags, const JsonNode *at, const char *text) {
        _cleanup_(freep) char *value = NULL;

        value = schema_excerpt(schema, at);
        if (!value)
                return error_origin(-ENOMEM);
        return schema_fault(schema, diags, at, "%s %s", value, text);
}

/* --- pointers --- */

static int hex_digit(char c) {
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

/* One character of a pointer in a fragment, percent-encoded or not; -1 if it is none. */
static int take_byte(const char **p, const char *end) {
        int high, low;

        if (**p != '%')
                return (unsigned char) *(*p)++;
        if (end - *p < 3)
                return -1;
        high = hex_digit((*p)[1]);
        low = hex_digit((*p)[2]);
        *p += 3;
        return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* The next part of a pointer, behind its slash. False if it is malformed. */
static bool take_part(const char **p, const char *end, char *part, size_t *ret_size) {
        size_t n = 0;

        for ((*p)++; *p < end && **p != '/';) {
                int c = take_byte(p, end);

                if (c == '~') {
                        c = *p < end ? take_byte(p, end) : -1;
                        c = c == '0' ? '~' : c == '1' ? '/' : -1;
                }
                if (c < 0)
                        return false;
                part[n++] = (char) c;
        }
        *ret_size = n;
        return true;
}

static const JsonNode *child_by_index(const JsonNode *node, const char *part, size_t size) {
        const JsonNode *child = node->first;
        size_t index = 0;

        if (size == 0 || size > 6 || (part[0] == '0' && size > 1))
                return NULL;
        for (size_t i = 0; i < size; i++) {
                if (part[i] < '0' || part[i] > '9')
                        return NULL;
                index = index * 10 + (size_t) (part[i] - '0');
        }
        while (child && index-- > 0)
                child = child->next;
        return child;
}

static const JsonNode *child_by_name(const JsonDoc *doc, const JsonNode *node, const char *part,
                                     size_t size) {
        for (const JsonNode *child = node->first; child; child = child->next) {
                size_t key_size;
                const char *key = json_node_key_bytes(doc, child, &key_size);

                if (key_size == size && memcmp(key, part, size) == 0)
                        return child;
        }
        return NULL;
}

enum {
        _POINTER_E_SUCCESS,
        POINTER_E_SYNTAX,
        POINTER_E_NOTHING, /* it leads nowhere */
};

/* Follows the fragment of a reference, which begins with '#'. buffer has room for all of it. */
static int follow(const JsonDoc *doc, const JsonText *fragment, char *buffer,
                  const JsonNode **ret_node) {
        const char *p = fragment->data + 1, *end = fragment->data + fragment->size;
        const JsonNode *node = json_doc_root(doc);

        while (p < end) {
                size_t size;

                if (*p != '/' || !take_part(&p, end, buffer, &size))
                        return POINTER_E_SYNTAX;
                if (node)
                        node = node->type == JSON_NODE_ARRAY
                                       ? child_by_index(node, buffer, size)
                                       : child_by_name(doc, node, buffer, size);
        }
        *ret_node = node;
        return node ? 0 : POINTER_E_NOTHING;
}

/* --- resolving --- */

static int node_compare(const void *key, const void *element) {
        const JsonNode *at = key;
        const SchemaNode *const *node = element;

        return at->offset < (*node)->at->offset ? -1 : at->offset > (*node)->at->offset;
}

static int resolve_one(const Schema *schema, DiagList *diags, SchemaNode *node) {
        const JsonNode *at, *target = NULL;
        _cleanup_(json_text_done) JsonText text = {};
        _cleanup_(freep) char *buffer = NULL;
        SchemaNode **found;
        int r;

        at = json_node_member(schema->doc, node->at, keyword_to_string(KEYWORD_REF));
        r = json_text_get((JsonValue){schema->doc, at}, &text);
        if (r < 0)
                return error_trace(r);
        if (text.size == 0 || text.data[0] != '#')
                return fault_ref(schema, diags, at, "leads out of the schema; " REMEDY);

        buffer = malloc(text.size);
        if (!buffer)
                return error_origin(-ENOMEM);
        r = follow(schema->doc, &text, buffer, &target);
        if (r == POINTER_E_SYNTAX)
                return fault_ref(schema, diags, at, "is no JSON pointer; " REMEDY);
        if (r == POINTER_E_NOTHING)
                return fault_ref(schema, diags, at, "leads to nothing; " REMEDY);

        found = bsearch(target, schema->nodes, schema->n_nodes, sizeof(SchemaNode *), node_compare);
        /* The first value in a container begins behind it, so that no two begin at one place. */
        if (!found)
                return fault_ref(schema, diags, at, "leads to what is no schema; " REMEDY);
        node->reference = *found;
        return 0;
}

/* --- loops --- */

typedef struct Search {
        const Schema *schema;
        DiagList *diags;
        const JsonNode *last; /* the reference that was followed last */
} Search;

static int search_loop(Search *search, SchemaNode *node);

static int search_list(Search *search, const SchemaList *list) {
        int r = 0;

        for (size_t i = 0; i < list->n_nodes && r == 0; i++)
                r = search_loop(search, (SchemaNode *) list->nodes[i]);
        return r;
}

/* Goes wherever the check of a value goes on with the same value. Each schema is entered once, so
 * that this is as deep as there are schemas at most. */
static int search_loop(Search *search, SchemaNode *node) {
        const JsonNode *last = search->last;
        int r;

        if (!node || node->loop == LOOP_NONE)
                return 0;
        if (node->loop == LOOP_OPEN)
                return fault_ref(search->schema, search->diags, last,
                                 "leads back to itself before anything was looked at; let the way "
                                 "pass through properties or items, or leave it out");

        node->loop = LOOP_OPEN;
        r = search_list(search, &node->all_of);
        if (r == 0)
                r = search_list(search, &node->any_of);
        if (r == 0)
                r = search_list(search, &node->one_of);
        if (r == 0)
                r = search_loop(search, (SchemaNode *) node->negated);
        if (r == 0 && node->reference) {
                search->last = json_node_member(search->schema->doc, node->at,
                                                keyword_to_string(KEYWORD_REF));
                r = search_loop(search, (SchemaNode *) node->reference);
                search->last = last;
        }
        node->loop = LOOP_NONE;
        return r;
}

int schema_resolve(Schema *schema, DiagList *diags) {
        Search search = {.schema = schema, .diags = diags};
        int r = 0;

        for (size_t i = 0; i < schema->n_nodes && r == 0; i++)
                if (schema_node_has(schema->nodes[i], KEYWORD_REF))
                        r = resolve_one(schema, diags, schema->nodes[i]);
        for (size_t i = 0; i < schema->n_nodes && r == 0; i++)
                r = search_loop(&search, schema->nodes[i]);
        return error_trace(r);
}
