/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A job's connection to the host of a credential: one request after the other, each read whole,
 * matched, counted, sent by an exchange, and answered as the answer comes. Whatever is not
 * understood in one way only ends the connection.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "basic/error.h"
#include "egress/endpoint-request.h"
#include "egress/endpoint.h"
#include "http/parser.h"
#include "http/reply.h"

#define REQUEST_USEC (30 * USEC_PER_SEC)
#define IDLE_USEC (60 * USEC_PER_SEC)
#define DRAIN_USEC (2 * USEC_PER_SEC)
#define READ_SIZE 16384U
/* What waits for a job that does not read. */
#define ROOM (256U * 1024U)
/* What all requests of one job may hold at one time: many of the largest, or this. */
#define HELD_BODIES 8U
#define HELD_MIN (16U * 1024U * 1024U)

struct Caller {
        Caller *previous, *next;
        Session *session;
        Endpoint *endpoint;
        Listener *listener;
        LoopFd client;   /* its fd is owned */
        uint32_t events; /* that are watched */
        LoopTimer timer;
        LoopTask flush; /* writes what was put in out, once for all of it */
        Turn turn;      /* to have what was read looked at */
        HttpParser *parser;
        StrBuf in, out;
        StrBuf parameters; /* of the request, hashed */
        size_t n_taken;    /* bytes of in that the parser has */
        size_t n_held;     /* bytes of in and of the parser */
        OperationMatch match;
        ExchangeRequest request;
        Exchange *exchange;
        uint64_t begun_usec;
        SessionOperation what;
        bool continued; /* the job was told to go on with its content */
        bool answered;  /* the head of the answer is on its way */
        bool chunked, keep_alive, is_http10, is_head;
        bool lost;     /* the job does not take its answer any more */
        bool ending;   /* closed when all is written */
        bool draining; /* all is written; what still comes is thrown away, or it would end the
                          answer */
};

static void caller_serve(Caller *caller);

static void caller_hold(Caller *caller, size_t n) {
        caller->session->n_held += n - caller->n_held;
        caller->n_held = n;
}

static bool caller_holds_too_much(const Caller *caller) {
        return caller->session->n_held >
               size_max(HELD_MIN, HELD_BODIES * caller->endpoint->body_max);
}

static Caller *caller_free(Caller *caller) {
        if (!caller)
                return NULL;

        caller_hold(caller, 0);
        exchange_free(caller->exchange);
        loop_timer_stop(&caller->timer);
        loop_task_cancel(&caller->flush);
        turn_cancel(&caller->turn);
        loop_remove(&caller->client);
        fd_close(caller->client.fd);
        http_parser_free(caller->parser);
        strbuf_done(&caller->in);
        strbuf_done(&caller->out);
        strbuf_done(&caller->parameters);
        operation_match_done(&caller->match);
        strv_done(&caller->request.headers);
        if (caller->previous)
                caller->previous->next = caller->next;
        else
                caller->session->callers = caller->next;
        if (caller->next)
                caller->next->previous = caller->previous;
        caller->session->n_relays--;
        free(caller);
        return NULL;
}

/* Of the exchange that is under way, or at its end. */
static void caller_take_use(Caller *caller) {
        const Usage *usage = exchange_get_usage(caller->exchange);
        SessionOperation *what = &caller->what;

        exchange_get_bytes(caller->exchange, &what->bytes_out, &what->bytes_in);
        what->has_tokens_in = usage->has_input;
        what->has_tokens_out = usage->has_output;
        what->tokens_in = usage->input;
        what->tokens_out = usage->output;
}

static void caller_tell(Caller *caller, const char *reason, const char *text, int status,
                        bool denied) {
        Session *session = caller->session;

        caller->what.reason = reason;
        caller->what.text = text;
        caller->what.status = status;
        caller->what.denied = denied;
        caller->what.usec = now_usec() - caller->begun_usec;
        caller->what.operation = caller->match.operation;
        session->bytes_in += caller->what.bytes_in;
        session->bytes_out += caller->what.bytes_out;
        caller->listener->use->all.bytes_in += caller->what.bytes_in;
        caller->listener->use->all.bytes_out += caller->what.bytes_out;
        if (denied)
                listener_deny(caller->listener, DENIAL_OPERATION, reason,
                              caller->match.operation ? caller->match.operation->name : NULL);
        endpoint_tell(caller->endpoint, &caller->what);
        caller->what = (SessionOperation){};
}

