/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/call.h"

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/authorize.h"
#include "broker/call-trace.h"
#include "broker/log.h"

static void call_destroy(Call *call) {
        bool has_crate = call->trace.spans[TRACE_CREATE].begin_nsec > 0;

        if (has_crate)
                trace_step_begin(&call->trace, TRACE_DESTROY);
        if (call->executor)
                call->executor->free(call);
}

static Call *call_free(Call *call) {
        Manager *manager = call->manager;
        Client *client = call->client;

        call_record_done(call);
        call_destroy(call);
        call_trace_end(manager, &call->trace);
        if (client)
                LIST_REMOVE(call, in_client);
        LIST_REMOVE(call, in_manager);
        manager->n_calls--;

        sd_event_source_disable_unref(call->progress_timer);
        progress_done(&call->progress);
        decision_done(&call->decision);
        policy_free(call->policy);
        free(call->id);

        /* Only now the batch may be whole. */
        if (call->batch) {
                _cleanup_(freep) char *frame = NULL;
                size_t size;

                batch_unref(call->batch, &frame, &size);
                if (frame && client)
                        client_send(client, frame, size);
        }
        free(call);

        if (client)
                client_check(client);
        manager_check(manager);
        return NULL;
}
DEFINE_CLEANUP(Call, call_free);

static void call_answer(Call *call, const StrBuf *frame) {
        if (call->client && !call->cancelled)
                client_answer(call->client, call->batch, frame->data, frame->size);
}

static int call_new(Client *client, Batch *batch, const McpRequest *request, Call **ret_call) {
        _cleanup_(freep) Call *call = NULL;
        int r;

        call = calloc(1, sizeof(Call));
        if (!call)
                return error_origin(-ENOMEM);

        call->id = strndup(request->id, request->id_size);
        if (!call->id)
                return error_origin(-ENOMEM);
        r = progress_init(&call->progress, request->revision, request->progress_token,
                          request->progress_token_size);
        if (r < 0) {
                free(call->id);
                return error_trace(r);
        }

        call->id_size = request->id_size;
        call->revision = request->revision;
        call->manager = client->manager;
        call->client = client;
        call->policy = policy_ref(client->manager->policy);
        call->tenant = authorize_tenant(call->policy, &client->who);
        call->batch = batch_ref(batch);
        LIST_INSERT_HEAD(&client->manager->calls, call, in_manager);
        LIST_INSERT_HEAD(&client->calls, call, in_client);
        client->manager->n_calls++;
        *ret_call = TAKE_PTR(call);
        return 0;
}

static int call_refuse(Call *call, const char *text) {
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;
        int r;

        r = mcp_append_tool_error(&frame, call->revision, call->id, call->id_size, text);
        if (r < 0)
                return error_trace(r);

        call_record_refuse(call, text, &frame);
        call_answer(call, &frame);
        return 0;
}

/* What was decided against the call, told to the one who called. */
static int call_deny(Call *call, const char *tool) {
        _cleanup_(freep) char *text = decision_text(&call->decision, tool);

        if (!text)
                return error_origin(-ENOMEM);
        return error_trace(call_refuse(call, text));
}

/* By the policy alone; what needs a look at the host is the executor's to ask. */
static int call_authorize(Call *call, const JsonDoc *doc, const McpRequest *request) {
        const ToolRights *tool = tools_rights(call->policy, request->tool);
        uint64_t begun = now_nsec();
        int r;

        if (!tool)
                return error_origin(-ENOTRECOVERABLE);
        trace_step_begin(&call->trace, TRACE_AUTHORIZE);
        r = evaluate(call->tenant, tool, doc, request->arguments, &call->decision);
        trace_step_end(&call->trace, TRACE_AUTHORIZE);
        metrics_count_authorize(call->manager->metrics, now_nsec() - begun);
        return error_trace(r);
}

/* To who serves the tool, and what of it. As executor->prepare(). */
static int call_route(Call *call, const JsonDoc *doc, const McpRequest *request, char **ret_text) {
        int r;

        trace_step_begin(&call->trace, TRACE_ROUTE);
        call->executor = route_find(call->policy, request->tool);
        if (!call->executor)
                return error_origin(-ENOTRECOVERABLE);
        r = call->executor->prepare(call, doc, request->arguments, ret_text);
        trace_step_end(&call->trace, TRACE_ROUTE);
        return r;
}

