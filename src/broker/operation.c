/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/operation.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/call.h"
#include "broker/log.h"
#include "broker/operation-answer.h"
#include "broker/result.h"
#include "crate/egress-plan.h"
#include "mcp/operation-args.h"

#define READ_SIZE 65536U
/* What agentcrate-egress may need beside the operation's own time, until it is taken to hang. */
#define SPARE_USEC (15 * USEC_PER_SEC)
#define STOP_USEC (2 * USEC_PER_SEC)
/* Of one tenant at a time. */
#define CALLS_MAX 64U

typedef struct OperationCall {
        Call *call;
        const ExposedTool *tool;
        OperationArgs args; /* until it is started */
        uint32_t session;   /* 0: there is none (any more) */
        int fd;
        bool charged;
        sd_event_source *io, *timer;
        StrBuf request; /* what is still to be written of it */
        OperationAnswer answer;
        EgressOperation told;
        bool is_told;       /* what has become of it is known */
        bool is_recorded;   /* and in the audit log, or policy goes on without */
        bool stopped;       /* by its caller */
        const char *failed; /* static: what else has ended it; NULL: nothing */
        char *text;         /* the same in a sentence, or NULL */
        uint64_t begun_usec, usec;
        bool paused;
} OperationCall;

#define refuse(ret_text, ...) outcome_text(EXECUTOR_E_REFUSED, (ret_text), __VA_ARGS__)

/* --- the end --- */

static void operation_free(Call *call) {
        OperationCall *operation = call->execution;

        if (!operation)
                return;
        if (operation->session != 0)
                egress_forget(call->manager->egress, operation->session);
        sd_event_source_disable_unref(operation->io);
        sd_event_source_disable_unref(operation->timer);
        fd_close(operation->fd);
        if (operation->charged)
                budget_release_operation(&call->manager->budget);
        operation_args_done(&operation->args);
        operation_answer_done(&operation->answer);
        strbuf_done(&operation->request);
        free(operation->text);
        free(operation);
        call->execution = NULL;
}

/* The first one is the cause of those that follow. */
static void set_failed(OperationCall *operation, const char *reason, const char *text) {
        if (operation->failed)
                return;
        operation->failed = reason;
        free(operation->text);
        operation->text = text ? strdup(text) : NULL;
}

/* Nothing more is heard of it. */
static void operation_end(OperationCall *operation) {
        operation->session = 0;
        operation->usec = now_usec() - operation->begun_usec;
        call_finish(operation->call);
}

/* What has become of it is known when the session is closed. */
static void operation_close(OperationCall *operation) {
        sd_event_source_disable_unref(operation->io);
        operation->io = NULL;
        operation->fd = fd_close(operation->fd);
        egress_end(operation->call->manager->egress, operation->session);
        (void) sd_event_source_set_time_relative(operation->timer, STOP_USEC);
        (void) sd_event_source_set_enabled(operation->timer, SD_EVENT_ONESHOT);
}

static int on_time(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        OperationCall *operation = userdata;

        set_failed(operation, "egress.timeout", "agentcrate-egress did not answer in time");
        egress_forget(operation->call->manager->egress, operation->session);
        operation_end(operation);
        return 0;
}

/* --- what agentcrate-egress says --- */

static void on_ready(void *userdata _unused_) {
}

static void on_failed(void *userdata, const char *text) {
        OperationCall *operation = userdata;

        set_failed(operation, "egress.refused", text);
        operation_end(operation);
}

static void on_told(void *userdata, const EgressOperation *told) {
        OperationCall *operation = userdata;

        if (operation->is_told)
                return;
        operation->told = *told;
        if (!operation->text && told->text[0])
                operation->text = strdup(told->text);
        operation->is_told = true;
        operation->is_recorded = call_record_operation(operation->call, told);
        if (operation->is_recorded)
                return;
        operation->failed = "audit.record";
        free(operation->text);
        operation->text = strdup("what has come of it is withheld, for it cannot be recorded: the "
                                 "audit log cannot be written; tell the operator of this broker");
}

