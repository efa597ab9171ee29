/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/jsonrpc.h"

#include <jansson.h>
#include <stdio.h>

#include "basic/error.h"
#include "basic/utf8.h"

static void rpc_message_done(RpcMessage *message) {
        free(message->method);
        free(message->text);
}

RpcLine *rpc_line_free(RpcLine *line) {
        if (!line)
                return NULL;

        for (size_t i = 0; i < line->n_messages; i++)
                rpc_message_done(&line->messages[i]);
        free(line->messages);
        json_doc_free(line->doc);
        free(line);
        return NULL;
}

static int rpc_message_invalid(RpcMessage *message, int code, const char *text) {
        char *copy;

        copy = strdup(text);
        if (!copy)
                return error_origin(-ENOMEM);

        free(message->text);
        message->kind = RPC_INVALID;
        message->code = code;
        message->text = copy;
        return 0;
}

bool rpc_node_is_id(const JsonDoc *doc, const JsonNode *node) {
        if (!node || node->size > RPC_ID_MAX)
                return false;
        if (node->type == JSON_NODE_STRING)
                return true;
        return node->type == JSON_NODE_NUMBER &&
               !memchr(json_node_slice(doc, node), '.', node->size) &&
               !memchr(json_node_slice(doc, node), 'e', node->size) &&
               !memchr(json_node_slice(doc, node), 'E', node->size);
}

/* A message that has a result or an error and no method answers a request of ours. We send none. */
static bool rpc_node_is_response(const JsonDoc *doc, const JsonNode *node) {
        return !json_node_member(doc, node, "method") &&
               (json_node_member(doc, node, "result") || json_node_member(doc, node, "error"));
}

static int rpc_message_parse_method(const JsonDoc *doc, const JsonNode *node, RpcMessage *message) {
        const JsonNode *method = json_node_member(doc, node, "method");
        int r;

        if (!method)
                return rpc_message_invalid(message, RPC_INVALID_REQUEST,
                                           "the message has no member \"method\"");

        r = json_node_string(doc, method, &message->method, NULL);
        if (r > 0)
                return rpc_message_invalid(message, RPC_INVALID_REQUEST,
                                           "\"method\" must be a string without NUL");
        return error_trace(r);
}

static int rpc_message_parse(const JsonDoc *doc, const JsonNode *node, RpcMessage *message) {
        const JsonNode *version, *id, *params;

        if (node->type != JSON_NODE_OBJECT)
                return rpc_message_invalid(message, RPC_INVALID_REQUEST,
                                           "a message must be a JSON object");

        id = json_node_member(doc, node, "id");
        if (rpc_node_is_id(doc, id)) {
                message->id = json_node_slice(doc, id);
                message->id_size = id->size;
        }

        version = json_node_member(doc, node, "jsonrpc");
        if (!version || !json_node_string_equal(doc, version, "2.0"))
                return rpc_message_invalid(message, RPC_INVALID_REQUEST,
                                           "\"jsonrpc\" must be \"2.0\"");

        if (rpc_node_is_response(doc, node)) {
                message->kind = RPC_RESPONSE;
                return 0;
        }

        if (id && !message->id)
                return rpc_message_invalid(
                        message, RPC_INVALID_REQUEST,
                        "\"id\" must be a string or an integer, written without fraction and "
                        "exponent and at most 65536 bytes long");

        params = json_node_member(doc, node, "params");
        if (params && params->type != JSON_NODE_OBJECT)
                return rpc_message_invalid(message, id ? RPC_INVALID_PARAMS : RPC_INVALID_REQUEST,
                                           "\"params\" must be an object");

        message->params = params;
        message->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
        return rpc_message_parse_method(doc, node, message);
}

