/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "broker/authorize.h"
#include "broker/call.h"
#include "broker/http-client.h"
#include "broker/log.h"

#define CLIENT_READ_SIZE 65536U
#define ID_IS_USED "a request with this id is still open on this connection"

Client *client_free(Client *client) {
        Manager *manager;

        if (!client)
                return NULL;

        while (!LIST_EMPTY(&client->calls))
                call_orphan(LIST_FIRST(&client->calls));

        manager = client->manager;
        LIST_REMOVE(client, entry);
        manager->n_clients--;
        sd_event_source_disable_unref(client->io);
        sd_event_source_disable_unref(client->end);
        sd_event_source_disable_unref(client->resume);
        fd_close(client->fd);
        if (!client->handed_over)
                budget_release_client(&manager->budget, client->who.uid);
        framer_done(&client->framer);
        outbox_done(&client->outbox);
        client_workspace_done(&client->workspace);
        mcp_peer_done(&client->peer);
        peer_done(&client->who);
        subscriptions_done(&client->subscriptions);
        free(client);
        manager_check(manager);
        return NULL;
}

static int on_end(sd_event_source *source _unused_, void *userdata) {
        client_free(userdata);
        return 0;
}

/* Ends the connection, but not under the feet of those who are at work with it. */
static void client_end(Client *client) {
        if (client->gone)
                return;

        client->gone = true;
        if (client->io)
                (void) sd_event_source_set_enabled(client->io, SD_EVENT_OFF);
        if (sd_event_source_set_enabled(client->end, SD_EVENT_ONESHOT) < 0)
                log_error("a connection could not be ended");
}

bool client_is_drained(const Client *client) {
        return outbox_pending(&client->outbox) == 0;
}

static void client_watch(Client *client) {
        uint32_t events = 0;

        if (client->gone)
                return;
        if (!client->input_ended && !client->blocked)
                events |= EPOLLIN;
        if (!client_is_drained(client))
                events |= EPOLLOUT;
        if (sd_event_source_set_io_events(client->io, events) < 0)
                client_end(client);
}

/* Back-pressure: while the client does not take what it gets, it is not read, and the jobs whose
 * output it streams wait. */
static void client_set_blocked(Client *client, bool blocked) {
        Call *call;

        if (client->blocked == blocked)
                return;

        client->blocked = blocked;
        LIST_FOREACH (call, &client->calls, in_client)
                if (call->progress.token && call->execution)
                        call->executor->pause(call, blocked);
}

static void client_flush(Client *client) {
        bool waited = client->waits;
        int r;

        r = outbox_flush(&client->outbox, client->fd);
        if (r == OUTBOX_E_GONE || r < 0) {
                client_end(client);
                return;
        }

        if (outbox_pending(&client->outbox) > OUTBOX_HIGH)
                client_set_blocked(client, true);
        else if (outbox_pending(&client->outbox) < OUTBOX_LOW)
                client_set_blocked(client, false);

        /* Whoever made it drain, messages and streams may have waited for that. */
        client->waits = !client_is_drained(client);
        if (waited && !client->blocked)
                (void) sd_event_source_set_enabled(client->resume, SD_EVENT_ONESHOT);
        client_watch(client);
}

void client_send(Client *client, const char *frame, size_t size) {
        if (client->gone)
                return;

        if (outbox_add(&client->outbox, frame, size) < 0) {
                client_end(client);
                return;
        }
        client_flush(client);
}

void client_answer(Client *client, Batch *batch, const char *frame, size_t size) {
        if (!batch)
                client_send(client, frame, size);
        else if (batch_add(batch, frame, size) < 0)
                client_end(client);
}

static void client_answer_error(Client *client, Batch *batch, const char *id, size_t id_size,
                                int code, const char *text) {
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;

        if (rpc_append_error(&frame, id, id_size, code, text, NULL) < 0)
                client_end(client);
        else
                client_answer(client, batch, frame.data, frame.size);
}

static Call *client_find_call(Client *client, const char *id, size_t id_size) {
        Call *call;

        LIST_FOREACH (call, &client->calls, in_client)
                if (!call->cancelled && rpc_id_equal(call->id, call->id_size, id, id_size))
                        return call;
        return NULL;
}

static void client_cancel(Client *client, const McpRequest *request) {
        Call *call;

        subscriptions_drop(&client->subscriptions, request->target, request->target_size);
        call = client_find_call(client, request->target, request->target_size);
        if (call)
                call_cancel(call);
}

static int client_listen(Client *client, Batch *batch, const McpRequest *request) {
        if (client->subscriptions.n_items >= SUBSCRIPTIONS_MAX) {
                client_answer_error(client, batch, request->id, request->id_size,
                                    RPC_INTERNAL_ERROR,
                                    "this connection has 64 subscriptions, which is the most");
                return 0;
        }

        client_send(client, request->answer.data, request->answer.size);
        return error_trace(subscriptions_add(&client->subscriptions, request->id, request->id_size,
                                             request->listen_tools));
}

