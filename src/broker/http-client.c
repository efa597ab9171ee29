/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/http-client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/log.h"
#include "broker/metering.h"
#include "broker/outbox.h"
#include "http/host.h"
#include "http/parser.h"
#include "http/reply.h"

#define READ_SIZE 16384U
/* Requests of one connection that are answered before others get their turn. */
#define REQUESTS_AT_ONCE 8U
/* From the first byte of a request to its last; of a fresh connection, from its beginning. */
#define REQUEST_USEC (10 * USEC_PER_SEC)
/* Between two requests. */
#define PAUSE_USEC (30 * USEC_PER_SEC)
/* For an answer to be taken. */
#define ANSWER_USEC (20 * USEC_PER_SEC)
/* To read, after the last answer, what the peer still sends: closing at once would take the answer
 * from it. */
#define LINGER_USEC (2 * USEC_PER_SEC)
#define LINGER_MAX (1U << 20)

typedef enum HttpPhase {
        HTTP_PHASE_REQUEST,
        HTTP_PHASE_PAUSE,
        HTTP_PHASE_ANSWER,
        HTTP_PHASE_LINGER,
} HttpPhase;

static const uint64_t phase_usec[] = {
        [HTTP_PHASE_REQUEST] = REQUEST_USEC,
        [HTTP_PHASE_PAUSE] = PAUSE_USEC,
        [HTTP_PHASE_ANSWER] = ANSWER_USEC,
        [HTTP_PHASE_LINGER] = LINGER_USEC,
};

struct HttpClient {
        LIST_ENTRY(HttpClient) entry;
        Manager *manager;
        int fd;
        uid_t uid; /* BUDGET_UID_NONE: it came by TCP */
        HttpPhase phase;
        HttpParser *parser;
        StrBuf input; /* read, and not parsed yet */
        Outbox outbox;
        size_t lingered;
        bool last; /* nothing more is read; what was answered is sent, and then it ends */
        bool gone;
        sd_event_source *io;
        sd_event_source *timer;
        sd_event_source *resume; /* goes on with what is read */
        sd_event_source *end;    /* frees it when the event loop is back */
};

HttpClient *http_client_free(HttpClient *client) {
        Manager *manager;

        if (!client)
                return NULL;

        manager = client->manager;
        LIST_REMOVE(client, entry);
        manager->n_http_clients--;
        manager->n_http_tcp -= client->uid == BUDGET_UID_NONE;
        sd_event_source_disable_unref(client->io);
        sd_event_source_disable_unref(client->timer);
        sd_event_source_disable_unref(client->resume);
        sd_event_source_disable_unref(client->end);
        fd_close(client->fd);
        budget_release_client(&manager->budget, client->uid);
        http_parser_free(client->parser);
        strbuf_done(&client->input);
        outbox_done(&client->outbox);
        free(client);
        manager_check(manager);
        return NULL;
}

