/* SPDX-License-Identifier: Apache-2.0 */

#include "schema/equal.h"

#include <string.h>

#include "basic/error.h"
#include "schema/number.h"

int json_text_get(JsonValue value, JsonText *ret_text) {
        const char *slice = json_node_slice(value.doc, value.node);
        size_t size = value.node->size - 2;
        char *s = NULL;
        int r;

        if (!memchr(slice + 1, '\\', size)) {
                *ret_text = (JsonText){.data = slice + 1, .size = size};
                return 0;
        }

        r = json_node_string(value.doc, value.node, &s, &size);
        if (r != 0)
                return error_fold(r);
        *ret_text = (JsonText){.data = s, .size = size, .owned = s};
        return 0;
}

static int get_number(JsonValue value, Number *ret_number) {
        return number_parse(json_node_slice(value.doc, value.node), value.node->size, ret_number) ==
                               NUMBER_E_RANGE
                       ? EQUAL_E_NUMBER
                       : 0;
}

/* --- equality --- */

static int strings_equal(JsonValue a, JsonValue b, bool *ret_equal) {
        _cleanup_(json_text_done) JsonText text_a = {}, text_b = {};
        int r;

        r = json_text_get(a, &text_a);
        if (r == 0)
                r = json_text_get(b, &text_b);
        if (r < 0)
                return error_trace(r);

        *ret_equal =
                text_a.size == text_b.size && memcmp(text_a.data, text_b.data, text_a.size) == 0;
        return 0;
}

static int numbers_equal(JsonValue a, JsonValue b, bool *ret_equal) {
        Number number_a, number_b;

        if (get_number(a, &number_a) != 0 || get_number(b, &number_b) != 0)
                return EQUAL_E_NUMBER;
        *ret_equal = number_compare(&number_a, &number_b) == 0;
        return 0;
}

static int arrays_equal(Effort *effort, JsonValue a, JsonValue b, bool *ret_equal) {
        const JsonNode *item_b = b.node->first;
        bool equal = true;
        int r;

        for (const JsonNode *item_a = a.node->first; item_a && equal; item_a = item_a->next) {
                r = json_value_equal(effort, (JsonValue){a.doc, item_a}, (JsonValue){b.doc, item_b},
                                     &equal);
                if (r != 0)
                        return r;
                item_b = item_b->next;
        }
        *ret_equal = equal;
        return 0;
}

static bool keys_equal(JsonValue a, JsonValue b) {
        size_t size_a, size_b;
        const char *key_a = json_node_key_bytes(a.doc, a.node, &size_a);
        const char *key_b = json_node_key_bytes(b.doc, b.node, &size_b);

        return size_a == size_b && memcmp(key_a, key_b, size_a) == 0;
}

/* The member of object with the name of wanted, from there on where the one before was found: the
 * usual order of two equal objects is the same. */
static int find_member(Effort *effort, JsonValue object, JsonValue wanted, const JsonNode *from,
                       const JsonNode **ret_member) {
        const JsonNode *member = from;
        int r;

        for (size_t i = 0; i < object.node->n_children; i++) {
                if (!member)
                        member = object.node->first;
                r = effort_spend(effort, 1);
                if (r != 0)
                        return EQUAL_E_SPENT;
                if (keys_equal((JsonValue){object.doc, member}, wanted)) {
                        *ret_member = member;
                        return 0;
                }
                member = member->next;
        }
        *ret_member = NULL;
        return 0;
}

static int objects_equal(Effort *effort, JsonValue a, JsonValue b, bool *ret_equal) {
        const JsonNode *from = b.node->first;
        int r;

        /* As many members on both sides, each name once: if all of one are there, all of both are.
         */
        for (const JsonNode *child = a.node->first; child; child = child->next) {
                JsonValue member_a = {a.doc, child}, member_b = {b.doc};
                bool equal = false;

                r = find_member(effort, b, member_a, from, &member_b.node);
                if (r == 0 && member_b.node) {
                        from = member_b.node->next;
                        r = json_value_equal(effort, member_a, member_b, &equal);
                }
                if (r != 0)
                        return r;
                if (!equal) {
                        *ret_equal = false;
                        return 0;
                }
        }
        *ret_equal = true;
        return 0;
}

