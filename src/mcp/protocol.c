/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/protocol.h"

#include <inttypes.h>

#include "basic/error.h"

#define SERVER_INFO                                                                                \
        "{\"name\":\"" MCP_SERVER_NAME                                                             \
        "\",\"title\":\"AgentCrate\",\"version\":\"" PACKAGE_VERSION "\"}"
/* Every modern result says that it is whole, and who gives it. */
#define MODERN_MEMBERS                                                                             \
        "\"resultType\":\"complete\",\"_meta\":{\"" MCP_META_SERVER "\":" SERVER_INFO "}"
/* What is listed depends on who asks and may change with the policy at any time. */
#define MODERN_CACHE "\"ttlMs\":0,\"cacheScope\":\"private\""
#define CAPABILITIES "{\"tools\":{\"listChanged\":true}}"
#define INSTRUCTIONS                                                                               \
        "\"Commands run in fresh sandboxes without network. A result with isError names what "     \
        "was wrong or which limit was met, and what to change.\""

typedef struct McpContext {
        const Tools *tools;
        McpPeer *peer;
        const RpcLine *line;
        const RpcMessage *message;
        const JsonNode *meta;
        bool modern;
} McpContext;

typedef struct McpMethod {
        const char *name;
        bool legacy, modern; /* the eras that have it */
        int (*handle)(const McpContext *context, McpRequest *request);
} McpMethod;

void mcp_peer_done(McpPeer *peer) {
        free(peer->client);
        *peer = MCP_PEER_NULL;
}

void mcp_request_done(McpRequest *request) {
        strbuf_done(&request->answer);
        free(request->client);
        free(request->tool);
        *request = MCP_REQUEST_NULL;
}

bool mcp_peer_has_batches(const McpPeer *peer) {
        return peer->initialized && mcp_revision_has_batches(peer->revision);
}

static int answer_error(McpRequest *request, int code, const char *text) {
        request->action = MCP_ANSWER;
        return rpc_append_error(&request->answer, request->id, request->id_size, code, text, NULL);
}

static int answer_result(McpRequest *request, const char *result) {
        request->action = MCP_ANSWER;
        return rpc_append_result(&request->answer, request->id, request->id_size, result,
                                 strlen(result));
}

/* "name/version" of a clientInfo. What is not as it should be is left out. */
static int take_client(const JsonDoc *doc, const JsonNode *info, char **client, size_t *ret_size) {
        const JsonNode *node = json_node_member(doc, info, "name");
        const JsonNode *version = json_node_member(doc, info, "version");
        _cleanup_(freep) char *name = NULL, *number = NULL, *joined = NULL;
        size_t name_size = 0, number_size = 0, size;

        if (!node || json_node_string(doc, node, &name, &name_size) != 0)
                return 0;
        if (version && json_node_string(doc, version, &number, &number_size) != 0)
                number = NULL;
        size = name_size + (number ? 1 + number_size : 0);
        joined = calloc(1, size_min(size, MCP_CLIENT_MAX) + 1);
        if (!joined)
                return error_origin(-ENOMEM);
        memcpy(joined, name, size_min(name_size, MCP_CLIENT_MAX));
        if (number && name_size < MCP_CLIENT_MAX) {
                joined[name_size] = '/';
                memcpy(joined + name_size + 1, number,
                       size_min(number_size, MCP_CLIENT_MAX - name_size - 1));
        }
        free(*client);
        *client = TAKE_PTR(joined);
        *ret_size = size;
        return 0;
}

/* --- methods --- */

static int handle_initialize(const McpContext *context, McpRequest *request) {
        _cleanup_(strbuf_done) StrBuf result = STRBUF_NULL;
        _cleanup_(freep) char *asked = NULL;
        const JsonNode *version;
        McpRevision revision;
        int r;

        version = json_node_member(context->line->doc, context->message->params, "protocolVersion");
        if (!version)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.protocolVersion is missing");
        r = json_node_string(context->line->doc, version, &asked, NULL);
        if (r < 0)
                return r;
        if (r > 0)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.protocolVersion must be a string");

        /* What this handshake cannot settle gets the newest that it can. */
        revision = mcp_revision_from_string(asked);
        if (revision == _MCP_REVISION_INVALID || mcp_revision_modern(revision))
                revision = MCP_REVISION_LEGACY_LATEST;

        r = strbuf_appendf(&result,
                           "{\"protocolVersion\":\"%s\",\"capabilities\":" CAPABILITIES
                           ",\"serverInfo\":" SERVER_INFO ",\"instructions\":" INSTRUCTIONS "}",
                           mcp_revision_to_string(revision));
        if (r < 0)
                return r;

        r = take_client(
                context->line->doc,
                json_node_member(context->line->doc, context->message->params, "clientInfo"),
                &context->peer->client, &context->peer->client_size);
        if (r < 0)
                return error_trace(r);
        context->peer->initialized = true;
        context->peer->revision = request->revision = revision;
        return answer_result(request, result.data);
}

