/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks a value against a schema. While it runs a refusal is only noted, not put into words: below
 * anyOf and not refusing is the usual thing. Three ends are told apart everywhere, since "not" must
 * turn a refusal into a permission but never a check that was given up.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "schema/equal.h"
#include "schema/reason.h"
#include "schema/schema-node.h"

enum {
        _CHECK_E_SUCCESS,
        CHECK_E_REFUSED,  /* check->refusal tells */
        CHECK_E_GIVEN_UP, /* the same, and nothing may turn it into its opposite */
};

typedef struct Check {
        const Schema *schema;
        const JsonDoc *doc;
        Effort effort;
        Matcher matcher;
        size_t depth;
        Refusal refusal;
} Check;

static int refuse(Check *check, const SchemaNode *node, Keyword keyword, const JsonNode *value) {
        check->refusal = (Refusal){.node = node, .keyword = keyword, .value = value};
        return CHECK_E_REFUSED;
}

static int give_up(Check *check, const SchemaNode *node, Keyword keyword, const JsonNode *value,
                   const char *why) {
        check->refusal =
                (Refusal){.node = node, .keyword = keyword, .value = value, .given_up = why};
        return CHECK_E_GIVEN_UP;
}

static int give_up_spent(Check *check, const SchemaNode *node, Keyword keyword,
                         const JsonNode *value) {
        return give_up(check, node, keyword, value,
                       "be simpler: to check it costs more than one call may");
}

static int give_up_number(Check *check, const SchemaNode *node, Keyword keyword,
                          const JsonNode *value) {
        return give_up(check, node, keyword, value, "have an exponent of at most 17 digits");
}

static int check_value(Check *check, const SchemaNode *node, const JsonNode *value);

static inline const char *slice(const Check *check, const JsonNode *value) {
        return value->size > 0 ? json_node_slice(check->doc, value) : "";
}

/* --- any value --- */

static int check_type(Check *check, const SchemaNode *node, const JsonNode *value) {
        static const unsigned types[] = {
                [JSON_NODE_NULL] = VALUE_NULL,     [JSON_NODE_FALSE] = VALUE_BOOLEAN,
                [JSON_NODE_TRUE] = VALUE_BOOLEAN,  [JSON_NODE_NUMBER] = VALUE_NUMBER,
                [JSON_NODE_STRING] = VALUE_STRING, [JSON_NODE_ARRAY] = VALUE_ARRAY,
                [JSON_NODE_OBJECT] = VALUE_OBJECT,
        };
        Number number;

        if (node->types & types[value->type])
                return 0;
        if (!(node->types & VALUE_INTEGER) || value->type != JSON_NODE_NUMBER)
                return refuse(check, node, KEYWORD_TYPE, value);

        if (effort_spend_bytes(&check->effort, value->size) != 0)
                return give_up_spent(check, node, KEYWORD_TYPE, value);
        if (number_parse(slice(check, value), value->size, &number) != 0)
                return give_up_number(check, node, KEYWORD_TYPE, value);
        return number_is_whole(&number) ? 0 : refuse(check, node, KEYWORD_TYPE, value);
}

static int is_equal(Check *check, const SchemaNode *node, Keyword keyword, const JsonNode *wanted,
                    const JsonNode *value, bool *ret_equal) {
        int r;

        r = json_value_equal(&check->effort, (JsonValue){check->schema->doc, wanted},
                             (JsonValue){check->doc, value}, ret_equal);
        if (r == EQUAL_E_SPENT)
                return give_up_spent(check, node, keyword, value);
        if (r == EQUAL_E_NUMBER)
                return give_up_number(check, node, keyword, value);
        return error_trace(r);
}

