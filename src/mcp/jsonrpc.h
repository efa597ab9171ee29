/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON-RPC 2.0: one line of text into messages, and the frames of answers. Ids are kept and given
 * back as the bytes they came as, so that 0, "0", "" and 9007199254740993 stay what they are.
 *
 * A line is one message or, where the negotiated revision of MCP has them, an array of messages.
 * What is no message at all becomes an RPC_INVALID with the code and text of the answer that it
 * deserves; the connection lives.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/json-scan.h"
#include "basic/string-util.h"

/* Codes of JSON-RPC and of MCP that this implementation sends. */
enum {
        RPC_PARSE_ERROR = -32700,
        RPC_INVALID_REQUEST = -32600,
        RPC_METHOD_NOT_FOUND = -32601,
        RPC_INVALID_PARAMS = -32602,
        RPC_INTERNAL_ERROR = -32603,
        RPC_UNSUPPORTED_VERSION = -32022, /* MCP 2026-07-28 */
};

#define RPC_ID_MAX 65536U
#define RPC_BATCH_MAX 1024U

typedef enum RpcKind {
        RPC_INVALID,
        RPC_REQUEST,
        RPC_NOTIFICATION,
        RPC_RESPONSE,
} RpcKind;

typedef struct RpcMessage {
        RpcKind kind;
        const char *id; /* raw slice; NULL if there is none that can be given back */
        size_t id_size;
        char *method;           /* of requests and notifications */
        const JsonNode *params; /* an object, or NULL */
        int code;               /* of RPC_INVALID */
        char *text;             /* of RPC_INVALID, one sentence */
} RpcMessage;

typedef struct RpcLine {
        JsonDoc *doc; /* NULL if the line is not JSON */
        bool batch;   /* the line is an array */
        RpcMessage *messages;
        size_t n_messages; /* 0 only for an array that has too many or none; then see code */
        int code;          /* of a batch that is refused as a whole; else 0 */
        const char *text;
} RpcLine;

RpcLine *rpc_line_free(RpcLine *line);
DEFINE_CLEANUP(RpcLine, rpc_line_free);

/* Parses a line; text is borrowed and must outlive the result. 0 or -ENOMEM. */
int rpc_line_parse(const char *text, size_t size, RpcLine **ret_line);

/* Whether two raw ids mean the same: same type, same number text, same decoded string. */
bool rpc_id_equal(const char *a, size_t a_size, const char *b, size_t b_size);
/* Whether a node can be an id or a progress token: a string, or a number without fraction and
 * exponent. */
bool rpc_node_is_id(const JsonDoc *doc, const JsonNode *node);

/*
 * Frames, without the newline. The id is a raw slice, NULL for null. result, params and data are
 * JSON text on one line; data and params may be NULL. All return 0 or -ENOMEM.
 */
int rpc_append_result(StrBuf *out, const char *id, size_t id_size, const char *result,
                      size_t result_size);
int rpc_append_error(StrBuf *out, const char *id, size_t id_size, int code, const char *text,
                     const char *data);
int rpc_append_notification(StrBuf *out, const char *method, const char *params,
                            size_t params_size);
/* A JSON string of text, in quotes; bytes that are no UTF-8 become U+FFFD. */
int rpc_append_string(StrBuf *out, const char *text, size_t size);
