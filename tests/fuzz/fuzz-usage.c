/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What an answer of a language model tells of tokens, in any text. It does not matter in which
 * pieces it comes. Of a JSON document it is what a reader of JSON finds there; an event of a stream
 * tells the same as the document alone, whatever came before it.
 */

#include "tests/fuzz/fuzz.h"

#include "basic/json-scan.h"
#include "basic/string-util.h"
#include "egress/usage.h"

#define DIGITS_MAX 15U

static Usage read_pieces(const char *data, size_t size, size_t piece) {
        Usage usage = USAGE_NULL;

        for (size_t at = 0; at < size; at += piece)
                usage_scan(&usage, data + at, size - at < piece ? size - at : piece);
        return usage;
}

static void check_equal(const Usage *a, const Usage *b) {
        FUZZ_ASSERT(a->has_input == b->has_input && a->has_output == b->has_output);
        FUZZ_ASSERT(!a->has_input || a->input == b->input);
        FUZZ_ASSERT(!a->has_output || a->output == b->output);
}

/* --- by a reader of JSON --- */

static bool key_is(const JsonDoc *doc, const JsonNode *node, const char *key) {
        size_t size;
        const char *bytes = json_node_key_bytes(doc, node, &size);

        return size == strlen(key) && memcmp(bytes, key, size) == 0;
}

static void take_count(const JsonDoc *doc, const JsonNode *node, bool *has, uint64_t *count) {
        const char *text = json_node_slice(doc, node);
        uint64_t number = 0;

        if (node->type != JSON_NODE_NUMBER || node->size > DIGITS_MAX)
                return;
        for (size_t i = 0; i < node->size; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return;
                number = number * 10 + (uint64_t) (text[i] - '0');
        }
        *has = true;
        *count = number;
}

static void take_usage(const JsonDoc *doc, const JsonNode *object, Usage *usage) {
        if (object->type != JSON_NODE_OBJECT)
                return;
        for (const JsonNode *node = object->first; node; node = node->next)
                if (key_is(doc, node, "input_tokens") || key_is(doc, node, "prompt_tokens"))
                        take_count(doc, node, &usage->has_input, &usage->input);
                else if (key_is(doc, node, "output_tokens") ||
                         key_is(doc, node, "completion_tokens"))
                        take_count(doc, node, &usage->has_output, &usage->output);
}

static Usage read_document(const JsonDoc *doc) {
        const JsonNode *root = json_doc_root(doc);
        Usage usage = USAGE_NULL;

        if (root->type != JSON_NODE_OBJECT)
                return usage;
        for (const JsonNode *node = root->first; node; node = node->next)
                if (key_is(doc, node, "usage"))
                        take_usage(doc, node, &usage);
                else if (node->type == JSON_NODE_OBJECT &&
                         (key_is(doc, node, "message") || key_is(doc, node, "response")))
                        for (const JsonNode *child = node->first; child; child = child->next)
                                if (key_is(doc, child, "usage"))
                                        take_usage(doc, child, &usage);
        return usage;
}

/* --- as an event --- */

static void check_event(const char *before, const char *data, size_t size, const Usage *expected) {
        _cleanup_(strbuf_done) StrBuf stream = STRBUF_NULL;
        Usage usage = USAGE_NULL;

        FUZZ_ASSERT(strbuf_appendf(&stream, "%s\n\ndata: ", before) == 0);
        FUZZ_ASSERT(strbuf_append(&stream, data, size) == 0);
        FUZZ_ASSERT(strbuf_append_string(&stream, "\n\n") == 0);
        usage_scan(&usage, stream.data, stream.size);
        check_equal(&usage, expected);
}

/* An escape in a key is not read as what it stands for, and need not be. */
static void check_document(const char *data, size_t size, const Usage *usage) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        Usage expected;

        if (size == 0 || memchr(data, '\\', size) || memchr(data, '\n', size) ||
            memchr(data, '\r', size) || json_scan(data, size, &doc, &error) != 0)
                return;
        expected = read_document(doc);
        check_equal(usage, &expected);
        check_event("event: x", data, size, usage);
        check_event("data: {\"message\":{\"usage\":{\"x\":[\"", data, size, usage);
        check_event("data: [DONE] \"", data, size, usage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *) data;
        Usage whole = USAGE_NULL;

        usage_scan(&whole, text, size);
        FUZZ_ASSERT(!whole.has_input || whole.input < 1000000000000000U);
        FUZZ_ASSERT(!whole.has_output || whole.output < 1000000000000000U);
        for (size_t piece = 1; piece <= 7; piece += 3) {
                Usage pieces = read_pieces(text, size, piece);

                check_equal(&whole, &pieces);
        }
        check_document(text, size, &whole);
        return 0;
}
