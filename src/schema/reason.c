/* SPDX-License-Identifier: Apache-2.0 */

#include "schema/reason.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"

void schema_reason_done(SchemaReason *reason) {
        free(reason->path);
        free(reason->allowed);
        free(reason->rule);
        free(reason->file);
        *reason = SCHEMA_REASON_NULL;
}

/* --- what is allowed --- */

static int types_text(const SchemaNode *node, StrBuf *text) {
        size_t n = 0, n_types = (size_t) __builtin_popcount(node->types);
        int r;

        r = strbuf_append_string(text, "be of type ");
        for (unsigned type = 1; type < _VALUE_MAX && r == 0; type <<= 1)
                if (node->types & type) {
                        r = strbuf_appendf(text, "%s%s",
                                           n == 0             ? ""
                                           : n == n_types - 1 ? " or "
                                                              : ", ",
                                           value_type_to_string(type));
                        n++;
                }
        return error_trace(r);
}

/* The value of a keyword as the file has it, cut, between two words; the second is one that is
 * counted, or empty. */
static int value_text(const Schema *schema, const JsonNode *value, const char *before,
                      const char *after, StrBuf *text) {
        _cleanup_(freep) char *excerpt = NULL;

        excerpt = schema_excerpt(schema, value);
        if (!excerpt)
                return error_origin(-ENOMEM);
        return error_trace(strbuf_appendf(text, "%s%s%s%s", before, excerpt, after,
                                          *after && !string_equal(excerpt, "1") ? "s" : ""));
}

/* What stands before and behind the value of a keyword. */
typedef struct Phrase {
        const char *before, *after;
} Phrase;

static const Phrase phrases[] = {
        [KEYWORD_ENUM] = {"be one of ", ""},
        [KEYWORD_CONST] = {"be ", ""},
        [KEYWORD_MINIMUM] = {"be at least ", ""},
        [KEYWORD_MAXIMUM] = {"be at most ", ""},
        [KEYWORD_EXCLUSIVE_MINIMUM] = {"be more than ", ""},
        [KEYWORD_EXCLUSIVE_MAXIMUM] = {"be less than ", ""},
        [KEYWORD_MULTIPLE_OF] = {"be a multiple of ", ""},
        [KEYWORD_MIN_LENGTH] = {"have at least ", " character"},
        [KEYWORD_MAX_LENGTH] = {"have at most ", " character"},
        [KEYWORD_PATTERN] = {"match the pattern ", ""},
        [KEYWORD_MIN_ITEMS] = {"have at least ", " item"},
        [KEYWORD_MAX_ITEMS] = {"have at most ", " item"},
};

static int allowed_text(const Schema *schema, const Refusal *refusal, const JsonNode *at,
                        StrBuf *text) {
        const SchemaNode *node = refusal->node;

        if (refusal->given_up)
                return strbuf_append_string(text, refusal->given_up);
        switch (refusal->keyword) {
        case KEYWORD_TYPE:
                return types_text(node, text);
        case KEYWORD_REQUIRED:
                return value_text(schema, refusal->missing ?: at, "have the member ", "", text);
        case KEYWORD_UNIQUE_ITEMS:
                return strbuf_append_string(text, "have no two equal items");
        case KEYWORD_ADDITIONAL_PROPERTIES:
        case KEYWORD_FALSE:
                return strbuf_append_string(text, "not be given");
        case KEYWORD_ANY_OF:
                return strbuf_appendf(text, "fit one of %zu schemas", node->any_of.n_nodes);
        case KEYWORD_ONE_OF:
                return strbuf_appendf(text, "fit exactly one of %zu schemas", node->one_of.n_nodes);
        case KEYWORD_NOT:
                return strbuf_append_string(text, "be other than the schema describes");
        case KEYWORD_ENUM:
        case KEYWORD_CONST:
        case KEYWORD_MINIMUM:
        case KEYWORD_MAXIMUM:
        case KEYWORD_EXCLUSIVE_MINIMUM:
        case KEYWORD_EXCLUSIVE_MAXIMUM:
        case KEYWORD_MULTIPLE_OF:
        case KEYWORD_MIN_LENGTH:
        case KEYWORD_MAX_LENGTH:
        case KEYWORD_PATTERN:
        case KEYWORD_MIN_ITEMS:
        case KEYWORD_MAX_ITEMS:
                return value_text(schema, at, phrases[refusal->keyword].before,
                                  phrases[refusal->keyword].after, text);
        case KEYWORD_ITEMS:
        case KEYWORD_PROPERTIES:
        case KEYWORD_ALL_OF:
        case KEYWORD_REF:
        case KEYWORD_DEFS:
        case KEYWORD_DEFINITIONS:
        default:
                return error_origin(-ENOTRECOVERABLE); /* these refuse by what they hold */
        }
}

/* --- places --- */

/* The part of the value by its key path; names of members are whoever's who calls. */
static char *value_path(const JsonDoc *doc, const JsonNode *whole, const JsonNode *value) {
        _cleanup_(freep) char *base = NULL, *path = NULL;
        const char *rest;

        if (value == whole)
                return strdup("");
        base = json_node_path(doc, whole);
        path = json_node_path(doc, value);
        if (!base || !path)
                return NULL;
        rest = path + strlen(base);
        rest += *rest == '.';
        return diag_excerpt(rest, strlen(rest));
}

static const char *refusal_keyword(const Refusal *refusal) {
        return refusal->given_up && refusal->keyword == KEYWORD_FALSE
                       ? "limit"
                       : keyword_to_string(refusal->keyword);
}

int reason_make(const Schema *schema, const JsonDoc *doc, const JsonNode *whole,
                const Refusal *refusal, SchemaReason *ret_reason) {
        _cleanup_(strbuf_done) StrBuf allowed = STRBUF_NULL;
        SchemaReason reason = {.keyword = refusal_keyword(refusal)};
        const JsonNode *at = NULL;
        int r;

        if (refusal->keyword != KEYWORD_FALSE)
                at = json_node_member(schema->doc, refusal->node->at, reason.keyword);
        at = at ?: refusal->node->at;
        r = allowed_text(schema, refusal, at, &allowed);
        if (r < 0)
                return error_trace(r);

        schema_place(schema, at, &reason.line, &reason.column);
        reason.path = value_path(doc, whole, refusal->value);
        reason.allowed = strbuf_steal(&allowed);
        reason.rule = schema_path(schema, at);
        reason.file = schema->file ? strdup(schema->file) : NULL;
        if (!reason.path || !reason.allowed || !reason.rule || (schema->file && !reason.file)) {
                schema_reason_done(&reason);
                return error_origin(-ENOMEM);
        }
        *ret_reason = reason;
        return 0;
}

char *schema_reason_text(const SchemaReason *reason, const char *what) {
        _cleanup_(freep) char *place = NULL;
        char *text;

        if (reason->file &&
            asprintf(&place, "%s:%u:%u: ", reason->file, reason->line, reason->column) < 0)
                return NULL;
        if (asprintf(&text, "%s must %s (%s%s)", *reason->path ? reason->path : what,
                     reason->allowed, place ?: "", reason->keyword) < 0)
                return NULL;
        return text;
}