static int handle_ping(const McpContext *context _unused_, McpRequest *request) {
        return answer_result(request, "{}");
}

static int handle_discover(const McpContext *context _unused_, McpRequest *request) {
        return answer_result(
                request, "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":" CAPABILITIES
                         ",\"instructions\":" INSTRUCTIONS "," MODERN_CACHE "," MODERN_MEMBERS "}");
}

static int handle_tools_list(const McpContext *context, McpRequest *request) {
        _cleanup_(strbuf_done) StrBuf result = STRBUF_NULL;
        const JsonNode *cursor;
        int r;

        /* All tools fit into one page, so no cursor was ever given out. */
        cursor = json_node_member(context->line->doc, context->message->params, "cursor");
        if (cursor && !json_node_string_equal(context->line->doc, cursor, ""))
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.cursor is none of this server's: list without one");

        r = strbuf_appendf(&result, "{\"tools\":%s%s}", context->tools->json[request->revision],
                           context->modern ? "," MODERN_CACHE "," MODERN_MEMBERS : "");
        if (r < 0)
                return r;
        return answer_result(request, result.data);
}

static int handle_tools_call(const McpContext *context, McpRequest *request) {
        const JsonNode *params = context->message->params, *name, *arguments;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        name = json_node_member(context->line->doc, params, "name");
        if (!name)
                return answer_error(request, RPC_INVALID_PARAMS, "params.name is missing");
        r = json_node_string(context->line->doc, name, &request->tool, NULL);
        if (r < 0)
                return r;
        if (r > 0)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.name must be a string without NUL");

        arguments = json_node_member(context->line->doc, params, "arguments");
        if (arguments && arguments->type != JSON_NODE_OBJECT)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.arguments must be an object");

        if (!tools_have(context->tools, request->tool)) {
                r = strbuf_appendf(&text, "there is no tool \"%.128s\"; tools/list lists them",
                                   request->tool);
                if (r < 0)
                        return r;
                return answer_error(request, RPC_INVALID_PARAMS, text.data);
        }

        request->action = MCP_CALL;
        request->arguments = arguments;
        return 0;
}

/* Tools are all that there are lists of here: nothing else of what is asked for is promised. */
static int handle_listen(const McpContext *context, McpRequest *request) {
        _cleanup_(strbuf_done) StrBuf params = STRBUF_NULL;
        const JsonDoc *doc = context->line->doc;
        const JsonNode *wanted, *tools;
        int r;

        wanted = json_node_member(doc, context->message->params, "notifications");
        if (!wanted || wanted->type != JSON_NODE_OBJECT)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.notifications must be an object");

        tools = json_node_member(doc, wanted, "toolsListChanged");
        if (tools && json_node_bool(tools, &request->listen_tools) != 0)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params.notifications.toolsListChanged must be true or false");

        r = strbuf_append_string(&params, "{\"_meta\":{\"" MCP_META_SUBSCRIPTION "\":");
        if (r == 0)
                r = strbuf_append(&params, request->id, request->id_size);
        if (r == 0)
                r = strbuf_appendf(&params, "},\"notifications\":{%s}}",
                                   request->listen_tools ? "\"toolsListChanged\":true" : "");
        if (r == 0)
                r = rpc_append_notification(&request->answer,
                                            "notifications/subscriptions/acknowledged", params.data,
                                            params.size);
        if (r == 0)
                request->action = MCP_LISTEN;
        return r;
}

static const McpMethod methods[] = {
        {"initialize", true, false, handle_initialize},
        {"ping", true, false, handle_ping},
        {"server/discover", false, true, handle_discover},
        {"subscriptions/listen", false, true, handle_listen},
        {"tools/call", true, true, handle_tools_call},
        {"tools/list", true, true, handle_tools_list},
};

static const McpMethod *method_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(methods); i++)
                if (string_equal(methods[i].name, name))
                        return &methods[i];
        return NULL;
}

/* --- what comes before a method --- */

static bool log_level_known(const JsonDoc *doc, const JsonNode *level) {
        static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                             "error", "critical", "alert",  "emergency"};

        for (size_t i = 0; i < ELEMENTSOF(levels); i++)
                if (json_node_string_equal(doc, level, levels[i]))
                        return true;
        return false;
}

