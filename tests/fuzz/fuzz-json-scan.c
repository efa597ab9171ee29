/* SPDX-License-Identifier: Apache-2.0 */

/* Every node's promises, and agreement with jansson about which texts are JSON. */

#include "tests/fuzz/fuzz.h"

#include <jansson.h>

#include "basic/json-scan.h"
#include "basic/string-util.h"

static void check_string(const JsonDoc *doc, const JsonNode *node) {
        _cleanup_(freep) char *s = NULL, *again = NULL;
        size_t size = 0;
        int r;

        FUZZ_ASSERT(json_node_string(doc, node, &s, &size) == 0);
        FUZZ_ASSERT(s[size] == 0);
        r = json_node_string(doc, node, &again, NULL);
        FUZZ_ASSERT(r == (strlen(s) == size ? 0 : JSON_NODE_E_NUL));
        FUZZ_ASSERT(r > 0 || json_node_string_equal(doc, node, s));
}

static void check_number(const JsonDoc *doc, const JsonNode *node) {
        int64_t i = 0;
        uint64_t u = 0;
        double d = 0;
        int r;

        r = json_node_double(doc, node, &d);
        FUZZ_ASSERT(r == 0 || r == JSON_NODE_E_RANGE);
        if (json_node_int64(doc, node, &i) == 0 && json_node_uint64(doc, node, &u) == 0)
                FUZZ_ASSERT(i >= 0 && (uint64_t) i == u);
}

static void check_node(const JsonDoc *doc, const JsonNode *node, size_t size) {
        _cleanup_(freep) char *path = NULL;
        size_t n = 0;

        FUZZ_ASSERT(node->size > 0 && node->offset + node->size <= size);
        FUZZ_ASSERT(node->line > 0 && node->column > 0);
        if (node->type == JSON_NODE_STRING)
                check_string(doc, node);
        else if (node->type == JSON_NODE_NUMBER)
                check_number(doc, node);

        for (const JsonNode *child = node->first; child; child = child->next, n++) {
                FUZZ_ASSERT(child->parent == node);
                FUZZ_ASSERT(child->offset > node->offset &&
                            child->offset + child->size < node->offset + node->size);
                if (node->type == JSON_NODE_OBJECT) {
                        _cleanup_(freep) char *key = NULL;

                        FUZZ_ASSERT(json_node_key(doc, child, &key) == 0);
                        FUZZ_ASSERT(n > 100 || json_node_member(doc, node, key) == child);
                }
                check_node(doc, child, size);
        }
        FUZZ_ASSERT(n == node->n_children);
        if (n == 0) {
                path = json_node_path(doc, node);
                FUZZ_ASSERT(path);
        }
}

/* jansson holds integers in 64 bits, knows no bound of ours and takes a NUL byte for the end. */
static void check_against_jansson(const char *text, size_t size, int outcome,
                                  const JsonError *error) {
        json_error_t e;
        json_t *value;
        bool ours_only;

        value = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
                           &e);
        ours_only = outcome > 0 &&
                    (memchr(text, 0, size) || string_after(error->text, "nested deeper") ||
                     string_after(error->text, "more than"));
        if (value)
                FUZZ_ASSERT(outcome == 0 || ours_only);
        else if (json_error_code(&e) != json_error_numeric_overflow)
                FUZZ_ASSERT(outcome > 0);
        json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        const char *text = (const char *) data;
        JsonError error = {};
        int r;

        r = json_scan(text, size, &doc, &error);
        if (r == 0)
                check_node(doc, json_doc_root(doc), size);
        else {
                FUZZ_ASSERT(r == JSON_SCAN_E_SYNTAX && !doc);
                FUZZ_ASSERT(error.line > 0 && error.column > 0 && error.text[0]);
        }
        check_against_jansson(text, size, r, &error);
        return 0;
}