static int check_choices(Check *check, const SchemaNode *node, const JsonNode *value) {
        bool equal;
        int r;

        if (node->constant) {
                r = is_equal(check, node, KEYWORD_CONST, node->constant, value, &equal);
                if (r != 0)
                        return r;
                if (!equal)
                        return refuse(check, node, KEYWORD_CONST, value);
        }
        if (!node->enumeration)
                return 0;
        for (const JsonNode *choice = node->enumeration->first; choice; choice = choice->next) {
                r = is_equal(check, node, KEYWORD_ENUM, choice, value, &equal);
                if (r != 0 || equal)
                        return r;
        }
        return refuse(check, node, KEYWORD_ENUM, value);
}

/* --- numbers --- */

#define NUMBER_KEYWORDS                                                                            \
        (1U << KEYWORD_MINIMUM | 1U << KEYWORD_MAXIMUM | 1U << KEYWORD_EXCLUSIVE_MINIMUM |         \
         1U << KEYWORD_EXCLUSIVE_MAXIMUM | 1U << KEYWORD_MULTIPLE_OF)

static int check_number(Check *check, const SchemaNode *node, const JsonNode *value) {
        Keyword first = (Keyword) __builtin_ctz(node->given & NUMBER_KEYWORDS);
        Number number;

        if (effort_spend_bytes(&check->effort, value->size * 4) != 0)
                return give_up_spent(check, node, first, value);
        if (number_parse(slice(check, value), value->size, &number) != 0)
                return give_up_number(check, node, first, value);

        if (schema_node_has(node, KEYWORD_MINIMUM) && number_compare(&number, &node->minimum) < 0)
                return refuse(check, node, KEYWORD_MINIMUM, value);
        if (schema_node_has(node, KEYWORD_MAXIMUM) && number_compare(&number, &node->maximum) > 0)
                return refuse(check, node, KEYWORD_MAXIMUM, value);
        if (schema_node_has(node, KEYWORD_EXCLUSIVE_MINIMUM) &&
            number_compare(&number, &node->exclusive_minimum) <= 0)
                return refuse(check, node, KEYWORD_EXCLUSIVE_MINIMUM, value);
        if (schema_node_has(node, KEYWORD_EXCLUSIVE_MAXIMUM) &&
            number_compare(&number, &node->exclusive_maximum) >= 0)
                return refuse(check, node, KEYWORD_EXCLUSIVE_MAXIMUM, value);
        if (schema_node_has(node, KEYWORD_MULTIPLE_OF) &&
            !number_is_multiple(&number, &node->multiple_of))
                return refuse(check, node, KEYWORD_MULTIPLE_OF, value);
        return 0;
}

/* --- strings --- */

#define STRING_KEYWORDS                                                                            \
        (1U << KEYWORD_MIN_LENGTH | 1U << KEYWORD_MAX_LENGTH | 1U << KEYWORD_PATTERN)

/* Characters, which are code points. */
static uint64_t count_characters(const JsonText *text) {
        uint64_t n = 0;

        for (size_t i = 0; i < text->size; i++)
                n += ((unsigned char) text->data[i] & 0xc0) != 0x80;
        return n;
}

static int check_pattern(Check *check, const SchemaNode *node, const JsonNode *value,
                         const JsonText *text) {
        bool matches = false;
        int r;

        r = matcher_match(&check->matcher, node->pattern, text->data, text->size, &matches);
        switch (r) {
        case PATTERN_E_SUBJECT:
                return give_up(check, node, KEYWORD_PATTERN, value,
                               "have at most 65536 bytes to be compared with a pattern");
        case PATTERN_E_SPENT:
                return give_up(check, node, KEYWORD_PATTERN, value,
                               "be simpler: to compare it with the pattern costs more than one "
                               "call may");
        case 0:
                return matches ? 0 : refuse(check, node, KEYWORD_PATTERN, value);
        default:
                return error_trace(r);
        }
}

