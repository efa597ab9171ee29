/* SPDX-License-Identifier: Apache-2.0 */

/* The reading side of json-scan.h: values of nodes. */

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "basic/error.h"
#include "basic/json-doc.h"
#include "basic/string-util.h"

JsonDoc *json_doc_free(JsonDoc *doc) {
        if (!doc)
                return NULL;

        while (doc->chunks) {
                JsonChunk *chunk = doc->chunks;

                doc->chunks = chunk->next;
                for (size_t i = 0; doc->has_keys && i < chunk->n_nodes; i++)
                        free(chunk->nodes[i].key);
                free(chunk);
        }
        free(doc);
        return NULL;
}

int json_decode_string(const char *slice, size_t size, char **ret_string, size_t *ret_size) {
        json_t *value;
        char *s;
        size_t n;

        /* Without an escape the slice is the string. */
        if (!memchr(slice, '\\', size)) {
                s = strndup(slice + 1, size - 2);
                n = size - 2;
        } else {
                value = json_loadb(slice, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                if (!value)
                        return error_origin(-ENOMEM); /* the scanner has checked all else */
                n = json_string_length(value);
                s = malloc(n + 1);
                if (s)
                        memcpy(s, json_string_value(value), n + 1);
                json_decref(value);
        }
        if (!s)
                return error_origin(-ENOMEM);

        *ret_string = s;
        *ret_size = n;
        return 0;
}

const JsonNode *json_doc_root(const JsonDoc *doc) {
        return doc->root;
}

const char *json_node_slice(const JsonDoc *doc, const JsonNode *node) {
        return doc->text + node->offset;
}

const JsonNode *json_node_member(const JsonDoc *doc, const JsonNode *node, const char *name) {
        JsonName wanted = {.data = name, .size = strlen(name)};

        if (!node || node->type != JSON_NODE_OBJECT)
                return NULL;

        for (const JsonNode *child = node->first; child; child = child->next) {
                JsonName key = json_node_name(doc, child);

                if (json_name_equal(&key, &wanted))
                        return child;
        }
        return NULL;
}

int json_node_key(const JsonDoc *doc, const JsonNode *node, char **ret_key) {
        JsonName key = json_node_name(doc, node);
        char *s;

        s = strndup(key.data, key.size);
        if (!s)
                return error_origin(-ENOMEM);
        *ret_key = s;
        return 0;
}

const char *json_node_key_bytes(const JsonDoc *doc, const JsonNode *node, size_t *ret_size) {
        JsonName key = json_node_name(doc, node);

        *ret_size = key.size;
        return key.data;
}

/* No node, as of a member that is not there, is of no type. */
static bool node_is(const JsonNode *node, JsonType type) {
        return node && node->type == type;
}

int json_node_string(const JsonDoc *doc, const JsonNode *node, char **ret_string,
                     size_t *ret_size) {
        _cleanup_(freep) char *s = NULL;
        size_t size;
        int r;

        if (!node_is(node, JSON_NODE_STRING))
                return JSON_NODE_E_TYPE;

        r = json_decode_string(json_node_slice(doc, node), node->size, &s, &size);
        if (r < 0)
                return error_trace(r);
        if (!ret_size && strlen(s) != size)
                return JSON_NODE_E_NUL;

        *ret_string = TAKE_PTR(s);
        if (ret_size)
                *ret_size = size;
        return 0;
}

bool json_node_string_equal(const JsonDoc *doc, const JsonNode *node, const char *s) {
        _cleanup_(freep) char *value = NULL;

        return json_node_string(doc, node, &value, NULL) == 0 && string_equal(value, s);
}

int json_node_uint64(const JsonDoc *doc, const JsonNode *node, uint64_t *ret_value) {
        const char *slice;
        uint64_t value = 0;

        if (!node_is(node, JSON_NODE_NUMBER))
                return JSON_NODE_E_TYPE;

        slice = json_node_slice(doc, node);
        for (size_t i = 0; i < node->size; i++)
                if (slice[i] < '0' || slice[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (slice[i] - '0'), &value))
                        return JSON_NODE_E_RANGE;

        *ret_value = value;
        return 0;
}

int json_node_int64(const JsonDoc *doc, const JsonNode *node, int64_t *ret_value) {
        JsonNode digits;
        bool negative;
        uint64_t value;
        int r;

        if (!node_is(node, JSON_NODE_NUMBER))
                return JSON_NODE_E_TYPE;

        digits = *node;
        negative = *json_node_slice(doc, node) == '-';
        if (negative) {
                digits.offset++;
                digits.size--;
        }
        r = json_node_uint64(doc, &digits, &value);
        if (r != 0)
                return r;
        if (value > (uint64_t) INT64_MAX + negative)
                return JSON_NODE_E_RANGE;

        *ret_value = negative ? (int64_t) (0 - value) : (int64_t) value;
        return 0;
}

int json_node_bool(const JsonNode *node, bool *ret_value) {
        if (!node_is(node, JSON_NODE_TRUE) && !node_is(node, JSON_NODE_FALSE))
                return JSON_NODE_E_TYPE;
        *ret_value = node->type == JSON_NODE_TRUE;
        return 0;
}

int json_node_double(const JsonDoc *doc, const JsonNode *node, double *ret_value) {
        _cleanup_(freep) char *s = NULL;
        locale_t c_locale;
        double value;

        if (!node_is(node, JSON_NODE_NUMBER))
                return JSON_NODE_E_TYPE;

        s = strndup(json_node_slice(doc, node), node->size);
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        if (!s || !c_locale) {
                if (c_locale)
                        freelocale(c_locale);
                return error_origin(-ENOMEM);
        }
        value = strtod_l(s, NULL, c_locale);
        freelocale(c_locale);
        if (isinf(value))
                return JSON_NODE_E_RANGE;

        *ret_value = value;
        return 0;
}

static int path_append(StrBuf *path, const JsonDoc *doc, const JsonNode *node) {
        size_t index = 0;
        int r;

        if (node->parent->type == JSON_NODE_ARRAY) {
                for (const JsonNode *child = node->parent->first; child != node;
                     child = child->next)
                        index++;
                r = strbuf_appendf(path, "[%zu]", index);
        } else {
                JsonName key = json_node_name(doc, node);

                r = path->size > 0 ? strbuf_append_byte(path, '.') : 0;
                if (r == 0)
                        r = strbuf_append(path, key.data, key.size);
        }
        return error_trace(r);
}

char *json_node_path(const JsonDoc *doc, const JsonNode *node) {
        _cleanup_(strbuf_done) StrBuf path = STRBUF_NULL;
        const JsonNode *nodes[JSON_SCAN_DEPTH_MAX + 1];
        size_t n = 0;

        for (; node->parent; node = node->parent)
                nodes[n++] = node;
        while (n > 0)
                if (path_append(&path, doc, nodes[--n]) < 0)
                        return NULL;
        return strbuf_steal(&path);
}
