/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-redact.h"

#include <string.h>

#include "basic/error.h"
#include "basic/json-scan.h"

#define REDACTED "\"[redacted]\""

typedef struct Redaction {
        const JsonDoc *doc;
        StrBuf *out;
        size_t max; /* size of out at which there is enough */
} Redaction;

static bool is_secret(const char *name) {
        static const char *const words[] = {"password",    "passwd",     "passphrase",    "secret",
                                            "token",       "apikey",     "api_key",       "api-key",
                                            "private_key", "credential", "authorization", "cookie"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strcasestr(name, words[i]))
                        return true;
        return false;
}

static int redact_node(const Redaction *redaction, const JsonNode *node, bool secret);

static int redact_member(const Redaction *redaction, const JsonNode *node, bool secret) {
        _cleanup_(freep) char *name = NULL;
        int r;

        r = json_node_key(redaction->doc, node, &name);
        if (r == -ENOMEM)
                return error_trace(r);
        /* A name with NUL cannot be looked at. */
        if (r < 0 || is_secret(name))
                secret = true;

        r = strbuf_append_byte(redaction->out, '"');
        if (r == 0)
                r = strbuf_append(redaction->out,
                                  json_node_slice(redaction->doc, node) -
                                          (node->offset - node->key_offset),
                                  node->key_size);
        if (r == 0)
                r = strbuf_append_string(redaction->out, "\":");
        /* An environment keeps its names. */
        if (r == 0 && string_equal(name, "env") && node->type == JSON_NODE_OBJECT)
                return redact_node(redaction, node, true);
        if (r == 0 && secret)
                return error_trace(strbuf_append_string(redaction->out, REDACTED));
        return r < 0 ? error_trace(r) : redact_node(redaction, node, false);
}

static int redact_children(const Redaction *redaction, const JsonNode *node, bool secret) {
        bool object = node->type == JSON_NODE_OBJECT;
        int r;

        r = strbuf_append_byte(redaction->out, object ? '{' : '[');
        for (const JsonNode *child = node->first;
             r == 0 && child && redaction->out->size < redaction->max; child = child->next) {
                r = child == node->first ? 0 : strbuf_append_byte(redaction->out, ',');
                if (r == 0)
                        r = object ? redact_member(redaction, child, secret)
                                   : redact_node(redaction, child, secret);
        }
        if (r == 0)
                r = strbuf_append_byte(redaction->out, object ? '}' : ']');
        return error_trace(r);
}

static int redact_node(const Redaction *redaction, const JsonNode *node, bool secret) {
        if (node->type == JSON_NODE_OBJECT || node->type == JSON_NODE_ARRAY)
                return redact_children(redaction, node, secret);
        if (secret)
                return error_trace(strbuf_append_string(redaction->out, REDACTED));
        return error_trace(
                strbuf_append(redaction->out, json_node_slice(redaction->doc, node), node->size));
}

int audit_redact(StrBuf *out, const char *json, size_t size, size_t max) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        Redaction redaction = {.out = out, .max = out->size + max};
        JsonError error;
        int r;

        r = json_scan(json, size, &doc, &error);
        if (r < 0)
                return error_trace(r);
        /* Too much for one document, or none: nothing of it can be told apart. */
        if (r > 0)
                return error_trace(strbuf_append_string(out, "[not readable]"));

        redaction.doc = doc;
        return redact_node(&redaction, json_doc_root(doc), false);
}
