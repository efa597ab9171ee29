/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Narrows the schema that a tool is listed with. It is a change of the text and not of a tree: what
 * another server said of its tools is passed on as it was said.
 */

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "schema/equal.h"
#include "schema/schema-node.h"

static const Keyword merged[] = {
        KEYWORD_ENUM,    KEYWORD_CONST,      KEYWORD_MINIMUM,
        KEYWORD_MAXIMUM, KEYWORD_MAX_LENGTH, KEYWORD_PATTERN,
};

typedef struct Narrow {
        const Schema *constraint;
        const char *text;
        const JsonDoc *doc; /* of text */
        size_t copied;      /* so many bytes of text are done */
        StrBuf out;
} Narrow;

/* Gives back text up to there, and leaves out what is replaced. */
static int copy_until(Narrow *narrow, size_t offset, size_t skip) {
        int r;

        r = strbuf_append(&narrow->out, narrow->text + narrow->copied, offset - narrow->copied);
        if (r == 0)
                narrow->copied = offset + skip;
        return error_trace(r);
}

/* Whether the constraint's bound leaves less than the listed one. */
static bool is_narrower(const Narrow *narrow, Keyword keyword, const JsonNode *listed,
                        const JsonNode *wanted) {
        Number a, b;
        int order;

        if (listed->type != JSON_NODE_NUMBER ||
            number_parse(json_node_slice(narrow->doc, listed), listed->size, &a) != 0 ||
            number_parse(json_node_slice(narrow->constraint->doc, wanted), wanted->size, &b) != 0)
                return false;
        order = number_compare(&b, &a);
        return keyword == KEYWORD_MINIMUM ? order > 0 : order < 0;
}

static int is_among(const Narrow *narrow, const JsonNode *entry, const JsonNode *choices,
                    Effort *effort, bool *ret_among) {
        bool equal = false;
        int r = 0;

        for (const JsonNode *choice = choices->first; choice && r == 0 && !equal;
             choice = choice->next)
                r = json_value_equal(effort, (JsonValue){narrow->doc, entry},
                                     (JsonValue){narrow->constraint->doc, choice}, &equal);
        *ret_among = equal;
        return r;
}

/* The entries that are in both, into text; empty if there are none or they cannot be told. */
static int intersect(const Narrow *narrow, const JsonNode *listed, const JsonNode *wanted,
                     StrBuf *text) {
        Effort effort = EFFORT_INIT;
        bool among;
        int r = 0;

        for (const JsonNode *entry = listed->first; entry; entry = entry->next) {
                r = is_among(narrow, entry, wanted, &effort, &among);
                if (r < 0)
                        return error_trace(r);
                if (r > 0) {
                        strbuf_consume(text, text->size);
                        return 0;
                }
                if (!among)
                        continue;
                r = strbuf_append_byte(text, text->size == 0 ? '[' : ',');
                if (r == 0)
                        r = schema_append_compact(text, narrow->doc, entry);
                if (r < 0)
                        return error_trace(r);
        }
        return text->size > 0 ? strbuf_append_byte(text, ']') : 0;
}

/* A keyword that both have. What would need both at once, as two patterns would, stays as it was
 * listed: it is enforced all the same. */
static int merge_value(Narrow *narrow, Keyword keyword, const JsonNode *listed,
                       const JsonNode *wanted) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r = 0;

        if (keyword == KEYWORD_ENUM && listed->type == JSON_NODE_ARRAY)
                r = intersect(narrow, listed, wanted, &text);
        else if (keyword != KEYWORD_ENUM && keyword != KEYWORD_CONST &&
                 keyword != KEYWORD_PATTERN && is_narrower(narrow, keyword, listed, wanted))
                r = schema_append_compact(&text, narrow->constraint->doc, wanted);
        if (r < 0 || text.size == 0)
                return error_trace(r);

        r = copy_until(narrow, listed->offset, listed->size);
        return r < 0 ? error_trace(r)
                     : error_trace(strbuf_append(&narrow->out, text.data, text.size));
}

static const JsonNode *constraint_member(const Narrow *narrow, const SchemaNode *node,
                                         Keyword keyword) {
        return json_node_member(narrow->constraint->doc, node->at, keyword_to_string(keyword));
}

static int merge_members(Narrow *narrow, const JsonNode *property, const SchemaNode *wanted,
                         uint32_t *ret_seen) {
        uint32_t seen = 0;
        int r = 0;

        for (const JsonNode *member = property->first; member && r == 0; member = member->next)
                for (size_t i = 0; i < ELEMENTSOF(merged) && r == 0; i++) {
                        const char *name = keyword_to_string(merged[i]);
                        size_t size;
                        const char *key = json_node_key_bytes(narrow->doc, member, &size);

                        if (size != strlen(name) || memcmp(key, name, size) != 0)
                                continue;
                        seen |= 1U << merged[i];
                        if (schema_node_has(wanted, merged[i]))
                                r = merge_value(narrow, merged[i], member,
                                                constraint_member(narrow, wanted, merged[i]));
                }
        *ret_seen = seen;
        return error_trace(r);
}

static int merge_property(Narrow *narrow, const JsonNode *property, const SchemaNode *wanted) {
        bool empty = !property->first;
        uint32_t seen;
        int r;

        r = merge_members(narrow, property, wanted, &seen);
        for (size_t i = 0; i < ELEMENTSOF(merged) && r == 0; i++) {
                if (!schema_node_has(wanted, merged[i]) || seen & 1U << merged[i])
                        continue;
                r = copy_until(narrow, property->offset + property->size - 1, 0);
                if (r == 0)
                        r = strbuf_appendf(&narrow->out, "%s\"%s\":", empty ? "" : ",",
                                           keyword_to_string(merged[i]));
                if (r == 0)
                        r = schema_append_compact(&narrow->out, narrow->constraint->doc,
                                                  constraint_member(narrow, wanted, merged[i]));
                empty = false;
        }
        return error_trace(r);
}

int schema_narrow(const Schema *constraint, const char *listed, size_t size, StrBuf *ret_narrowed) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        Narrow narrow = {.constraint = constraint, .text = listed};
        const JsonNode *properties;
        JsonError error;
        int r;

        r = json_scan(listed, size, &doc, &error);
        if (r != 0)
                return error_origin(r < 0 ? r : -EINVAL);
        narrow.doc = doc;

        properties = json_node_member(doc, json_doc_root(doc), "properties");
        if (properties && properties->type == JSON_NODE_OBJECT)
                for (const JsonNode *child = properties->first; child && r == 0;
                     child = child->next) {
                        size_t key_size;
                        const char *key = json_node_key_bytes(doc, child, &key_size);
                        const SchemaName *name =
                                schema_node_name(constraint->nodes[0], key, key_size);

                        if (name && name->schema && child->type == JSON_NODE_OBJECT)
                                r = merge_property(&narrow, child, name->schema);
                }
        if (r == 0)
                r = copy_until(&narrow, size, 0);
        if (r < 0) {
                strbuf_done(&narrow.out);
                return error_trace(r);
        }
        *ret_narrowed = narrow.out;
        return 0;
}
