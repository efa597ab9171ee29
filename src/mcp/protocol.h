/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * MCP, both eras, as pure functions: a message and what the connection has settled so far go in;
 * out comes an answer to send, or something that the caller must do.
 *
 * The era is the request's own. One whose params._meta names a protocol version is modern and
 * stands by itself: nothing that was said before counts. Any other one is legacy and is served by
 * what initialize has settled on its connection. initialize is always legacy.
 */

#include "basic/string-util.h"
#include "mcp/jsonrpc.h"
#include "mcp/revision.h"
#include "mcp/tools.h"

#define MCP_SERVER_NAME "agentcrate"
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"
#define MCP_CONNECTION_METHOD "notifications/agentcrate/connection"

/* What is kept of the name of a client: it is shown, and believed by nobody. */
#define MCP_CLIENT_MAX 512U

/* What a connection has settled by initialize. */
typedef struct McpPeer {
        bool initialized;
        McpRevision revision;
        char *client;       /* "name/version", its beginning; NULL: it told none */
        size_t client_size; /* of the whole */
} McpPeer;

#define MCP_PEER_NULL ((McpPeer){.revision = _MCP_REVISION_INVALID})

typedef enum McpAction {
        MCP_NOTHING,    /* nothing to do, nothing to send */
        MCP_ANSWER,     /* send answer */
        MCP_CALL,       /* tools/call of a tool that exists */
        MCP_CANCEL,     /* give up the request with the id in target */
        MCP_LISTEN,     /* send answer (the acknowledgement) and keep the request open */
        MCP_CONNECTION, /* our own bridge tells about its connection, see params */
} McpAction;

typedef struct McpRequest {
        McpAction action;
        McpRevision revision;
        StrBuf answer; /* one frame without newline */

        /* Raw slices and nodes of the line; NULL where there is none. */
        const char *id;
        size_t id_size;
        const char *target;
        size_t target_size;
        const char *progress_token;
        size_t progress_token_size;
        const JsonNode *params;
        const JsonNode *meta;      /* of a request: its params._meta; NULL: none */
        const JsonNode *arguments; /* MCP_CALL; NULL: none */
        char *tool;                /* MCP_CALL, and what was named if there is no such tool */
        char *client;              /* of a modern request, as in McpPeer */
        size_t client_size;
        bool listen_tools; /* MCP_LISTEN: wants to hear of another list of tools */
} McpRequest;

#define MCP_REQUEST_NULL ((McpRequest){.revision = _MCP_REVISION_INVALID})

void mcp_peer_done(McpPeer *peer);
void mcp_request_done(McpRequest *request);

/*
 * Looks at one message of a line. Invalid messages, unknown methods and wrong params become
 * MCP_ANSWER with the error. peer is changed by initialize only. 0 or -ENOMEM.
 */
int mcp_handle(const Tools *tools, McpPeer *peer, const RpcLine *line, const RpcMessage *message,
               McpRequest *ret_request);

/* Whether this peer may send arrays. */
bool mcp_peer_has_batches(const McpPeer *peer);

/*
 * The answer to tools/call: content is a JSON array, structured a JSON object or NULL. Members that
 * the revision does not know are left out.
 */
int mcp_append_call_result(StrBuf *out, McpRevision revision, const char *id, size_t id_size,
                           const char *content, const char *structured, bool is_error);
/* One text as content, without structured content: what a denial or a wrong argument is told by. */
int mcp_append_tool_error(StrBuf *out, McpRevision revision, const char *id, size_t id_size,
                          const char *text);
/* A step of a call: progress must grow from one to the next. */
int mcp_append_progress(StrBuf *out, McpRevision revision, const char *token, size_t token_size,
                        uint64_t progress, const char *text, size_t text_size);
/* The list of tools is another: to a legacy peer (subscription NULL), or to a subscription, by its
 * raw id. */
int mcp_append_tools_changed(StrBuf *out, const char *subscription);
/* The graceful end of a subscription. */
int mcp_append_listen_end(StrBuf *out, const char *id, size_t id_size);
