/* SPDX-License-Identifier: Apache-2.0 */

/* Keywords whose value is a number, a string or a list of values. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "schema/compiler.h"
#include "schema/equal.h"

int compiler_fault_value(const Compiler *compiler, const JsonNode *node, const char *text) {
        _cleanup_(freep) char *value = NULL;

        value = schema_excerpt(compiler->schema, node);
        if (!value)
                return error_origin(-ENOMEM);
        return compiler_fault(compiler, node, "%s %s", value, text);
}

int compiler_check_list(const Compiler *compiler, const JsonNode *node, size_t min,
                        bool *ret_good) {
        *ret_good = false;
        if (node->type != JSON_NODE_ARRAY)
                return compiler_fault_value(compiler, node, "is no array ([…])");
        if (node->n_children < min)
                return compiler_fault(compiler, node,
                                      "the list is empty, so that nothing would be allowed: "
                                      "give an entry, or the schema false");
        if (node->n_children > SCHEMA_ENTRIES_MAX)
                return compiler_fault(compiler, node, "%zu entries are more than %u",
                                      node->n_children, SCHEMA_ENTRIES_MAX);
        *ret_good = true;
        return 0;
}

static unsigned parse_type(const Compiler *compiler, const JsonNode *node) {
        for (unsigned type = 1; type < _VALUE_MAX; type <<= 1)
                if (json_node_string_equal(compiler->schema->doc, node, value_type_to_string(type)))
                        return type;
        return 0;
}

static int read_type(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        const JsonNode *entry = value;
        bool good;
        int r;

        if (value->type == JSON_NODE_ARRAY) {
                r = compiler_check_list(compiler, value, 1, &good);
                if (r < 0 || !good)
                        return error_trace(r);
                entry = value->first;
        }

        for (; entry; entry = value->type == JSON_NODE_ARRAY ? entry->next : NULL) {
                unsigned type = parse_type(compiler, entry);

                r = 0;
                if (type == 0)
                        r = compiler_fault_value(
                                compiler, entry,
                                "is no type; give \"null\", \"boolean\", \"integer\", "
                                "\"number\", \"string\", \"array\" or \"object\"");
                else if (target->types & type)
                        r = compiler_fault_value(compiler, entry, "stands twice; leave one out");
                if (r < 0)
                        return error_trace(r);
                target->types |= type;
        }
        return 0;
}

static int read_enum(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;
        int r;

        r = compiler_check_list(compiler, value, 1, &good);
        if (good)
                target->enumeration = value;
        return error_trace(r);
}

static int read_const(Compiler *compiler _unused_, const JsonNode *value, SchemaNode *target) {
        target->constant = value;
        return 0;
}

static int read_number(Compiler *compiler, const JsonNode *value, Number *ret_number,
                       bool *ret_good) {
        *ret_good = false;
        if (value->type != JSON_NODE_NUMBER)
                return compiler_fault_value(compiler, value, "is no number");
        if (number_parse(json_node_slice(compiler->schema->doc, value), value->size, ret_number) !=
            0)
                return compiler_fault_value(compiler, value,
                                            "has an exponent of more than 17 digits; give fewer");
        *ret_good = true;
        return 0;
}

static int read_minimum(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;

        return read_number(compiler, value, &target->minimum, &good);
}

static int read_maximum(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;

        return read_number(compiler, value, &target->maximum, &good);
}

static int read_exclusive_minimum(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;

        return read_number(compiler, value, &target->exclusive_minimum, &good);
}

static int read_exclusive_maximum(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        bool good;

        return read_number(compiler, value, &target->exclusive_maximum, &good);
}

static int read_multiple_of(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        Number number;
        bool good;
        int r;

        r = read_number(compiler, value, &number, &good);
        if (r < 0 || !good)
                return error_trace(r);
        if (number_to_divisor(&number, &target->multiple_of) != 0)
                return compiler_fault_value(
                        compiler, value, "is no number above 0 with at most 18 significant digits");
        return 0;
}

static int read_count(Compiler *compiler, const JsonNode *value, uint64_t *ret_count) {
        Number number;

        if (value->type != JSON_NODE_NUMBER ||
            number_parse(json_node_slice(compiler->schema->doc, value), value->size, &number) !=
                    0 ||
            number_to_uint64(&number, ret_count) != 0)
                return compiler_fault_value(compiler, value,
                                            "is no whole number from 0 to 2^64 - 1");
        return 0;
}

static int read_min_length(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_count(compiler, value, &target->min_length);
}

static int read_max_length(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_count(compiler, value, &target->max_length);
}

static int read_min_items(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_count(compiler, value, &target->min_items);
}

static int read_max_items(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        return read_count(compiler, value, &target->max_items);
}

static int read_unique_items(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        if (json_node_bool(value, &target->unique_items) != 0)
                return compiler_fault_value(compiler, value, "is neither true nor false");
        return 0;
}

static int read_pattern(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        _cleanup_(json_text_done) JsonText text = {};
        char error[PATTERN_ERROR_SIZE];
        size_t offset;
        int r;

        if (value->type != JSON_NODE_STRING)
                return compiler_fault_value(compiler, value, "is no string");
        r = json_text_get((JsonValue){compiler->schema->doc, value}, &text);
        if (r < 0)
                return error_trace(r);
        if (text.size > PATTERN_SIZE_MAX)
                return compiler_fault(compiler, value, "a pattern of %zu bytes is longer than %u",
                                      text.size, PATTERN_SIZE_MAX);

        r = pattern_compile(text.data, text.size, &target->pattern, error, &offset);
        if (r == PATTERN_E_INVALID)
                return compiler_fault(compiler, value,
                                      "the pattern is no regular expression: %s, at byte %zu of it",
                                      error, offset);
        return error_trace(r);
}

static int read_ref(Compiler *compiler, const JsonNode *value, SchemaNode *target) {
        if (value->type != JSON_NODE_STRING) {
                /* Not resolved later, which would say it twice. */
                target->given &= ~(1U << KEYWORD_REF);
                return compiler_fault_value(compiler, value, "is no string");
        }
        return 0;
}

const CompilerRead compiler_value_readers[_KEYWORD_MAX] = {
        [KEYWORD_TYPE] = read_type,
        [KEYWORD_ENUM] = read_enum,
        [KEYWORD_CONST] = read_const,
        [KEYWORD_MINIMUM] = read_minimum,
        [KEYWORD_MAXIMUM] = read_maximum,
        [KEYWORD_EXCLUSIVE_MINIMUM] = read_exclusive_minimum,
        [KEYWORD_EXCLUSIVE_MAXIMUM] = read_exclusive_maximum,
        [KEYWORD_MULTIPLE_OF] = read_multiple_of,
        [KEYWORD_MIN_LENGTH] = read_min_length,
        [KEYWORD_MAX_LENGTH] = read_max_length,
        [KEYWORD_PATTERN] = read_pattern,
        [KEYWORD_MIN_ITEMS] = read_min_items,
        [KEYWORD_MAX_ITEMS] = read_max_items,
        [KEYWORD_UNIQUE_ITEMS] = read_unique_items,
        [KEYWORD_REF] = read_ref,
};