static void on_ended(void *userdata, const EgressEnded *ended _unused_, int report_fd _unused_) {
        operation_end(userdata);
}

static void on_lost(void *userdata) {
        OperationCall *operation = userdata;

        set_failed(operation, "egress.lost",
                   "agentcrate-egress ended during the call: whether the upstream was asked is not "
                   "known");
        operation_end(operation);
}

static const EgressUser user = {
        .on_ready = on_ready,
        .on_failed = on_failed,
        .on_operation = on_told,
        .on_ended = on_ended,
        .on_lost = on_lost,
};

/* --- the connection --- */

static int watch(OperationCall *operation) {
        uint32_t events = operation->paused ? 0 : EPOLLIN;
        int r;

        if (!operation->io)
                return 0;
        if (operation->request.size > 0)
                events |= EPOLLOUT;
        r = sd_event_source_set_io_events(operation->io, events);
        /* Off, not just without events: EPOLLHUP would be reported again and again. */
        if (r >= 0)
                r = sd_event_source_set_enabled(operation->io, events ? SD_EVENT_ON : SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

/* False: the other end is gone, of which more is read. */
static bool write_request(OperationCall *operation) {
        while (operation->request.size > 0) {
                ssize_t n = send(operation->fd, operation->request.data, operation->request.size,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0)
                        return errno == EAGAIN || errno == EINTR;
                strbuf_consume(&operation->request, (size_t) n);
        }
        return true;
}

/* The last size bytes of what has come. Where nothing may be given that is not on record, the
 * stream tells only how much it is. */
static void stream_content(OperationCall *operation, size_t size) {
        const StrBuf *body = &operation->answer.body;
        Call *call = operation->call;

        if (audit_goes_on(call->manager->audit))
                call_add_output(call, 0, body->data + body->size - size, size);
        else
                call_skip_output(call, size);
}

/* One piece. False: there is no more. */
static bool read_answer(OperationCall *operation) {
        char data[READ_SIZE];
        ssize_t n = recv(operation->fd, data, sizeof(data), MSG_DONTWAIT);
        size_t size = 0;
        int r;

        if (n <= 0)
                return n < 0 && (errno == EAGAIN || errno == EINTR);
        r = operation_answer_add(&operation->answer, data, (size_t) n, &size);
        if (r != 0) {
                set_failed(operation, "egress.answer",
                           r < 0 ? "there is no memory for the answer"
                                 : "agentcrate-egress gave no answer that can be read");
                return false;
        }
        if (size > 0)
                stream_content(operation, size);
        return true;
}

static int on_io(sd_event_source *source _unused_, int fd _unused_, uint32_t events,
                 void *userdata) {
        OperationCall *operation = userdata;

        if (events & EPOLLOUT && !write_request(operation))
                strbuf_done(&operation->request);
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !operation->paused &&
            !read_answer(operation)) {
                operation_close(operation);
                return 0;
        }
        (void) watch(operation);
        return 0;
}

/* --- the beginning --- */

static int operation_prepare(Call *call, const JsonDoc *doc, const JsonNode *arguments,
                             char **ret_text) {
        OperationCall *operation = call->execution = calloc(1, sizeof(OperationCall));
        int r;

        if (!operation)
                return error_origin(-ENOMEM);
        operation->fd = -EBADF;
        operation->call = call;
        operation->tool = exposed_tools_find(&call->policy->exposed, call->record.tool);
        if (!operation->tool)
                return error_origin(-ENOTRECOVERABLE);
        r = operation_args_parse(operation->tool->operation, doc, arguments, &operation->args,
                                 ret_text);
        return r == OPERATION_ARGS_E_INVALID ? EXECUTOR_E_REFUSED : error_fold(r);
}

/* Of HTTP/1.0: one request, and an answer that ends with the connection. */
static int make_request(OperationCall *operation) {
        const OperationArgs *args = &operation->args;
        StrBuf *request = &operation->request;
        int r;

        r = strbuf_appendf(request,
                           "%s %s HTTP/1.0\r\nHost: %s" CREDENTIAL_HOST_SUFFIX
                           "\r\nAccept: */*\r\nUser-Agent: agentcrate/" PACKAGE_VERSION "\r\n",
                           operation_methods[operation->tool->operation->method], args->target.data,
                           operation->tool->credential->name);
        if (r == 0 && args->type)
                r = strbuf_appendf(request, "Content-Type: %s\r\n", args->type);
        if (r == 0 && (args->type || args->body.size > 0))
                r = strbuf_appendf(request, "Content-Length: %zu\r\n", args->body.size);
        if (r == 0)
                r = strbuf_append_string(request, "\r\n");
        if (r == 0 && args->body.size > 0)
                r = strbuf_append(request, args->body.data, args->body.size);
        return error_trace(r);
}

static int make_document(const OperationCall *operation, int *ret_fd) {
        const Call *call = operation->call;
        _cleanup_(strv_done) StrV rules = STRV_NULL;
        const EgressSettings settings = egress_settings(&call->policy->config.egress);
        const EgressGrants grants = {.credentials = call->policy->credentials,
                                     .n_credentials = call->policy->n_credentials,
                                     .rules = &rules,
                                     .tenant = call->tenant->name};
        int r;

        r = strv_appendf(&rules, "%s.%s", operation->tool->credential->name,
                         operation->tool->operation->name);
        if (r == 0)
                r = egress_plan_call_document(&grants, &settings, ret_fd);
        return error_trace(r);
}

static int open_session(OperationCall *operation, char **ret_text) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        _cleanup_(fd_closep) int document_fd = -EBADF, theirs = -EBADF;
        int fds[2], r;

        r = make_document(operation, &document_fd);
        if (r < 0)
                return error_trace(r);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return error_origin(negative_errno());
        operation->fd = fds[0];
        theirs = fds[1];
        r = egress_open(operation->call->manager->egress, &user, operation, document_fd, &theirs, 1,
                        &operation->session, &error);
        if (r != EGRESS_E_FAILED)
                return error_trace(r);
        *ret_text = result_error_text(&error);
        return *ret_text ? EXECUTOR_E_REFUSED : error_origin(-ENOMEM);
}