/* Two requests of one id at once could not be told apart by their answers. */
static bool client_id_is_used(Client *client, const McpRequest *request) {
        return client_find_call(client, request->id, request->id_size) ||
               subscriptions_find(&client->subscriptions, request->id, request->id_size);
}

static int client_act(Client *client, Batch *batch, const RpcLine *line, const RpcMessage *message,
                      const McpRequest *request, bool first) {
        switch (request->action) {
        case MCP_NOTHING:
                return 0;
        case MCP_ANSWER:
                client_answer(client, batch, request->answer.data, request->answer.size);
                return 0;
        case MCP_CANCEL:
                client_cancel(client, request);
                return 0;
        case MCP_CONNECTION:
                if (first)
                        return error_trace(client_workspace_set(&client->workspace, line->doc,
                                                                request->params));
                log_warning("a client (pid %d) told of its workspace too late; it has none",
                            (int) client->who.pid);
                return 0;
        case MCP_CALL:
        case MCP_LISTEN:
                break;
        }

        if (client_id_is_used(client, request)) {
                if (request->action == MCP_CALL)
                        call_record_reject(client, line, message, request, RPC_INVALID_REQUEST,
                                           ID_IS_USED, NULL);
                client_answer_error(client, batch, request->id, request->id_size,
                                    RPC_INVALID_REQUEST, ID_IS_USED);
                return 0;
        }
        if (request->action == MCP_LISTEN)
                return error_trace(client_listen(client, batch, request));
        return error_trace(call_start(client, batch, line->doc, request));
}

/* The tools that a message is about: of those that are listed, the client sees its own. */
static int client_tools(Client *client, const RpcMessage *message, const Tools **ret_tools) {
        Manager *manager = client->manager;

        if (message->kind != RPC_REQUEST || !string_equal(message->method, "tools/list")) {
                *ret_tools = catalogue_all(manager->catalogue);
                return 0;
        }
        return error_trace(catalogue_get(
                manager->catalogue, authorize_tenant(manager->policy, &client->who), ret_tools));
}

static int client_handle_message(Client *client, Batch *batch, const RpcLine *line,
                                 const RpcMessage *message) {
        _cleanup_(mcp_request_done) McpRequest request = MCP_REQUEST_NULL;
        bool first = !client->spoken;
        const Tools *tools;
        int r;

        client->spoken = true;
        r = client_tools(client, message, &tools);
        if (r == 0)
                r = mcp_handle(tools, &client->peer, line, message, &request);
        if (r < 0)
                return error_trace(r);

        if (request.action == MCP_ANSWER)
                call_record_reject_answered(client, line, message, &request);
        r = client_act(client, batch, line, message, &request, first);
        if (r < 0 && message->kind == RPC_REQUEST) {
                (void) log_errno(r, "a request could not be served");
                client_answer_error(client, batch, message->id, message->id_size,
                                    RPC_INTERNAL_ERROR, "the broker could not serve the request");
                return 0;
        }
        return error_trace(r);
}

static int client_handle_batch(Client *client, const RpcLine *line) {
        _cleanup_(freep) char *frame = NULL;
        size_t size;
        Batch *batch;
        int r = 0;

        batch = batch_new();
        if (!batch)
                return error_origin(-ENOMEM);

        for (size_t i = 0; r == 0 && i < line->n_messages; i++)
                r = client_handle_message(client, batch, line, &line->messages[i]);

        batch_unref(batch, &frame, &size);
        if (frame)
                client_send(client, frame, size);
        return error_trace(r);
}

static int client_handle_line(Client *client, const char *text, size_t size) {
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;
        int r;

        r = rpc_line_parse(text, size, &line);
        if (r < 0)
                return error_trace(r);

        if (!line->batch)
                return error_trace(client_handle_message(client, NULL, line, &line->messages[0]));

        if (!mcp_peer_has_batches(&client->peer))
                client_answer_error(client, NULL, NULL, 0, RPC_INVALID_REQUEST,
                                    "batches are not supported in this protocol revision: send "
                                    "one message a line");
        else if (line->code != 0)
                client_answer_error(client, NULL, NULL, 0, line->code, line->text);
        else
                return error_trace(client_handle_batch(client, line));
        return 0;
}

static int client_handle_oversize(Client *client) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_appendf(&text,
                           "the message is longer than %zu bytes and was thrown away up to its "
                           "newline",
                           client->framer.line_max);
        if (r < 0)
                return error_trace(r);

        client->spoken = true;
        client_answer_error(client, NULL, NULL, 0, RPC_INVALID_REQUEST, text.data);
        return 0;
}

