/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include <inttypes.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "cli/broker-socket.h"
#include "mcp/jsonrpc.h"
#include "mcp/protocol.h"

/* An answer carries up to two streams of output, escaped: this is far above what a broker sends. */
#define LINE_MAX_SIZE ((size_t) 256 << 20)
#define CHUNK_SIZE 65536U

void client_reply_done(ClientReply *reply) {
        if (reply->doc)
                reply->doc = json_doc_free(reply->doc);
        free(reply->line);
        *reply = (ClientReply){};
}

void client_done(Client *client) {
        client->fd = fd_close(client->fd);
        framer_done(&client->framer);
}

static int client_send(Client *client, const StrBuf *out) {
        size_t done = 0;

        while (done < out->size) {
                ssize_t n = send(client->fd, out->data + done, out->size - done, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                /* The broker may have closed after saying why: that is read next. */
                if (n < 0)
                        return errno == EPIPE || errno == ECONNRESET
                                       ? 0
                                       : error_origin(negative_errno());
                done += (size_t) n;
        }
        return 0;
}

int client_connect(Client *client, const CommonOptions *options) {
        _cleanup_(strbuf_done) StrBuf first = STRBUF_NULL;
        int r;

        framer_init(&client->framer, LINE_MAX_SIZE);
        r = broker_socket_append_workspace(options, &first);
        if (r == 0)
                r = broker_socket_connect(options, &client->fd);
        if (r == BROKER_SOCKET_E_COMPLAINED)
                return CLIENT_E_COMPLAINED;
        return r < 0 ? error_trace(r) : error_trace(client_send(client, &first));
}

static int append_request(StrBuf *out, unsigned id, const char *method, const char *members,
                          bool with_progress) {
        int r;

        r = strbuf_appendf(out, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{", id,
                           method);
        if (r >= 0)
                r = strbuf_append_string(out, members);
        if (r >= 0)
                r = strbuf_appendf(out,
                                   "\"_meta\":{\"" MCP_META_VERSION "\":\"%s\","
                                   "\"" MCP_META_CLIENT
                                   "\":{\"name\":\"agentcrate\",\"version\":\"" PACKAGE_VERSION
                                   "\"},\"" MCP_META_CAPABILITIES "\":{}",
                                   mcp_revision_to_string(MCP_REVISION_LATEST));
        if (r >= 0 && with_progress)
                r = strbuf_appendf(out, ",\"progressToken\":%u", id);
        if (r >= 0)
                r = strbuf_append_string(out, "}}}\n");
        return error_trace(r);
}

static int complain_of_answer(const char *text) {
        complain("%s; check that the socket is that of a broker of this version", text);
        return CLIENT_E_COMPLAINED;
}

/* The next line of the broker, which holds until the next call. */
static int client_read_line(Client *client, const char **ret_line, size_t *ret_size) {
        for (;;) {
                char chunk[CHUNK_SIZE];
                ssize_t n;
                int r;

                r = framer_next(&client->framer, ret_line, ret_size);
                if (r == FRAMER_E_OVERSIZE)
                        return complain_of_answer("the broker's answer is too long");
                if (r != FRAMER_E_MORE)
                        return error_trace(r);
                n = recv(client->fd, chunk, sizeof(chunk), 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != ECONNRESET)
                        return error_origin(negative_errno());
                if (n <= 0) {
                        complain("the broker has closed the connection without an answer; its log "
                                 "tells why");
                        return CLIENT_E_COMPLAINED;
                }
                r = framer_add(&client->framer, chunk, (size_t) n);
                if (r < 0)
                        return error_trace(r);
        }
}

static void take_notification(const JsonDoc *doc, const JsonNode *root,
                              void (*on_progress)(const char *text)) {
        const JsonNode *params = json_node_member(doc, root, "params");
        const JsonNode *message = json_node_member(doc, params, "message");
        _cleanup_(freep) char *text = NULL;

        if (!on_progress || !message ||
            !json_node_string_equal(doc, json_node_member(doc, root, "method"),
                                    "notifications/progress"))
                return;
        if (json_node_string(doc, message, &text, NULL) == 0)
                on_progress(text);
}

/* One line: the answer that is waited for sets *ret_reply. */
static int take_line(const char *line, size_t size, unsigned id,
                     void (*on_progress)(const char *text), ClientReply *ret_reply) {
        _cleanup_(client_reply_done) ClientReply reply = {};
        const JsonNode *root, *node;
        JsonError error;
        uint64_t number;
        int r;

        reply.line = strndup(line, size);
        if (!reply.line)
                return error_origin(-ENOMEM);
        r = json_scan(reply.line, size, &reply.doc, &error);
        if (r == JSON_SCAN_E_SYNTAX)
                return complain_of_answer("the broker's answer is not JSON");
        if (r < 0)
                return error_trace(r);

        root = json_doc_root(reply.doc);
        node = json_node_member(reply.doc, root, "id");
        reply.result = json_node_member(reply.doc, root, "result");
        reply.error = json_node_member(reply.doc, root, "error");
        if (!reply.result && !reply.error) {
                take_notification(reply.doc, root, on_progress);
                return 0;
        }
        /* An error without an id is about the connection, and no answer will follow. */
        if (node && node->type != JSON_NODE_NULL &&
            (json_node_uint64(reply.doc, node, &number) != 0 || number != id))
                return 0;
        *ret_reply = reply;
        reply = (ClientReply){};
        return 0;
}

int client_request(Client *client, const char *method, const char *members,
                   void (*on_progress)(const char *text), ClientReply *ret_reply) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        ClientReply reply = {};
        unsigned id = ++client->next_id;
        int r;

        r = append_request(&out, id, method, members, on_progress != NULL);
        if (r >= 0)
                r = client_send(client, &out);
        while (r == 0 && !reply.doc) {
                const char *line;
                size_t size;

                r = client_read_line(client, &line, &size);
                if (r == 0)
                        r = take_line(line, size, id, on_progress, &reply);
        }
        if (r == 0)
                *ret_reply = reply;
        return r < 0 ? error_trace(r) : r;
}

int client_complain_error(const ClientReply *reply, const char *what, const char *remedy) {
        _cleanup_(freep) char *text = NULL;
        int64_t code = 0;

        (void) json_node_int64(reply->doc, json_node_member(reply->doc, reply->error, "code"),
                               &code);
        (void) json_node_string(reply->doc, json_node_member(reply->doc, reply->error, "message"),
                                &text, NULL);
        complain("%s: %s (%" PRId64 ")%s", what, text ?: "the broker refused", code,
                 code == RPC_INVALID_PARAMS ? remedy : "");
        return code == RPC_INVALID_PARAMS ? EXIT_USAGE : EXIT_NO_BROKER;
}