static int check_string(Check *check, const SchemaNode *node, const JsonNode *value) {
        Keyword first = (Keyword) __builtin_ctz(node->given & STRING_KEYWORDS);
        _cleanup_(json_text_done) JsonText text = {};
        uint64_t length;
        int r;

        if (effort_spend_bytes(&check->effort, value->size) != 0)
                return give_up_spent(check, node, first, value);
        r = json_text_get((JsonValue){check->doc, value}, &text);
        if (r < 0)
                return error_trace(r);

        if (first != KEYWORD_PATTERN) {
                length = count_characters(&text);
                if (length < node->min_length)
                        return refuse(check, node, KEYWORD_MIN_LENGTH, value);
                if (schema_node_has(node, KEYWORD_MAX_LENGTH) && length > node->max_length)
                        return refuse(check, node, KEYWORD_MAX_LENGTH, value);
        }
        return node->pattern ? check_pattern(check, node, value, &text) : 0;
}

/* --- arrays and objects --- */

static int check_unique(Check *check, const SchemaNode *node, const JsonNode *value) {
        bool has = false;
        int r;

        r = json_value_has_twins(&check->effort, (JsonValue){check->doc, value}, &has);
        if (r == EQUAL_E_SPENT)
                return give_up_spent(check, node, KEYWORD_UNIQUE_ITEMS, value);
        if (r == EQUAL_E_NUMBER)
                return give_up_number(check, node, KEYWORD_UNIQUE_ITEMS, value);
        if (r < 0)
                return error_trace(r);
        return has ? refuse(check, node, KEYWORD_UNIQUE_ITEMS, value) : 0;
}

static int check_array(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = 0;

        if (value->n_children < node->min_items)
                return refuse(check, node, KEYWORD_MIN_ITEMS, value);
        if (schema_node_has(node, KEYWORD_MAX_ITEMS) && value->n_children > node->max_items)
                return refuse(check, node, KEYWORD_MAX_ITEMS, value);

        if (node->items)
                for (const JsonNode *item = value->first; item && r == 0; item = item->next)
                        r = check_value(check, node->items, item);
        if (r == 0 && node->unique_items && value->n_children > 1)
                r = check_unique(check, node, value);
        return r;
}

static int check_additional(Check *check, const SchemaNode *node, const JsonNode *member) {
        if (!node->additional)
                return 0;
        if (node->additional->kind == SCHEMA_NOTHING)
                return refuse(check, node, KEYWORD_ADDITIONAL_PROPERTIES, member);
        return check_value(check, node->additional, member);
}

static int check_required(Check *check, const SchemaNode *node, const JsonNode *value) {
        const SchemaName *missing = NULL;

        /* The first in the order of the file. Refusing may be slow: it is done once. */
        for (size_t i = 0; i < node->n_names; i++) {
                const SchemaName *name = &node->names[i];
                bool found = false;

                if (!name->required ||
                    (missing && missing->required->offset < name->required->offset))
                        continue;
                if (effort_spend(&check->effort, 1 + value->n_children) != 0)
                        return give_up_spent(check, node, KEYWORD_REQUIRED, value);
                for (const JsonNode *member = value->first; member && !found;
                     member = member->next) {
                        size_t size;
                        const char *key = json_node_key_bytes(check->doc, member, &size);

                        found = size == name->size && memcmp(key, name->name, size) == 0;
                }
                if (!found)
                        missing = name;
        }
        (void) refuse(check, node, KEYWORD_REQUIRED, value);
        check->refusal.missing = missing ? missing->required : NULL;
        return CHECK_E_REFUSED;
}

static int check_object(Check *check, const SchemaNode *node, const JsonNode *value) {
        size_t n_required = 0;
        int r = 0;

        for (const JsonNode *member = value->first; member && r == 0; member = member->next) {
                const SchemaName *name;
                const char *key;
                size_t size;

                if (effort_spend(&check->effort, 1) != 0)
                        return give_up_spent(check, node, KEYWORD_PROPERTIES, member);
                key = json_node_key_bytes(check->doc, member, &size);
                name = schema_node_name(node, key, size);
                n_required += name && name->required;
                r = name && name->schema ? check_value(check, name->schema, member)
                                         : check_additional(check, node, member);
        }
        if (r == 0 && n_required < node->n_required)
                r = check_required(check, node, value);
        return r;
}

/* --- combined schemas --- */