/* Takes what is whole, as long as the client takes its answers. */
static void client_process(Client *client) {
        while (!client->gone && !client->blocked) {
                const char *line;
                size_t size;
                int r;

                r = framer_next(&client->framer, &line, &size);
                if (r == FRAMER_E_MORE)
                        return;
                if (r == FRAMER_E_OVERSIZE)
                        r = client_handle_oversize(client);
                else
                        r = client_handle_line(client, line, size);
                if (r < 0) {
                        (void) log_errno(r, "a connection (pid %d) is ended",
                                         (int) client->who.pid);
                        client_end(client);
                }
        }
}

void client_check(Client *client) {
        if (!client->gone && client->input_ended && !client->blocked &&
            framer_pending(&client->framer) == 0 && LIST_EMPTY(&client->calls) &&
            client_is_drained(client))
                client_end(client);
}

/* What was taken for a client speaks HTTP, and goes on as somebody else, in the same place: it was
 * let in, and a second place need not be free. */
static int client_hand_over(Client *client, const char *data, size_t size) {
        int r;

        client->io = sd_event_source_disable_unref(client->io);
        client_end(client);
        client->handed_over = true;
        r = http_client_new(client->manager, TAKE_FD(client->fd), client->who.uid, data, size);
        return error_trace(r);
}

static int client_read(Client *client) {
        char buffer[CLIENT_READ_SIZE];
        ssize_t n;
        int r;

        n = recv(client->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();

        if (n > 0 && !client->heard && http_client_begins(buffer[0]))
                return error_trace(client_hand_over(client, buffer, (size_t) n));
        client->heard = true;

        /* A last message without its newline is a message all the same. */
        if (n == 0) {
                client->input_ended = true;
                r = framer_pending(&client->framer) > 0 ? framer_add(&client->framer, "\n", 1) : 0;
        } else
                r = framer_add(&client->framer, buffer, (size_t) n);
        if (r < 0)
                return error_trace(r);

        client_process(client);
        client_watch(client);
        return 0;
}

static void client_stream(Client *client) {
        Call *call;

        LIST_FOREACH (call, &client->calls, in_client)
                call_stream(call);
}

static int on_resume(sd_event_source *source _unused_, void *userdata) {
        Client *client = userdata;

        client_process(client);
        if (!client->gone && client_is_drained(client))
                client_stream(client);
        client_watch(client);
        client_check(client);
        return 0;
}

static int on_io(sd_event_source *source _unused_, int fd _unused_, uint32_t events,
                 void *userdata) {
        Client *client = userdata;

        /* Both directions are closed: nobody is there who could get an answer. */
        if (events & (EPOLLHUP | EPOLLERR)) {
                client_end(client);
                return 0;
        }

        if (events & EPOLLOUT)
                client_flush(client);
        if (events & EPOLLIN && !client->gone && !client->blocked && client_read(client) < 0)
                client_end(client);
        client_watch(client);
        client_check(client);
        return 0;
}

static void client_tell(Client *client, const char *subscription) {
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;

        if (mcp_append_tools_changed(&frame, subscription) == 0)
                client_send(client, frame.data, frame.size);
}

void client_tell_tools_changed(Client *client) {
        if (client->peer.initialized)
                client_tell(client, NULL);
        for (size_t i = 0; i < client->subscriptions.n_items; i++)
                if (client->subscriptions.items[i].tools)
                        client_tell(client, client->subscriptions.items[i].id);
}

void client_end_subscriptions(Client *client) {
        for (size_t i = 0; i < client->subscriptions.n_items; i++) {
                _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;
                const char *id = client->subscriptions.items[i].id;

                if (mcp_append_listen_end(&frame, id, strlen(id)) == 0)
                        client_send(client, frame.data, frame.size);
        }
        subscriptions_done(&client->subscriptions);
}

static int client_add_sources(Client *client) {
        sd_event *event = client->manager->event;
        int r;

        r = sd_event_add_defer(event, &client->end, on_end, client);
        if (r >= 0)
                r = sd_event_source_set_enabled(client->end, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_defer(event, &client->resume, on_resume, client);
        if (r >= 0)
                r = sd_event_source_set_enabled(client->resume, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_io(event, &client->io, client->fd, EPOLLIN, on_io, client);
        return r < 0 ? error_origin(r) : 0;
}

int client_new(Manager *manager, int fd, Peer *who) {
        _cleanup_(client_freep) Client *client = NULL;
        int r;

        client = calloc(1, sizeof(Client));
        if (!client) {
                fd_close(fd);
                budget_release_client(&manager->budget, who->uid);
                peer_done(who);
                return error_origin(-ENOMEM);
        }

        client->manager = manager;
        client->fd = fd;
        client->who = *who;
        *who = (Peer){};
        client->peer = MCP_PEER_NULL;
        LIST_INIT(&client->calls);
        framer_init(&client->framer, manager->policy->config.message_max);
        LIST_INSERT_HEAD(&manager->clients, client, entry);
        manager->n_clients++;

        r = client_add_sources(client);
        if (r < 0)
                return error_trace(r);

        manager_check(manager);
        TAKE_PTR(client);
        return 0;
}