int call_start(Client *client, Batch *batch, const JsonDoc *doc, const McpRequest *request) {
        _cleanup_(call_freep) Call *call = NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = call_new(client, batch, request, &call);
        if (r == 0)
                r = call_record_begin(call, doc, request);
        if (r < 0)
                return error_trace(r);
        if (call->manager->stopping) {
                call->record.rule = "broker";
                return call_refuse(call, "the broker is stopping and starts nothing new");
        }

        r = call_authorize(call, doc, request);
        if (r < 0)
                return error_trace(r);
        if (!call->decision.allowed)
                return call_deny(call, request->tool);

        r = call_route(call, doc, request, &text);
        if (r == 0 && call_record_allow(call, &text) != 0)
                r = text ? EXECUTOR_E_REFUSED : -ENOMEM;
        if (r == 0) {
                trace_step_begin(&call->trace, TRACE_EXEC);
                r = call->executor->start(call, &text);
        }
        if (r == EXECUTOR_E_DENIED)
                return call_deny(call, request->tool);
        if (r == EXECUTOR_E_REFUSED)
                return call_refuse(call, text);
        if (r == EXECUTOR_E_ENDED) {
                call_finish(TAKE_PTR(call));
                return 0;
        }
        if (r != 0)
                return error_fold(r);

        call->record.arguments = (AuditData){};
        if (client->blocked && call->progress.token)
                call->executor->pause(call, true);
        TAKE_PTR(call);
        return 0;
}

static int call_append_result(Call *call, StrBuf *frame) {
        _cleanup_(freep) char *content = NULL, *structured = NULL;
        ExecutorResult result = {};
        int r;

        r = call->executor->finish(call, &result);
        content = result.content;
        structured = result.structured;
        if (r < 0)
                return error_trace(r);

        return error_trace(mcp_append_call_result(frame, call->revision, call->id, call->id_size,
                                                  content, structured, result.is_error));
}

void call_finish(Call *call) {
        _cleanup_(call_freep) _unused_ Call *owned = call;
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;
        int r;

        call->record.finished = true;
        if (!call->client || call->cancelled)
                return;

        /* What has not been streamed yet goes first; nothing of the stream follows the answer. */
        call->progress.due_usec = 0;
        call_stream(call);

        r = call_append_result(call, &frame);
        if (r < 0) {
                (void) log_errno(r, "the result of a call was lost");
                strbuf_done(&frame);
                r = rpc_append_error(&frame, call->id, call->id_size, RPC_INTERNAL_ERROR,
                                     "the result could not be written", NULL);
        }
        if (r == 0) {
                call_record_end(call, &frame);
                call_answer(call, &frame);
        }
}

static int on_progress_timer(sd_event_source *source _unused_, uint64_t usec _unused_,
                             void *userdata) {
        call_stream(userdata);
        return 0;
}

static int call_arm_progress(Call *call) {
        int r;

        if (!call->progress_timer)
                return error_trace(sd_event_add_time(call->manager->event, &call->progress_timer,
                                                     CLOCK_MONOTONIC, call->progress.due_usec, 1000,
                                                     on_progress_timer, call));

        r = sd_event_source_set_time(call->progress_timer, call->progress.due_usec);
        if (r >= 0)
                r = sd_event_source_set_enabled(call->progress_timer, SD_EVENT_ONESHOT);
        return error_trace(r);
}

void call_stream(Call *call) {
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;
        uint64_t now = now_usec();
        int r = 0;

        if (!call->client || call->cancelled || !progress_pending(&call->progress))
                return;
        /* A client that does not read gets less, later: its queue is no place to keep a stream. */
        if (!client_is_drained(call->client))
                return;

        if (now < call->progress.due_usec)
                r = call_arm_progress(call);
        else
                r = progress_take(&call->progress, now, &frame);
        if (r < 0)
                (void) log_errno(r, "a part of a call's stream was left out");
        else if (frame.size > 0)
                client_send(call->client, frame.data, frame.size);
}

void call_add_output(Call *call, unsigned stream, const void *data, size_t size) {
        if (!call->client || call->cancelled)
                return;

        if (progress_add(&call->progress, stream, data, size) == 0)
                call_stream(call);
}

void call_skip_output(Call *call, size_t size) {
        if (!call->client || call->cancelled)
                return;

        progress_skip(&call->progress, size);
        call_stream(call);
}

void call_cancel(Call *call) {
        if (call->cancelled)
                return;

        call->cancelled = true;
        call->executor->stop(call, true);
}

void call_lose(Call *call) {
        call->lost = true;
        call->executor->stop(call, false);
}

void call_orphan(Call *call) {
        LIST_REMOVE(call, in_client);
        call->client = NULL;
        call->executor->stop(call, true);
}

void call_drop(Call *call) {
        call->lost = true;
        call_free(call);
}