/* The members of _meta that make a request modern. Sets request->action if they are wrong. */
static int check_modern(const McpContext *context, const JsonNode *version, McpRequest *request) {
        const JsonDoc *doc = context->line->doc;
        _cleanup_(strbuf_done) StrBuf data = STRBUF_NULL;
        const JsonNode *capabilities, *level;
        int r;

        if (version->type != JSON_NODE_STRING)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params._meta[\"" MCP_META_VERSION "\"] must be a string");

        if (!json_node_string_equal(doc, version, "2026-07-28")) {
                r = strbuf_append_string(&data, "{\"supported\":[\"2026-07-28\"],\"requested\":");
                if (r == 0)
                        r = strbuf_append(&data, json_node_slice(doc, version), version->size);
                if (r == 0)
                        r = strbuf_append_byte(&data, '}');
                if (r < 0)
                        return r;
                request->action = MCP_ANSWER;
                return rpc_append_error(&request->answer, request->id, request->id_size,
                                        RPC_UNSUPPORTED_VERSION, "Unsupported protocol version",
                                        data.data);
        }

        capabilities = json_node_member(doc, context->meta, MCP_META_CAPABILITIES);
        if (!capabilities || capabilities->type != JSON_NODE_OBJECT)
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params._meta[\"" MCP_META_CAPABILITIES
                                    "\"] must be an object");

        level = json_node_member(doc, context->meta, MCP_META_LOG_LEVEL);
        if (level && !log_level_known(doc, level))
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params._meta[\"" MCP_META_LOG_LEVEL "\"] is no log level");
        return 0;
}

static int check_progress_token(const McpContext *context, McpRequest *request) {
        const JsonNode *token;

        token = json_node_member(context->line->doc, context->meta, "progressToken");
        if (!token)
                return 0;
        if (!rpc_node_is_id(context->line->doc, token))
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params._meta.progressToken must be a string or an integer");

        request->progress_token = json_node_slice(context->line->doc, token);
        request->progress_token_size = token->size;
        return 0;
}

/* Settles era and revision of a request. Sets request->action if it has none. */
static int check_era(McpContext *context, const McpMethod *method, McpRequest *request) {
        const JsonNode *version;
        int r;

        version = json_node_member(context->line->doc, context->meta, MCP_META_VERSION);
        if (version && !string_equal(method->name, "initialize")) {
                r = check_modern(context, version, request);
                if (r < 0 || request->action != MCP_NOTHING)
                        return r;
                context->modern = true;
                request->revision = MCP_REVISION_LATEST;
                r = take_client(
                        context->line->doc,
                        json_node_member(context->line->doc, context->meta, MCP_META_CLIENT),
                        &request->client, &request->client_size);
                if (r < 0)
                        return error_trace(r);
                if (!method->modern)
                        return answer_error(request, RPC_METHOD_NOT_FOUND,
                                            "revision 2026-07-28 has no such method");
                return 0;
        }

        request->revision = context->peer->revision;
        if (!method->legacy && context->peer->initialized)
                return answer_error(request, RPC_METHOD_NOT_FOUND,
                                    "the negotiated revision has no such method");
        if (!method->legacy || (method->modern && !context->peer->initialized))
                return answer_error(request, RPC_INVALID_PARAMS,
                                    "params._meta[\"" MCP_META_VERSION
                                    "\"] is missing, and no initialize was sent");
        return 0;
}

static int handle_request(McpContext *context, McpRequest *request) {
        const McpMethod *method;
        int r;

        method = method_find(context->message->method);
        if (!method)
                return answer_error(request, RPC_METHOD_NOT_FOUND, "Method not found");

        context->meta = json_node_member(context->line->doc, context->message->params, "_meta");
        if (context->meta && context->meta->type != JSON_NODE_OBJECT)
                return answer_error(request, RPC_INVALID_PARAMS, "params._meta must be an object");
        request->meta = context->meta;

        r = check_era(context, method, request);
        if (r < 0 || request->action != MCP_NOTHING)
                return r;
        r = check_progress_token(context, request);
        if (r < 0 || request->action != MCP_NOTHING)
                return r;

        return method->handle(context, request);
}

/* Notifications are never answered: what is unknown or wrong is dropped. */
static void handle_notification(const McpContext *context, McpRequest *request) {
        const RpcMessage *message = context->message;
        const JsonNode *target;

        if (string_equal(message->method, MCP_CONNECTION_METHOD)) {
                request->action = MCP_CONNECTION;
                request->params = message->params;
        } else if (string_equal(message->method, "notifications/cancelled")) {
                target = json_node_member(context->line->doc, message->params, "requestId");
                if (!rpc_node_is_id(context->line->doc, target))
                        return;
                request->action = MCP_CANCEL;
                request->target = json_node_slice(context->line->doc, target);
                request->target_size = target->size;
        }
}

