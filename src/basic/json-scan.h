/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A strict JSON scanner that keeps slices. It checks a whole text (RFC 8259, UTF-8, bounded depth,
 * no duplicate member in an object) and gives back a tree whose nodes point into that text: where
 * each value begins and ends, on which line and in which column. Nothing is converted before
 * somebody asks for it, so that ids, big integers and unknown members can be passed on byte for
 * byte, and so that every complaint about a meaning can name its place.
 *
 * jansson does the conversions of strings, and writes JSON. It does not read it here, since it
 * refuses 2^63, rewrites 1e2, takes the last of two equal keys and forgets where a value stood.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"

#define JSON_SCAN_DEPTH_MAX 64U
#define JSON_SCAN_NODES_MAX (1U << 20)

typedef enum JsonType {
        JSON_NODE_NULL,
        JSON_NODE_FALSE,
        JSON_NODE_TRUE,
        JSON_NODE_NUMBER,
        JSON_NODE_STRING,
        JSON_NODE_ARRAY,
        JSON_NODE_OBJECT,
} JsonType;

typedef struct JsonNode JsonNode;
typedef struct JsonDoc JsonDoc;

struct JsonNode {
        JsonType type;
        uint32_t line;       /* 1-based, of the first byte of the value */
        uint32_t column;     /* 1-based, in bytes */
        size_t offset, size; /* the value's slice of the text; strings with their quotes */
        size_t key_offset,
                key_size; /* the member name's slice without quotes, when the parent is an object */
        const JsonNode *parent;
        const JsonNode *first; /* first child, NULL if none */
        const JsonNode *next;  /* next sibling */
        size_t n_children;
};

enum {
        _JSON_SCAN_E_SUCCESS,
        JSON_SCAN_E_SYNTAX, /* error is filled in */
};

typedef struct JsonError {
        uint32_t line, column;
        char text[120]; /* one clause without the place, e.g. "expected ',' or '}'" */
} JsonError;

/*
 * Scans text. The text is borrowed and must outlive the document. Returns 0, JSON_SCAN_E_SYNTAX
 * with *ret_error filled, or -ENOMEM. An equal member name twice in one object (compared after
 * decoding of escapes) is a syntax error.
 */
int json_scan(const char *text, size_t size, JsonDoc **ret_doc, JsonError *ret_error);
JsonDoc *json_doc_free(JsonDoc *doc);
DEFINE_CLEANUP(JsonDoc, json_doc_free);

const JsonNode *json_doc_root(const JsonDoc *doc);
/* The bytes of the value, not NUL-terminated; size in node->size. */
const char *json_node_slice(const JsonDoc *doc, const JsonNode *node);
/* The member of that name, or NULL. The name is plain ASCII without escapes; node may be NULL or no
 * object. */
const JsonNode *json_node_member(const JsonDoc *doc, const JsonNode *node, const char *name);
/* The decoded member name of a child of an object, which has no U+0000: owned by the caller. */
int json_node_key(const JsonDoc *doc, const JsonNode *node, char **ret_key);
/* The same without a copy: the bytes are the document's, and not NUL-terminated. */
const char *json_node_key_bytes(const JsonDoc *doc, const JsonNode *node, size_t *ret_size);

enum {
        _JSON_NODE_E_SUCCESS,
        JSON_NODE_E_TYPE,  /* not of that type, or no node at all */
        JSON_NODE_E_RANGE, /* a number with fraction or exponent, or outside of the range */
        JSON_NODE_E_NUL,   /* a string that holds U+0000 */
};

/* Decoded, NUL-terminated, owned by the caller. ret_size may be NULL, then U+0000 is
 * JSON_NODE_E_NUL. */
int json_node_string(const JsonDoc *doc, const JsonNode *node, char **ret_string, size_t *ret_size);
int json_node_int64(const JsonDoc *doc, const JsonNode *node, int64_t *ret_value);
int json_node_uint64(const JsonDoc *doc, const JsonNode *node, uint64_t *ret_value);
int json_node_bool(const JsonNode *node, bool *ret_value);
/* Any number, by strtod in the C locale. */
int json_node_double(const JsonDoc *doc, const JsonNode *node, double *ret_value);
bool json_node_string_equal(const JsonDoc *doc, const JsonNode *node, const char *s);

/* "egress.allow[2].port" for a node; "" for the root. Owned by the caller, NULL if out of memory.
 */
char *json_node_path(const JsonDoc *doc, const JsonNode *node);