static int check_all_of(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = 0;

        for (size_t i = 0; i < node->all_of.n_nodes && r == 0; i++)
                r = check_value(check, node->all_of.nodes[i], value);
        return r;
}

static int check_any_of(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = CHECK_E_REFUSED;

        for (size_t i = 0; i < node->any_of.n_nodes && r == CHECK_E_REFUSED; i++)
                r = check_value(check, node->any_of.nodes[i], value);
        return r == CHECK_E_REFUSED ? refuse(check, node, KEYWORD_ANY_OF, value) : r;
}

static int check_one_of(Check *check, const SchemaNode *node, const JsonNode *value) {
        size_t n = 0;
        int r;

        for (size_t i = 0; i < node->one_of.n_nodes && n < 2; i++) {
                r = check_value(check, node->one_of.nodes[i], value);
                if (r != 0 && r != CHECK_E_REFUSED)
                        return r;
                n += r == 0;
        }
        return n == 1 ? 0 : refuse(check, node, KEYWORD_ONE_OF, value);
}

static int check_not(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = check_value(check, node->negated, value);

        return r == 0 ? refuse(check, node, KEYWORD_NOT, value) : r == CHECK_E_REFUSED ? 0 : r;
}

static int check_combined(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = 0;

        if (node->all_of.n_nodes > 0)
                r = check_all_of(check, node, value);
        if (r == 0 && node->any_of.n_nodes > 0)
                r = check_any_of(check, node, value);
        if (r == 0 && node->one_of.n_nodes > 0)
                r = check_one_of(check, node, value);
        if (r == 0 && node->negated)
                r = check_not(check, node, value);
        if (r == 0 && node->reference)
                r = check_value(check, node->reference, value);
        return r;
}

/* --- one schema --- */

static int check_rules(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r = 0;

        if (node->types)
                r = check_type(check, node, value);
        if (r == 0 && (node->constant || node->enumeration))
                r = check_choices(check, node, value);
        if (r == 0 && value->type == JSON_NODE_NUMBER && node->given & NUMBER_KEYWORDS)
                r = check_number(check, node, value);
        if (r == 0 && value->type == JSON_NODE_STRING && node->given & STRING_KEYWORDS)
                r = check_string(check, node, value);
        if (r == 0 && value->type == JSON_NODE_ARRAY)
                r = check_array(check, node, value);
        if (r == 0 && value->type == JSON_NODE_OBJECT && (node->n_names > 0 || node->additional))
                r = check_object(check, node, value);
        return r == 0 ? check_combined(check, node, value) : r;
}

static int check_value(Check *check, const SchemaNode *node, const JsonNode *value) {
        int r;

        if (node->kind == SCHEMA_ANYTHING)
                return 0;
        if (node->kind == SCHEMA_NOTHING)
                return refuse(check, node, KEYWORD_FALSE, value);
        if (check->depth == SCHEMA_CHECK_DEPTH_MAX)
                return give_up(check, node, KEYWORD_FALSE, value,
                               "be less deeply nested: to check it takes more than 256 schemas "
                               "within one another");
        if (effort_spend(&check->effort, 1) != 0)
                return give_up_spent(check, node, KEYWORD_FALSE, value);

        check->depth++;
        r = check_rules(check, node, value);
        check->depth--;
        return r;
}

int schema_check(const Schema *schema, const JsonDoc *doc, const JsonNode *value,
                 SchemaReason *ret_reason) {
        static const JsonNode nothing = {.type = JSON_NODE_OBJECT};
        Check check = {.schema = schema, .doc = doc, .effort = EFFORT_INIT};
        int r;

        check.matcher.effort = &check.effort;
        value = value ?: &nothing;
        r = check_value(&check, schema->nodes[0], value);
        matcher_done(&check.matcher);
        if (r <= 0)
                return error_trace(r);

        r = reason_make(schema, doc, value, &check.refusal, ret_reason);
        return r < 0 ? error_trace(r) : SCHEMA_E_REFUSED;
}