static int rpc_line_parse_batch(RpcLine *line, const JsonNode *root) {
        const JsonNode *node;
        int r;

        line->batch = true;
        if (root->n_children == 0 || root->n_children > RPC_BATCH_MAX) {
                line->code = RPC_INVALID_REQUEST;
                line->text = root->n_children == 0 ? "an array of messages must not be empty"
                                                   : "an array may hold 1024 messages at most";
                return 0;
        }

        line->messages = calloc(root->n_children, sizeof(RpcMessage));
        if (!line->messages)
                return error_origin(-ENOMEM);

        for (node = root->first; node; node = node->next) {
                r = rpc_message_parse(line->doc, node, &line->messages[line->n_messages++]);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int rpc_line_parse_single(RpcLine *line, const JsonNode *root, const JsonError *error) {
        char text[sizeof(error->text) + 64];

        line->messages = calloc(1, sizeof(RpcMessage));
        if (!line->messages)
                return error_origin(-ENOMEM);

        line->n_messages = 1;
        if (root)
                return error_trace(rpc_message_parse(line->doc, root, &line->messages[0]));

        (void) snprintf(text, sizeof(text), "not valid JSON, at byte %u: %s", error->column,
                        error->text);
        return error_trace(rpc_message_invalid(&line->messages[0], RPC_PARSE_ERROR, text));
}

int rpc_line_parse(const char *text, size_t size, RpcLine **ret_line) {
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;
        const JsonNode *root = NULL;
        JsonError error = {};
        int r;

        line = calloc(1, sizeof(RpcLine));
        if (!line)
                return error_origin(-ENOMEM);

        r = json_scan(text, size, &line->doc, &error);
        if (r < 0)
                return error_trace(r);
        if (r == 0)
                root = json_doc_root(line->doc);

        if (root && root->type == JSON_NODE_ARRAY)
                r = rpc_line_parse_batch(line, root);
        else
                r = rpc_line_parse_single(line, root, &error);
        if (r < 0)
                return error_trace(r);

        *ret_line = TAKE_PTR(line);
        return 0;
}

/* Ids were scanned before, so only strings with escapes need a closer look. */
bool rpc_id_equal(const char *a, size_t a_size, const char *b, size_t b_size) {
        _cleanup_(json_doc_freep) JsonDoc *da = NULL, *db = NULL;
        _cleanup_(freep) char *sa = NULL, *sb = NULL;
        size_t na, nb;
        JsonError error;

        if (a_size == b_size && memcmp(a, b, a_size) == 0)
                return true;
        if (a_size == 0 || b_size == 0 || a[0] != '"' || b[0] != '"')
                return false;
        if (!memchr(a, '\\', a_size) && !memchr(b, '\\', b_size))
                return false;

        if (json_scan(a, a_size, &da, &error) != 0 || json_scan(b, b_size, &db, &error) != 0 ||
            json_node_string(da, json_doc_root(da), &sa, &na) != 0 ||
            json_node_string(db, json_doc_root(db), &sb, &nb) != 0)
                return false;
        return na == nb && memcmp(sa, sb, na) == 0;
}

static int append_head(StrBuf *out, const char *id, size_t id_size) {
        int r;

        r = strbuf_append_string(out, "{\"jsonrpc\":\"2.0\",\"id\":");
        if (r < 0)
                return r;
        return id ? strbuf_append(out, id, id_size) : strbuf_append_string(out, "null");
}

int rpc_append_result(StrBuf *out, const char *id, size_t id_size, const char *result,
                      size_t result_size) {
        int r;

        r = append_head(out, id, id_size);
        if (r == 0)
                r = strbuf_append_string(out, ",\"result\":");
        if (r == 0)
                r = strbuf_append(out, result, result_size);
        if (r == 0)
                r = strbuf_append_byte(out, '}');
        return error_trace(r);
}

int rpc_append_error(StrBuf *out, const char *id, size_t id_size, int code, const char *text,
                     const char *data) {
        int r;

        r = append_head(out, id, id_size);
        if (r == 0)
                r = strbuf_appendf(out, ",\"error\":{\"code\":%d,\"message\":", code);
        if (r == 0)
                r = rpc_append_string(out, text, strlen(text));
        if (r == 0 && data)
                r = strbuf_append_string(out, ",\"data\":");
        if (r == 0 && data)
                r = strbuf_append_string(out, data);
        if (r == 0)
                r = strbuf_append_string(out, "}}");
        return error_trace(r);
}

int rpc_append_notification(StrBuf *out, const char *method, const char *params,
                            size_t params_size) {
        int r;

        r = strbuf_appendf(out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\"", method);
        if (r == 0 && params)
                r = strbuf_append_string(out, ",\"params\":");
        if (r == 0 && params)
                r = strbuf_append(out, params, params_size);
        if (r == 0)
                r = strbuf_append_byte(out, '}');
        return error_trace(r);
}

/* Copies text, with U+FFFD in place of each byte that belongs to no character. */
static int append_valid(StrBuf *out, const char *text, size_t size) {
        int r = 0;

        while (r == 0 && size > 0) {
                size_t valid = utf8_valid_size(text, size);

                r = strbuf_append(out, text, valid);
                text += valid;
                size -= valid;
                if (r == 0 && size > 0) {
                        r = strbuf_append_string(out, "\xef\xbf\xbd");
                        text++;
                        size--;
                }
        }
        return error_trace(r);
}

int rpc_append_string(StrBuf *out, const char *text, size_t size) {
        _cleanup_(strbuf_done) StrBuf valid = STRBUF_NULL;
        _cleanup_(freep) char *quoted = NULL;
        json_t *string;
        int r;

        r = append_valid(&valid, text, size);
        if (r < 0)
                return error_trace(r);

        string = json_stringn_nocheck(valid.data ?: "", valid.size);
        quoted = json_dumps(string, JSON_ENCODE_ANY | JSON_COMPACT);
        json_decref(string);
        if (!quoted)
                return error_origin(-ENOMEM);
        return error_trace(strbuf_append_string(out, quoted));
}
