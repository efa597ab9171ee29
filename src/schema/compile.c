/* SPDX-License-Identifier: Apache-2.0 */

/* From JSON to a checked schema. A fault is added to the diagnostics and reading goes on, so that
 * one pass finds them all. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "schema/compiler.h"
#include "schema/equal.h"

static int compile_node(Compiler *compiler, const JsonNode *at, const SchemaNode **ret_node);

/* --- schemas within the schema --- */

static int read_items(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        if (value->type == JSON_NODE_ARRAY)
                return compiler_fault(
                        compiler, value,
                        "a list of schemas, one for each place, is not supported; give one "
                        "schema for all items");
        return compile_node(compiler, value, &target->items);
}

static int read_additional(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return compile_node(compiler, value, &target->additional);
}

static int read_not(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return compile_node(compiler, value, &target->negated);
}

static int read_schemas(Compiler *compiler, const JsonNode *value, SchemaList *list) {
        bool good;
        int r;

        r = compiler_check_list(compiler, value, 1, &good);
        if (r < 0 || !good)
                return error_trace(r);

        list->nodes = calloc(value->n_children, sizeof(SchemaNode *));
        if (!list->nodes)
                return error_origin(-ENOMEM);
        for (const JsonNode *child = value->first; child; child = child->next) {
                r = compile_node(compiler, child, &list->nodes[list->n_nodes++]);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int read_all_of(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_schemas(compiler, value, &target->all_of);
}

static int read_any_of(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_schemas(compiler, value, &target->any_of);
}

static int read_one_of(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_schemas(compiler, value, &target->one_of);
}

static int check_members(Compiler *compiler, const JsonNode *value, bool *ret_good) {
        *ret_good = false;
        if (value->type != JSON_NODE_OBJECT)
                return compiler_fault_value(compiler, value, "is no object ({…})");
        if (value->n_children > SCHEMA_ENTRIES_MAX)
                return compiler_fault(compiler, value, "%zu entries are more than %u",
                                      value->n_children, SCHEMA_ENTRIES_MAX);
        *ret_good = true;
        return 0;
}

static int read_defs(Compiler *compiler, const JsonNode *value, SchemaNode *target _unused_) {
        const SchemaNode *node;
        bool good;
        int r;

        r = check_members(compiler, value, &good);
        for (const JsonNode *child = good ? value->first : NULL; child && r == 0;
             child = child->next)
                r = compile_node(compiler, child, &node);
        return error_trace(r);
}

/* Room for more names, behind those that are there. */
static int grow_names(SchemaNode *target, size_t n) {
        SchemaName *names;

        names = reallocarray(target->names, target->n_names + n + 1, sizeof(SchemaName));
        if (!names)
                return error_origin(-ENOMEM);
        target->names = names;
        return 0;
}

static int read_properties(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;
        int r;

        r = check_members(compiler, value, &good);
        if (r < 0 || !good)
                return error_trace(r);
        r = grow_names(target, value->n_children);

        for (const JsonNode *child = value->first; child && r == 0; child = child->next) {
                SchemaName *name = &target->names[target->n_names++];

                *name = (SchemaName){};
                name->name = json_node_key_bytes(compiler->schema->doc, child, &name->size);
                r = compile_node(compiler, child, &name->schema);
        }
        return error_trace(r);
}

static int read_required_name(Compiler *compiler, const JsonNode *entry, SchemaNode *target) {
        SchemaName *name = &target->names[target->n_names];
        JsonText text;
        int r;

        if (entry->type != JSON_NODE_STRING)
                return compiler_fault_value(compiler, entry, "is no string");
        r = json_text_get((JsonValue){compiler->schema->doc, entry}, &text);
        if (r < 0)
                return error_trace(r);
        *name = (SchemaName){
                .name = text.data, .size = text.size, .owned = text.owned, .required = entry};
        target->n_names++;
        return 0;
}

static int read_required(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;
        int r;

        r = compiler_check_list(compiler, value, 0, &good);
        if (r < 0 || !good)
                return error_trace(r);
        r = grow_names(target, value->n_children);
        for (const JsonNode *entry = value->first; entry && r == 0; entry = entry->next)
                r = read_required_name(compiler, entry, target);
        return error_trace(r);
}

/* What properties and required say of the same name becomes one entry. */
static int merge_names(Compiler *compiler, SchemaNode *target) {
        size_t n = 0;
        int r = 0;

        if (target->n_names > 1)
                qsort(target->names, target->n_names, sizeof(SchemaName), name_compare);

        for (size_t i = 0; i < target->n_names; i++) {
                SchemaName *name = &target->names[i], *last = n > 0 ? &target->names[n - 1] : NULL;

                if (!last || name_compare(last, name) != 0) {
                        target->names[n++] = *name;
                        continue;
                }
                if (name->required && last->required && r == 0)
                        r = compiler_fault_value(compiler,
                                                 name->required->offset > last->required->offset
                                                         ? name->required
                                                         : last->required,
                                                 "stands twice; leave one out");
                last->schema = last->schema ?: name->schema;
                last->required = last->required ?: name->required;
                free(name->owned);
        }
        target->n_names = n;
        for (size_t i = 0; i < n; i++)
                target->n_required += target->names[i].required != NULL;
        return error_trace(r);
}

/* --- keywords --- */

/* Of the keywords whose value holds schemas, or names of members. */
static const CompilerRead schema_readers[_KEYWORD_MAX] = {
        [KEYWORD_ITEMS] = read_items,       [KEYWORD_PROPERTIES] = read_properties,
        [KEYWORD_REQUIRED] = read_required, [KEYWORD_ADDITIONAL_PROPERTIES] = read_additional,
        [KEYWORD_ALL_OF] = read_all_of,     [KEYWORD_ANY_OF] = read_any_of,
        [KEYWORD_ONE_OF] = read_one_of,     [KEYWORD_NOT] = read_not,
        [KEYWORD_DEFS] = read_defs,         [KEYWORD_DEFINITIONS] = read_defs,
};

/* They tell people something and constrain nothing. */
static const char *const annotations[] = {
        "title", "description", "default", "examples", "$schema", "$comment",
};

static int fault_keyword(const Compiler *compiler, const JsonNode *member, const char *name) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = diag_quote(name);

        if (!quoted)
                return error_origin(-ENOMEM);
        if (string_equal(name, "$id"))
                return compiler_fault(
                        compiler, member,
                        "$id is refused, since references stay within the schema: leave it "
                        "out, and refer by \"#/$defs/NAME\"");
        for (Keyword keyword = 0; keyword < _KEYWORD_MAX; keyword++)
                if (strbuf_appendf(&known, "%s%s",
                                   keyword == 0                  ? ""
                                   : keyword == _KEYWORD_MAX - 1 ? " and "
                                                                 : ", ",
                                   keyword_to_string(keyword)) < 0)
                        return error_origin(-ENOMEM);
        return compiler_fault(compiler, member, "unsupported keyword %s; supported are %s", quoted,
                              known.data);
}

static int read_member(Compiler *compiler, const JsonNode *member, SchemaNode *target) {
        _cleanup_(freep) char *name = NULL;
        CompilerRead read;
        int r;

        r = json_node_key(compiler->schema->doc, member, &name);
        if (r < 0)
                return error_trace(r);

        for (Keyword keyword = 0; keyword < _KEYWORD_MAX; keyword++)
                if (string_equal(name, keyword_to_string(keyword))) {
                        target->given |= 1U << keyword;
                        read = schema_readers[keyword] ?: compiler_value_readers[keyword];
                        return read(compiler, member, target);
                }
        for (size_t i = 0; i < ELEMENTSOF(annotations); i++)
                if (string_equal(name, annotations[i]))
                        return 0;
        return fault_keyword(compiler, member, name);
}

/* Draft 7 ignores what stands beside $ref, later drafts obey it: nobody shall have to know. */
static int check_ref_alone(const Compiler *compiler, const SchemaNode *target) {
        const uint32_t fitting = 1U << KEYWORD_REF | 1U << KEYWORD_DEFS | 1U << KEYWORD_DEFINITIONS;

        if (!schema_node_has(target, KEYWORD_REF) || !(target->given & ~fitting))
                return 0;
        return compiler_fault(
                compiler,
                json_node_member(compiler->schema->doc, target->at, keyword_to_string(KEYWORD_REF)),
                "$ref stands beside %s, which some readers would ignore: put both below allOf",
                keyword_to_string((Keyword) __builtin_ctz(target->given & ~fitting)));
}

/* --- one schema --- */

/* An empty one, in its place in the order of the text. */
static int add_node(Compiler *compiler, const JsonNode *at, SchemaNode **ret_node) {
        Schema *schema = compiler->schema;
        SchemaNode *node;

        if (schema->n_nodes == schema->n_nodes_max) {
                size_t n = schema->n_nodes_max > 0 ? schema->n_nodes_max * 2 : 4;
                SchemaNode **nodes = reallocarray(schema->nodes, n, sizeof(SchemaNode *));

                if (!nodes)
                        return error_origin(-ENOMEM);
                schema->nodes = nodes;
                schema->n_nodes_max = n;
        }

        node = malloc(sizeof(SchemaNode));
        if (!node)
                return error_origin(-ENOMEM);
        *node = (SchemaNode){.at = at};
        schema->nodes[schema->n_nodes++] = node;
        *ret_node = node;
        return 0;
}

static int compile_members(Compiler *compiler, const JsonNode *at, SchemaNode *target) {
        int r = 0;

        compiler->depth++;
        for (const JsonNode *member = at->first; member && r == 0; member = member->next)
                r = read_member(compiler, member, target);
        compiler->depth--;

        if (r == 0)
                r = merge_names(compiler, target);
        if (r == 0)
                r = check_ref_alone(compiler, target);
        return error_trace(r);
}

/* *ret_node stays as it is if there is none. */
static int compile_node(Compiler *compiler, const JsonNode *at, const SchemaNode **ret_node) {
        SchemaNode *node;
        int r;

        if (compiler->depth == SCHEMA_NESTING_MAX)
                return compiler_fault(compiler, at,
                                      "schemas stand deeper than %u within one another",
                                      SCHEMA_NESTING_MAX);
        if (compiler->schema->n_nodes == SCHEMA_NODES_MAX) {
                r = compiler->full ? 0
                                   : compiler_fault(compiler, at, "there are more than %u schemas",
                                                    SCHEMA_NODES_MAX);
                compiler->full = true;
                return error_trace(r);
        }
        if (at->type != JSON_NODE_OBJECT && at->type != JSON_NODE_TRUE &&
            at->type != JSON_NODE_FALSE)
                return compiler_fault_value(compiler, at,
                                            "is no schema; give an object ({…}), true or false");

        r = add_node(compiler, at, &node);
        if (r < 0)
                return error_trace(r);
        *ret_node = node;
        if (at->type == JSON_NODE_OBJECT)
                return compile_members(compiler, at, node);
        node->kind = at->type == JSON_NODE_TRUE ? SCHEMA_ANYTHING : SCHEMA_NOTHING;
        return 0;
}

/* --- the whole --- */

static int new_schema(const JsonDoc *doc, const JsonNode *node, const char *file,
                      Schema **ret_schema) {
        _cleanup_(schema_freep) Schema *schema = NULL;

        schema = malloc(sizeof(Schema));
        if (!schema)
                return error_origin(-ENOMEM);
        *schema = (Schema){
                .line = node->line,
                .column = node->column,
                .text = strndup(json_node_slice(doc, node), node->size),
                .path = json_node_path(doc, node),
                .file = file ? strdup(file) : NULL,
        };
        if (!schema->text || !schema->path || (file && !schema->file))
                return error_origin(-ENOMEM);
        *ret_schema = TAKE_PTR(schema);
        return 0;
}

static size_t n_faults(const DiagList *diags) {
        return diags->n_items + diags->n_dropped;
}

int schema_compile(const JsonDoc *doc, const JsonNode *node, const char *file, DiagList *diags,
                   Schema **ret_schema) {
        _cleanup_(schema_freep) Schema *schema = NULL;
        size_t n_before = n_faults(diags);
        const SchemaNode *whole;
        Compiler compiler;
        JsonError error;
        int r;

        r = new_schema(doc, node, file, &schema);
        if (r < 0)
                return error_trace(r);
        /* A part of a text that was scanned is a text. */
        r = json_scan(schema->text, node->size, &schema->doc, &error);
        if (r != 0)
                return error_fold(r);

        compiler = (Compiler){.schema = schema, .diags = diags};
        if (node->size > SCHEMA_SIZE_MAX)
                r = compiler_fault(&compiler, json_doc_root(schema->doc),
                                   "a schema of %zu bytes is larger than %u", node->size,
                                   SCHEMA_SIZE_MAX);
        else
                r = compile_node(&compiler, json_doc_root(schema->doc), &whole);
        if (r == 0)
                r = schema_resolve(schema, diags);
        if (r < 0)
                return error_trace(r);
        if (n_faults(diags) != n_before)
                return SCHEMA_E_INVALID;

        *ret_schema = TAKE_PTR(schema);
        return 0;
}