/* Not under the feet of those who are at work with it. */
static void client_end(HttpClient *client) {
        if (client->gone)
                return;

        client->gone = true;
        (void) sd_event_source_set_enabled(client->io, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(client->timer, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(client->resume, SD_EVENT_OFF);
        if (sd_event_source_set_enabled(client->end, SD_EVENT_ONESHOT) < 0)
                log_error("a connection could not be ended");
}

static int on_end(sd_event_source *source _unused_, void *userdata) {
        http_client_free(userdata);
        return 0;
}

/* --- deadlines --- */

static void client_set_phase(HttpClient *client, HttpPhase phase) {
        if (client->phase == phase || client->gone)
                return;

        client->phase = phase;
        if (sd_event_source_set_time_relative(client->timer, phase_usec[phase]) < 0 ||
            sd_event_source_set_enabled(client->timer, SD_EVENT_ONESHOT) < 0)
                client_end(client);
}

/* What is waited for now. A deadline is not put off by the bytes that come in meanwhile. */
static void client_watch(HttpClient *client) {
        bool answers = outbox_pending(&client->outbox) > 0;
        uint32_t events = 0;

        if (client->gone)
                return;
        if (client->phase != HTTP_PHASE_LINGER)
                client_set_phase(client, answers        ? HTTP_PHASE_ANSWER
                                         : client->last ? HTTP_PHASE_LINGER
                                         : client->phase == HTTP_PHASE_REQUEST ||
                                                         http_parser_is_within(client->parser)
                                                 ? HTTP_PHASE_REQUEST
                                                 : HTTP_PHASE_PAUSE);
        if (answers)
                events = EPOLLOUT;
        else if (client->phase == HTTP_PHASE_LINGER || client->input.size == 0)
                events = EPOLLIN;
        if (sd_event_source_set_io_events(client->io, events) < 0)
                client_end(client);
}

/* --- answers --- */

static void client_flush(HttpClient *client) {
        int r;

        r = outbox_flush(&client->outbox, client->fd);
        if (r < 0 || r == OUTBOX_E_GONE)
                client_end(client);
        else if (r == 0 && client->last && client->phase != HTTP_PHASE_LINGER) {
                if (shutdown(client->fd, SHUT_WR) < 0)
                        client_end(client);
        }
}

static void client_reply(HttpClient *client, const HttpReply *reply) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        client->last = !reply->keep_alive;
        if (http_append_reply(&out, reply, time(NULL)) < 0 ||
            outbox_add_bytes(&client->outbox, out.data, out.size) < 0)
                client_end(client);
}

static void client_reply_text(HttpClient *client, HttpReply *reply, const char *text) {
        _cleanup_(strbuf_done) StrBuf body = STRBUF_NULL;

        if (strbuf_appendf(&body, "%s\n", text) < 0) {
                client_end(client);
                return;
        }
        reply->body = body.data;
        reply->body_size = body.size;
        client_reply(client, reply);
}

static void client_reply_metrics(HttpClient *client, HttpReply *reply) {
        _cleanup_(strbuf_done) StrBuf body = STRBUF_NULL;
        int r;

        r = metering_append_text(client->manager, &body);
        if (r < 0) {
                (void) log_errno(r, "the metrics could not be written");
                *reply = (HttpReply){.status = 500};
                client_reply_text(client, reply, "the metrics could not be written");
                return;
        }
        reply->status = 200;
        reply->type = METRICS_CONTENT_TYPE;
        reply->body = body.data;
        reply->body_size = body.size;
        client_reply(client, reply);
}

static bool is_metrics_path(HttpText target) {
        const char *query = memchr(target.data, '?', target.size);

        if (query)
                target.size = (size_t) (query - target.data);
        return http_text_equal(target, "/metrics");
}

static void client_answer(HttpClient *client) {
        const HttpRequest *request = http_parser_request(client->parser);
        const HttpText *host = http_request_header(request, "host");
        bool head = http_text_equal(request->method, "HEAD");
        HttpReply reply = {.head = head, .keep_alive = request->keep_alive};

        if (host && !http_host_is_loopback(host->data, host->size)) {
                reply.status = 403;
                client_reply_text(client, &reply,
                                  "Host names another machine: ask by localhost, 127.0.0.1 or "
                                  "[::1]");
        } else if (!is_metrics_path(request->target)) {
                reply.status = 404;
                client_reply_text(client, &reply, "there is nothing here: metrics are at /metrics");
        } else if (!head && !http_text_equal(request->method, "GET")) {
                reply.status = 405;
                reply.allow = "GET, HEAD";
                client_reply_text(client, &reply, "metrics are read by GET");
        } else
                client_reply_metrics(client, &reply);
}

static void client_reply_fault(HttpClient *client, int status, const char *text) {
        HttpReply reply = {.status = status};

        client_reply_text(client, &reply, text);
}

/* --- requests --- */

/* One request of what was read. False if there is none that is whole. */
static bool client_next(HttpClient *client) {
        size_t used = 0;
        int r;

        if (client->input.size == 0)
                return false;
        r = http_parser_add(client->parser, client->input.data, client->input.size, &used);
        if (r == 0 || r == HTTP_E_MORE)
                strbuf_consume(&client->input, used);
        if (r == 0)
                client_answer(client);
        else if (r == HTTP_E_BAD) {
                const HttpFault *fault = http_parser_fault(client->parser);

                client_reply_fault(client, fault->status, fault->text);
        } else if (r < 0)
                client_end(client);
        return r == 0;
}

static void client_process(HttpClient *client) {
        /* Whoever does not take an answer gets no other. */
        for (size_t i = 0; i < REQUESTS_AT_ONCE; i++) {
                bool whole;

                if (client->gone || client->last || outbox_pending(&client->outbox) > 0)
                        break;
                whole = client_next(client);
                if (!client->gone)
                        client_flush(client);
                if (!whole)
                        break;
                /* The deadline is each request's own. */
                if (!client->gone && outbox_pending(&client->outbox) == 0)
                        client_set_phase(client, HTTP_PHASE_PAUSE);
        }
        if (!client->gone && !client->last && client->input.size > 0 &&
            outbox_pending(&client->outbox) == 0 &&
            sd_event_source_set_enabled(client->resume, SD_EVENT_ONESHOT) < 0)
                client_end(client);
}

static void client_linger(HttpClient *client, size_t n) {
        client->lingered += n;
        if (n == 0 || client->lingered > LINGER_MAX)
                client_end(client);
}

static void client_read(HttpClient *client) {
        _uninitialized_ char buffer[READ_SIZE];
        ssize_t n;

        n = recv(client->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n < 0) {
                if (errno != EAGAIN && errno != EINTR)
                        client_end(client);
                return;
        }
        if (client->phase == HTTP_PHASE_LINGER) {
                client_linger(client, (size_t) n);
                return;
        }
        if (n == 0) {
                /* A request that was cut off is no request. */
                client_end(client);
                return;
        }
        if (client->phase == HTTP_PHASE_PAUSE)
                client_set_phase(client, HTTP_PHASE_REQUEST);
        if (strbuf_append(&client->input, buffer, (size_t) n) < 0)
                client_end(client);
        else
                client_process(client);
}

static int on_io(sd_event_source *source _unused_, int fd _unused_, uint32_t events,
                 void *userdata) {
        HttpClient *client = userdata;

        if (events & (EPOLLHUP | EPOLLERR)) {
                client_end(client);
                return 0;
        }
        if (events & EPOLLOUT) {
                client_flush(client);
                client_process(client);
        }
        if (events & EPOLLIN && !client->gone)
                client_read(client);
        client_watch(client);
        return 0;
}

static int on_resume(sd_event_source *source _unused_, void *userdata) {
        HttpClient *client = userdata;

        client_process(client);
        client_watch(client);
        return 0;
}

static int on_timer(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        HttpClient *client = userdata;

        if (client->phase != HTTP_PHASE_REQUEST || !http_parser_is_within(client->parser)) {
                client_end(client);
                return 0;
        }
        client_reply_fault(client, 408, "the request did not come to its end in time");
        if (!client->gone)
                client_flush(client);
        client_watch(client);
        return 0;
}

/* --- connections --- */

static int client_add_sources(HttpClient *client) {
        sd_event *event = client->manager->event;
        int r;

        r = sd_event_add_defer(event, &client->end, on_end, client);
        if (r >= 0)
                r = sd_event_source_set_enabled(client->end, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_defer(event, &client->resume, on_resume, client);
        if (r >= 0 && client->input.size == 0)
                r = sd_event_source_set_enabled(client->resume, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &client->timer, CLOCK_MONOTONIC, REQUEST_USEC,
                                               0, on_timer, client);
        if (r >= 0)
                r = sd_event_add_io(event, &client->io, client->fd, EPOLLIN, on_io, client);
        return r < 0 ? error_origin(r) : 0;
}

int http_client_new(Manager *manager, int fd, uid_t uid, const char *data, size_t size) {
        _cleanup_(http_client_freep) HttpClient *client = NULL;
        const HttpLimits limits = HTTP_LIMITS_DEFAULT;
        int r;

        client = calloc(1, sizeof(HttpClient));
        if (!client) {
                fd_close(fd);
                budget_release_client(&manager->budget, uid);
                return error_origin(-ENOMEM);
        }

        client->manager = manager;
        client->fd = fd;
        client->uid = uid;
        LIST_INSERT_HEAD(&manager->http_clients, client, entry);
        manager->n_http_clients++;
        manager->n_http_tcp += uid == BUDGET_UID_NONE;
        r = http_parser_new(&limits, &client->parser);
        if (r == 0)
                r = strbuf_append(&client->input, data, size);
        if (r == 0)
                r = client_add_sources(client);
        if (r < 0)
                return error_trace(r);

        manager_check(manager);
        TAKE_PTR(client);
        return 0;
}

static void refuse(int fd) {
        static const char text[] = "there are as many connections as are served at once\n";
        const HttpReply reply = {.status = 503, .body = text, .body_size = sizeof(text) - 1};
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        if (http_append_reply(&out, &reply, time(NULL)) == 0)
                (void) !send(fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void http_client_admit(Manager *manager, int connection) {
        _cleanup_(fd_closep) int fd = connection;
        int r;

        if (manager->n_http_tcp >= HTTP_CLIENT_TCP_MAX ||
            budget_charge_client(&manager->budget, BUDGET_UID_NONE) != 0) {
                refuse(fd);
                return;
        }
        r = http_client_new(manager, TAKE_FD(fd), BUDGET_UID_NONE, NULL, 0);
        if (r < 0)
                (void) log_errno(r, "a connection could not be served");
}