static void caller_tell_gone(Caller *caller) {
        caller_tell(caller, "job.gone", "the job went away before it had the whole answer",
                    caller->what.status, false);
}

/* In the middle of an answer the job must see that it is not whole. */
static void caller_abort(Caller *caller) {
        const struct linger at_once = {.l_onoff = 1};

        (void) setsockopt(caller->client.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        caller_free(caller);
}

/* --- writing --- */

static bool has_room(void *userdata) {
        const Caller *caller = userdata;

        return caller->out.size < ROOM;
}

/* Whether it is time for another request. A job that does not take its answers, or does not wait
 * for them, is not read from. */
static bool caller_listens(const Caller *caller) {
        return !caller->exchange && !caller->ending && caller->out.size < ROOM;
}

static bool caller_reads(const Caller *caller) {
        return caller->draining || (caller_listens(caller) && !caller->turn.turns);
}

static void caller_watch(Caller *caller) {
        uint32_t events = 0;

        if (caller->out.size > 0)
                events |= EPOLLOUT;
        if (caller_reads(caller))
                events |= EPOLLIN;
        if (events == caller->events)
                return;
        caller->events = events;
        (void) loop_change(&caller->client, events);
}

/* False: the job is gone. */
static bool caller_write(Caller *caller) {
        loop_task_cancel(&caller->flush);
        while (caller->out.size > 0) {
                ssize_t n = send(caller->client.fd, caller->out.data, caller->out.size,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN;
                strbuf_consume(&caller->out, (size_t) n);
        }
        return true;
}

static int append_fault(Caller *caller, int status, const char *reason, const char *text) {
        _cleanup_(strbuf_done) StrBuf body = STRBUF_NULL;
        HttpReply reply = {.status = status,
                           .type = "application/json",
                           .allow = status == 405 ? "GET, HEAD, POST, PUT, PATCH, DELETE" : NULL,
                           .head = caller->is_head,
                           .keep_alive = caller->keep_alive};
        int r;

        r = strbuf_appendf(&body, "{\"error\":{\"reason\":\"%s\",\"text\":\"%s\"}}\n", reason,
                           text);
        if (r < 0)
                return error_trace(r);
        reply.body = body.data;
        reply.body_size = body.size;
        return error_trace(http_append_reply(&caller->out, &reply, time(NULL)));
}

/* The request is over; another may follow. */
static void caller_next(Caller *caller) {
        operation_match_done(&caller->match);
        strv_done(&caller->request.headers);
        caller->answered = caller->continued = caller->is_head = caller->chunked = false;
        if (!caller->keep_alive)
                caller->ending = true;
        strbuf_consume(&caller->in, caller->n_taken);
        caller->n_taken = 0;
        caller_hold(caller, caller->in.size);
        caller->begun_usec = 0;
        (void) loop_timer_set(caller->session->host.loop, &caller->timer, now_usec() + IDLE_USEC);
}

static void caller_refuse(Caller *caller, int status, const char *reason, const char *text) {
        caller_tell(caller, reason, text, status, true);
        if (append_fault(caller, status, reason, text) < 0)
                caller->keep_alive = false;
        caller_next(caller);
}

/* --- the answer --- */

static bool on_head(void *userdata, int status, const char *fields) {
        Caller *caller = userdata;
        bool empty = caller->is_head || status == 204 || status == 304;
        int r;

        caller->answered = true;
        caller->what.status = status;
        caller->chunked = !empty && !caller->is_http10;
        if (!empty && caller->is_http10)
                caller->keep_alive = false;
        r = strbuf_appendf(&caller->out, "HTTP/1.1 %d %s\r\n%s%sConnection: %s\r\n\r\n", status,
                           http_status_text(status), fields,
                           caller->chunked ? "Transfer-Encoding: chunked\r\n" : "",
                           caller->keep_alive ? "keep-alive" : "close");
        caller->lost = caller->lost || r < 0;
        loop_defer(caller->session->host.loop, &caller->flush);
        return !caller->lost;
}

static bool on_content(void *userdata, const char *data, size_t size) {
        Caller *caller = userdata;
        int r = 0;

        if (caller->chunked)
                r = strbuf_appendf(&caller->out, "%zx\r\n", size);
        if (r == 0)
                r = strbuf_append(&caller->out, data, size);
        if (r == 0 && caller->chunked)
                r = strbuf_append_string(&caller->out, "\r\n");
        caller->lost = caller->lost || r < 0;
        loop_defer(caller->session->host.loop, &caller->flush);
        return !caller->lost;
}

static void on_end(void *userdata, const ExchangeFault *fault) {
        Caller *caller = userdata;
        bool answered = caller->answered;
        int r = 0;

        caller_take_use(caller);
        caller->exchange = NULL;
        if (fault && answered) {
                if (caller->lost)
                        caller_tell_gone(caller);
                else
                        caller_tell(caller, fault->reason, fault->text, caller->what.status, false);
                (void) caller_write(caller);
                caller_abort(caller);
                return;
        }
        caller_tell(caller, fault ? fault->reason : NULL, fault ? fault->text : NULL,
                    fault ? fault->status : caller->what.status, false);
        if (fault)
                r = append_fault(caller, fault->status, fault->reason, fault->text);
        else if (caller->chunked)
                r = strbuf_append_string(&caller->out, "0\r\n\r\n");
        if (r < 0) {
                caller_abort(caller);
                return;
        }
        caller_next(caller);
        caller_serve(caller);
}

/* --- the request --- */

static OperationSpan span_of(const HttpText *text) {
        return text ? (OperationSpan){text->data, text->size} : (OperationSpan){};
}

static int caller_dispatch(Caller *caller, const HttpRequest *request) {
        static const ExchangeCalls calls = {.on_head = on_head,
                                            .on_content = on_content,
                                            .has_room = has_room,
                                            .on_end = on_end};
        Session *session = caller->session;
        ExchangeHost host = {.loop = session->host.loop,
                             .curl = session->host.curl,
                             .connections = endpoint_get_connections(caller->endpoint),
                             .addresses = session->host.addresses};
        int r;

        r = request_take_headers(request, caller->endpoint->credential->credential,
                                 &caller->request.headers);
        if (r == 0)
                r = session_get_resolver(session, &host.resolver);
        if (r < 0)
                return error_trace(r);
        if (!host.connections)
                return error_origin(-ENOMEM);
        caller->request.match = &caller->match;
        caller->request.body = request->body.data;
        caller->request.body_size = request->body.size;
        session->connections++;
        caller->listener->use->all.connections++;
        loop_timer_stop(&caller->timer);
        return error_trace(exchange_new(&host, &caller->endpoint->vault, &caller->request, &calls,
                                        caller, &caller->exchange));
}

static void refuse_match(Caller *caller, int outcome, const OperationFault *fault) {
        char text[REQUEST_FAULT_TEXT_MAX];

        request_format_fault(fault, text);
        caller->match.operation = fault->operation;
        if (outcome == OPERATION_E_METHOD)
                caller_refuse(caller, 405, "operation.method", text);
        else if (outcome == OPERATION_E_QUERY)
                caller_refuse(caller, 403, "operation.query", text);
        else
                caller_refuse(caller, 403, "operation.no_match", text);
}

static void refuse_body(Caller *caller, int outcome, const char *text) {
        if (outcome == OPERATION_E_BODY_SIZE)
                caller_refuse(caller, 413, "operation.body_size", text);
        else if (outcome == OPERATION_E_BODY_TYPE)
                caller_refuse(caller, 415, "operation.body_type", text);
        else
                caller_refuse(caller, 400, "operation.body", text);
}

static void refuse_for_memory(Caller *caller) {
        caller_refuse(caller, 503, "endpoint.memory", "there is no memory for the request");
}

/* What the request is, and that the menu has it. False: it was refused. */
static bool caller_match(Caller *caller, const HttpRequest *request) {
        const char *text = NULL, *reason;
        OperationFault fault = {};
        int status = 0, r;

        reason = request_find_fault(request, caller->listener->slot->name, &status, &text);
        if (reason) {
                caller->keep_alive = false;
                caller_refuse(caller, status, reason, text);
                return false;
        }

        r = operation_match(&caller->endpoint->credential->credential->menu,
                            span_of(&request->method), span_of(&request->target), &caller->match,
                            &fault);
        if (r > 0) {
                refuse_match(caller, r, &fault);
                return false;
        }
        if (r == 0)
                r = request_digest_parameters(&caller->match, &caller->parameters);
        caller->what.parameters = caller->parameters.data;
        if (r < 0)
                refuse_for_memory(caller);
        return r == 0;
}

/* That it can go on record, and has a place in the quotas. Before its content is looked at, so that
 * one who has used them up costs little. */
static bool caller_may(Caller *caller) {
        char text[REQUEST_FAULT_TEXT_MAX];
        const char *limit, *reason;

        if (!endpoint_can_tell(caller->endpoint)) {
                caller_refuse(caller, 503, "endpoint.record",
                              "what is sent is put on record, and the record does not keep up: try "
                              "again later");
                return false;
        }

        limit = endpoint_find_limit(caller->endpoint, caller->match.operation);
        if (!limit)
                return true;
        reason = request_format_limit(caller->match.operation, limit, text);
        caller_refuse(caller, 429, reason, text);
        return false;
}

static bool caller_check_body(Caller *caller, const HttpRequest *request) {
        const char *text = NULL;
        int r;

        r = operation_check_body(caller->match.operation,
                                 span_of(http_request_header(request, "content-type")),
                                 span_of(http_request_header(request, "content-encoding")),
                                 span_of(&request->body), &text);
        if (r > 0)
                refuse_body(caller, r, text);
        if (r < 0)
                refuse_for_memory(caller);
        return r == 0;
}

static void caller_handle(Caller *caller, const HttpRequest *request) {
        caller->keep_alive = request->keep_alive && !request->http10;
        caller->is_http10 = request->http10;
        caller->is_head = http_text_equal(request->method, "HEAD");
        request_digest(request, caller->what.digest);
        if (!caller_match(caller, request) || !caller_may(caller) ||
            !caller_check_body(caller, request))
                return;
        /* Never given back, whatever comes of it. */
        endpoint_count(caller->endpoint, caller->match.operation);
        if (caller_dispatch(caller, request) < 0)
                refuse_for_memory(caller);
}

/* Behind it nothing on the connection can be trusted. */
static void caller_refuse_bytes(Caller *caller) {
        const HttpFault *fault = http_parser_fault(caller->parser);

        caller->keep_alive = false;
        caller_refuse(caller, fault->status, "request.malformed", fault->text);
}

static void tell_to_go_on(Caller *caller) {
        const HttpRequest *head = http_parser_head(caller->parser);
        const HttpText *expect = head ? http_request_header(head, "expect") : NULL;

        if (caller->continued || !expect || expect->size != 12 ||
            strncasecmp(expect->data, "100-continue", 12) != 0)
                return;
        caller->continued = true;
        (void) strbuf_append_string(&caller->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Takes what was read, up to the end of a request. */
static void caller_parse(Caller *caller) {
        size_t used = 0;
        int r;

        if (caller->begun_usec == 0)
                caller->begun_usec = now_usec();
        r = http_parser_add(caller->parser, caller->in.data + caller->n_taken,
                            caller->in.size - caller->n_taken, &used);
        if (r == HTTP_E_MORE) {
                /* The parser has a copy of what it needs. */
                strbuf_consume(&caller->in, caller->in.size);
                caller->n_taken = 0;
                tell_to_go_on(caller);
                return;
        }
        caller->n_taken += used;
        if (r == 0)
                caller_handle(caller, http_parser_request(caller->parser));
        else
                caller_refuse_bytes(caller);
}

static bool caller_has_more(const Caller *caller) {
        return caller_listens(caller) && caller->in.size > caller->n_taken;
}

static void on_turn(void *userdata) {
        Caller *caller = userdata;

        if (caller_has_more(caller))
                caller_parse(caller);
        caller_serve(caller);
}

static void caller_serve(Caller *caller) {
        if (!caller_write(caller)) {
                caller_free(caller);
                return;
        }
        if (caller->ending && caller->out.size == 0 && !caller->draining) {
                caller->draining = true;
                (void) shutdown(caller->client.fd, SHUT_WR);
                (void) loop_timer_set(caller->session->host.loop, &caller->timer,
                                      now_usec() + DRAIN_USEC);
        }
        if (caller_has_more(caller))
                turns_wait(&caller->session->turns, &caller->turn);
        caller_watch(caller);
}

/* --- the connection --- */

/* False: it is over. */
static bool caller_read(Caller *caller) {
        char buffer[READ_SIZE];
        ssize_t n = recv(caller->client.fd, buffer, sizeof(buffer), MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        if (n == 0) {
                /* It asks no more; what it asked for is still to be written. */
                caller->ending = true;
                return !caller->draining && caller->out.size > 0;
        }
        if (caller->draining)
                return true;
        if (!http_parser_is_within(caller->parser) && caller->in.size == 0)
                (void) loop_timer_set(caller->session->host.loop, &caller->timer,
                                      now_usec() + REQUEST_USEC);
        caller_hold(caller, caller->n_held + (size_t) n);
        return strbuf_append(&caller->in, buffer, (size_t) n) == 0;
}

/* One job that begins many large requests does not get all memory of the process. */
static void caller_refuse_size(Caller *caller) {
        if (caller->ending || !caller_holds_too_much(caller))
                return;
        caller->keep_alive = false;
        caller_refuse(caller, 503, "endpoint.memory",
                      "the job has too many large requests under way: try again later");
}

/* A job that has gone away in the middle of an answer: what was under way is broken off. One that
 * only has no more to ask has not: many close that direction once they have sent their request. */
static void caller_lose(Caller *caller) {
        if (caller->exchange) {
                caller_take_use(caller);
                caller_tell_gone(caller);
        }
        caller_free(caller);
}

static void on_client(void *userdata, uint32_t events) {
        Caller *caller = userdata;

        if (events & EPOLLIN && caller_reads(caller)) {
                if (!caller_read(caller)) {
                        caller_lose(caller);
                        return;
                }
                caller_refuse_size(caller);
        } else if (events & (EPOLLHUP | EPOLLERR)) {
                caller_lose(caller);
                return;
        }
        if (!caller->exchange) {
                caller_serve(caller);
                return;
        }
        if (!caller_write(caller)) {
                caller_lose(caller);
                return;
        }
        caller_watch(caller);
        if (has_room(caller))
                exchange_resume(caller->exchange);
}

/* At the end of the round in which something came: a small answer is one write. */
static void on_flush(void *userdata) {
        Caller *caller = userdata;

        if (!caller_write(caller)) {
                caller_lose(caller);
                return;
        }
        caller_watch(caller);
        if (caller->exchange && has_room(caller))
                exchange_resume(caller->exchange);
}

static void on_time(void *userdata) {
        Caller *caller = userdata;

        if (caller->ending || !http_parser_is_within(caller->parser)) {
                caller_free(caller);
                return;
        }
        caller->keep_alive = false;
        caller_refuse(caller, 408, "request.timeout", "the request did not come within 30 seconds");
        caller_serve(caller);
}

void caller_start(Listener *listener, int fd) {
        Session *session = listener->session;
        HttpLimits limits = HTTP_LIMITS_DEFAULT;
        Caller *caller = calloc(1, sizeof(Caller));
        const int one = 1;

        if (!caller) {
                fd_close(fd);
                return;
        }
        *caller = (Caller){.next = session->callers,
                           .session = session,
                           .endpoint = listener->endpoint,
                           .listener = listener,
                           .client = {.fd = fd, .on_ready = on_client, .userdata = caller},
                           .events = EPOLLIN,
                           .timer = {.on_time = on_time, .userdata = caller},
                           .flush = {.run = on_flush, .userdata = caller},
                           .turn = {.run = on_turn, .userdata = caller}};
        if (caller->next)
                caller->next->previous = caller;
        session->callers = caller;
        session->n_relays++;
        limits.body_max = listener->endpoint->body_max;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (http_parser_new(&limits, &caller->parser) < 0 ||
            loop_add(session->host.loop, &caller->client, EPOLLIN) < 0 ||
            loop_timer_set(session->host.loop, &caller->timer, now_usec() + REQUEST_USEC) < 0)
                caller_free(caller);
}

void session_end_callers(Session *session) {
        while (session->callers)
                caller_lose(session->callers);
}