static uint64_t usec_allowed(const OperationCall *operation) {
        return operation->tool->operation->response_usec + SPARE_USEC;
}

static int add_sources(OperationCall *operation) {
        sd_event *event = operation->call->manager->event;
        int r;

        r = sd_event_add_io(event, &operation->io, operation->fd, EPOLLIN | EPOLLOUT, on_io,
                            operation);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &operation->timer, CLOCK_MONOTONIC,
                                               usec_allowed(operation), 0, on_time, operation);
        return r < 0 ? error_origin(r) : 0;
}

/* How many calls of operations of the call's tenant are under way. */
static size_t count_calls(const Call *call) {
        const Call *other;
        size_t n = 0;

        LIST_FOREACH (other, &call->manager->calls, in_manager)
                if (other != call && other->executor == &execute_operation && other->execution &&
                    string_equal(other->tenant->name, call->tenant->name))
                        n++;
        return n;
}

static int operation_start(Call *call, char **ret_text) {
        OperationCall *operation = call->execution;
        int r;

        if (count_calls(call) >= CALLS_MAX)
                return refuse(ret_text,
                              "tenant %s has %u calls of operations under way, which is the limit: "
                              "try again when one has ended",
                              call->tenant->name, CALLS_MAX);
        if (!budget_charge_operation(&call->manager->budget))
                return refuse(ret_text,
                              "the broker's limit of %zu open files allows no more calls "
                              "at a time: try again when one has ended",
                              call->manager->budget.max);
        operation->charged = true;
        operation->begun_usec = now_usec();
        operation->answer.body_max = operation->tool->operation->response_max + OPERATION_HEAD_MAX;
        r = make_request(operation);
        if (r == 0)
                r = open_session(operation, ret_text);
        if (r == 0)
                r = add_sources(operation);
        operation_args_done(&operation->args);
        return r < 0 ? error_trace(r) : r;
}

