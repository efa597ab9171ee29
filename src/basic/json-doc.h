/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What json-scan.c builds and json-node.c reads; nobody else looks into it. */

#include <string.h>

#include "basic/json-scan.h"

typedef struct JsonNodeData {
        JsonNode public;
        char *key; /* decoded; only for a member name with escapes, else the slice is the name */
        size_t key_size;
} JsonNodeData;

typedef struct JsonChunk {
        struct JsonChunk *next;
        size_t n_nodes, n_max;
        JsonNodeData nodes[];
} JsonChunk;

struct JsonDoc {
        const char *text;
        size_t size;
        size_t n_nodes;
        bool has_keys; /* some node has one to be freed */
        const JsonNode *root;
        JsonChunk *chunks; /* the newest first */
};

/* A decoded member name. */
typedef struct JsonName {
        const char *data;
        size_t size;
        const JsonNode *node;
} JsonName;

static inline JsonName json_node_name(const JsonDoc *doc, const JsonNode *node) {
        const JsonNodeData *n = (const JsonNodeData *) node;

        if (n->key)
                return (JsonName){n->key, n->key_size, node};
        return (JsonName){doc->text + node->key_offset, node->key_size, node};
}

static inline bool json_name_equal(const JsonName *a, const JsonName *b) {
        return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* Decodes the slice of a string, quotes included. *ret_string is NUL-terminated. */
int json_decode_string(const char *slice, size_t size, char **ret_string, size_t *ret_size);