int json_value_equal(Effort *effort, JsonValue a, JsonValue b, bool *ret_equal) {
        if (effort_spend_bytes(effort, 0) != 0)
                return EQUAL_E_SPENT;
        if (a.node->type != b.node->type || a.node->n_children != b.node->n_children) {
                *ret_equal = false;
                return 0;
        }

        switch (a.node->type) {
        case JSON_NODE_STRING:
        case JSON_NODE_NUMBER:
                if (effort_spend(effort, (a.node->size + b.node->size) / 256) != 0)
                        return EQUAL_E_SPENT;
                return a.node->type == JSON_NODE_STRING ? strings_equal(a, b, ret_equal)
                                                        : numbers_equal(a, b, ret_equal);
        case JSON_NODE_ARRAY:
                return arrays_equal(effort, a, b, ret_equal);
        case JSON_NODE_OBJECT:
                return objects_equal(effort, a, b, ret_equal);
        case JSON_NODE_NULL:
        case JSON_NODE_FALSE:
        case JSON_NODE_TRUE:
        default:
                *ret_equal = true;
                return 0;
        }
}

/* --- twins --- */

#define HASH_SEED 0xcbf29ce484222325U
#define HASH_FACTOR 0x100000001b3U

static uint64_t hash_bytes(uint64_t hash, const char *data, size_t size) {
        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (uint8_t) data[i]) * HASH_FACTOR;
        return hash;
}

static int hash_value(Effort *effort, JsonValue value, uint64_t *ret_hash);

static int hash_children(Effort *effort, JsonValue value, uint64_t *hash) {
        int r;

        for (const JsonNode *child = value.node->first; child; child = child->next) {
                uint64_t inner = 0;

                r = hash_value(effort, (JsonValue){value.doc, child}, &inner);
                if (r != 0)
                        return r;
                if (value.node->type == JSON_NODE_ARRAY)
                        *hash = (*hash ^ inner) * HASH_FACTOR;
                else {
                        size_t size;
                        const char *key = json_node_key_bytes(value.doc, child, &size);

                        if (effort_spend_bytes(effort, size) != 0)
                                return EQUAL_E_SPENT;
                        /* A sum, since members have no order. */
                        *hash += hash_bytes(inner * HASH_FACTOR, key, size);
                }
        }
        return 0;
}

static int hash_value(Effort *effort, JsonValue value, uint64_t *ret_hash) {
        _cleanup_(json_text_done) JsonText text = {};
        uint64_t hash = (HASH_SEED ^ value.node->type) * HASH_FACTOR;
        Number number;
        int r = 0;

        if (effort_spend_bytes(effort, value.node->first ? 0 : value.node->size) != 0)
                return EQUAL_E_SPENT;

        if (value.node->type == JSON_NODE_STRING) {
                r = json_text_get(value, &text);
                if (r < 0)
                        return error_trace(r);
                hash = hash_bytes(hash, text.data, text.size);
        } else if (value.node->type == JSON_NODE_NUMBER) {
                if (get_number(value, &number) != 0)
                        return EQUAL_E_NUMBER;
                hash ^= number_hash(&number);
        } else
                r = hash_children(effort, value, &hash);

        *ret_hash = hash;
        return r;
}

typedef struct Hashed {
        uint64_t hash;
        const JsonNode *node;
} Hashed;

static int hashed_compare(const void *a, const void *b) {
        const Hashed *x = a, *y = b;

        return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Whether one behind items[i], of those with its hash, is equal to it. */
static int has_twin(Effort *effort, const JsonDoc *doc, const Hashed *items, size_t n_items,
                    size_t i, bool *ret_has) {
        int r = 0;

        for (size_t k = i + 1; k < n_items && items[k].hash == items[i].hash && !*ret_has; k++) {
                r = json_value_equal(effort, (JsonValue){doc, items[i].node},
                                     (JsonValue){doc, items[k].node}, ret_has);
                if (r != 0)
                        break;
        }
        return r;
}

int json_value_has_twins(Effort *effort, JsonValue array, bool *ret_has) {
        _cleanup_(freep) Hashed *items = NULL;
        size_t n = 0;
        bool has = false;
        int r = 0;

        /* Sorting is paid for before memory is taken for it. */
        if (effort_spend(effort, array.node->n_children) != 0)
                return EQUAL_E_SPENT;
        items = calloc(array.node->n_children + 1, sizeof(Hashed));
        if (!items)
                return error_origin(-ENOMEM);

        for (const JsonNode *item = array.node->first; item && r == 0; item = item->next) {
                items[n].node = item;
                r = hash_value(effort, (JsonValue){array.doc, item}, &items[n++].hash);
        }
        if (r != 0)
                return r;

        qsort(items, n, sizeof(Hashed), hashed_compare);
        for (size_t i = 0; i < n && r == 0 && !has; i++)
                r = has_twin(effort, array.doc, items, n, i, &has);
        *ret_has = has;
        return r;
}