/* It is asked to end, so that what was sent is known. */
static void operation_stop(Call *call, bool grace _unused_) {
        OperationCall *operation = call->execution;

        if (!operation || operation->session == 0 || operation->stopped)
                return;
        operation->stopped = true;
        operation_close(operation);
}

/* While the client does not read, agentcrate-egress is not the one that is late. */
static void operation_pause(Call *call, bool pause) {
        OperationCall *operation = call->execution;

        operation->paused = pause;
        if (!operation->io)
                return;
        (void) watch(operation);
        if (!pause)
                (void) sd_event_source_set_time_relative(operation->timer, usec_allowed(operation));
        (void) sd_event_source_set_enabled(operation->timer,
                                           pause ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/* --- what has come of it --- */

/* What has ended it, in one word; NULL: the upstream's answer is whole. */
static const char *find_reason(const OperationCall *operation) {
        if (operation->failed)
                return operation->failed;
        if (operation->is_told && operation->told.reason[0])
                return operation->told.reason;
        /* What the endpoint could not put on record was not sent. */
        if (!operation->is_told)
                return "endpoint.record";
        return operation->answer.status > 0 ? NULL : "egress.answer";
}

/* Nothing of the upstream's answer is given. */
static void withhold(OperationCall *operation, OperationOutcome *outcome) {
        operation_answer_done(&operation->answer);
        outcome->told = NULL;
}

static int operation_finish(Call *call, ExecutorResult *ret_result) {
        OperationCall *operation = call->execution;
        OperationOutcome outcome = {.tool = operation->tool,
                                    .answer = &operation->answer,
                                    .told = operation->is_told ? &operation->told : NULL,
                                    .reason =
                                            call->lost ? "broker.stopped" : find_reason(operation),
                                    .usec = operation->usec};

        if (outcome.reason && !operation->text && !operation->answer.status)
                operation->text = strdup("there is no answer");
        else if (outcome.reason && !operation->text)
                operation->text =
                        operation_answer_text(&operation->answer) ?: strdup("the answer broke off");
        outcome.text = outcome.reason ? operation->text : NULL;
        if (!operation->is_recorded && !audit_goes_on(call->manager->audit))
                withhold(operation, &outcome);
        return error_trace(operation_outcome_to_result(&outcome, ret_result));
}

/* The limits of an operation, by the reasons that tell of them. */
static const struct {
        const char *reason, *limit;
} limits[] = {
        {"limit.per_job", "per_job"},
        {"limit.per_minute", "per_minute"},
        {"response.size", "response.max_bytes"},
        {"response.timeout", "response.timeout"},
};

static void operation_describe(const Call *call, AuditEnd *end) {
        const OperationCall *operation = call->execution;
        const char *reason = find_reason(operation);

        end->run_usec = operation->usec;
        end->reason = reason;
        if (call->lost)
                end->outcome = "lost";
        else if (operation->stopped)
                end->outcome = "cancelled";
        else if (!reason)
                end->outcome = "exited";
        else if (string_equal(reason, "egress.lost") || string_equal(reason, "audit.record"))
                end->outcome = "lost";
        else
                end->outcome =
                        operation->is_told && operation->told.denied ? "refused" : "exec_failed";
        for (size_t i = 0; i < ELEMENTSOF(limits) && !operation->stopped && !call->lost; i++)
                if (string_equal(reason, limits[i].reason)) {
                        end->outcome = "limit";
                        end->limit = limits[i].limit;
                }
}

const Executor execute_operation = {
        .prepare = operation_prepare,
        .start = operation_start,
        .stop = operation_stop,
        .pause = operation_pause,
        .finish = operation_finish,
        .describe = operation_describe,
        .free = operation_free,
};