int mcp_handle(const Tools *tools, McpPeer *peer, const RpcLine *line, const RpcMessage *message,
               McpRequest *ret_request) {
        McpContext context = {.tools = tools, .peer = peer, .line = line, .message = message};
        _cleanup_(mcp_request_done) McpRequest request = MCP_REQUEST_NULL;
        int r = 0;

        request.id = message->id;
        request.id_size = message->id_size;

        switch (message->kind) {
        case RPC_INVALID:
                r = answer_error(&request, message->code, message->text);
                break;
        case RPC_REQUEST:
                r = handle_request(&context, &request);
                break;
        case RPC_NOTIFICATION:
                handle_notification(&context, &request);
                break;
        case RPC_RESPONSE:
                break;
        }
        if (r < 0)
                return error_trace(r);

        *ret_request = request;
        request = MCP_REQUEST_NULL;
        return 0;
}

/* --- what a call sends --- */

int mcp_append_call_result(StrBuf *out, McpRevision revision, const char *id, size_t id_size,
                           const char *content, const char *structured, bool is_error) {
        _cleanup_(strbuf_done) StrBuf result = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&result, "{\"content\":");
        if (r == 0)
                r = strbuf_append_string(&result, content);
        if (r == 0 && structured && mcp_revision_has_structured(revision)) {
                r = strbuf_append_string(&result, ",\"structuredContent\":");
                if (r == 0)
                        r = strbuf_append_string(&result, structured);
        }
        if (r == 0)
                r = strbuf_append_string(&result,
                                         is_error ? ",\"isError\":true" : ",\"isError\":false");
        if (r == 0 && mcp_revision_modern(revision))
                r = strbuf_append_string(&result, "," MODERN_MEMBERS);
        if (r == 0)
                r = strbuf_append_byte(&result, '}');
        if (r == 0)
                r = rpc_append_result(out, id, id_size, result.data, result.size);
        return error_trace(r);
}

int mcp_append_tool_error(StrBuf *out, McpRevision revision, const char *id, size_t id_size,
                          const char *text) {
        _cleanup_(strbuf_done) StrBuf content = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&content, "[{\"type\":\"text\",\"text\":");
        if (r == 0)
                r = rpc_append_string(&content, text, strlen(text));
        if (r == 0)
                r = strbuf_append_string(&content, "}]");
        if (r == 0)
                r = mcp_append_call_result(out, revision, id, id_size, content.data, NULL, true);
        return error_trace(r);
}

int mcp_append_progress(StrBuf *out, McpRevision revision, const char *token, size_t token_size,
                        uint64_t progress, const char *text, size_t text_size) {
        _cleanup_(strbuf_done) StrBuf params = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&params, "{\"progressToken\":");
        if (r == 0)
                r = strbuf_append(&params, token, token_size);
        if (r == 0)
                r = strbuf_appendf(&params, ",\"progress\":%" PRIu64, progress);
        if (r == 0 && text && mcp_revision_has_progress_text(revision)) {
                r = strbuf_append_string(&params, ",\"message\":");
                if (r == 0)
                        r = rpc_append_string(&params, text, text_size);
        }
        if (r == 0)
                r = strbuf_append_byte(&params, '}');
        if (r == 0)
                r = rpc_append_notification(out, "notifications/progress", params.data,
                                            params.size);
        return error_trace(r);
}

int mcp_append_tools_changed(StrBuf *out, const char *subscription) {
        _cleanup_(strbuf_done) StrBuf params = STRBUF_NULL;
        int r = 0;

        if (subscription)
                r = strbuf_appendf(&params, "{\"_meta\":{\"" MCP_META_SUBSCRIPTION "\":%s}}",
                                   subscription);
        if (r == 0)
                r = rpc_append_notification(out, "notifications/tools/list_changed", params.data,
                                            params.size);
        return error_trace(r);
}

int mcp_append_listen_end(StrBuf *out, const char *id, size_t id_size) {
        _cleanup_(strbuf_done) StrBuf result = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&result,
                                 "{\"resultType\":\"complete\",\"_meta\":{\"" MCP_META_SERVER
                                 "\":" SERVER_INFO ",\"" MCP_META_SUBSCRIPTION "\":");
        if (r == 0)
                r = strbuf_append(&result, id, id_size);
        if (r == 0)
                r = strbuf_append_string(&result, "}}");
        if (r == 0)
                r = rpc_append_result(out, id, id_size, result.data, result.size);
        return error_trace(r);
}
