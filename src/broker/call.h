/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state machine of one call, and the owner of everything that it causes.
 *
 *   new → authorized → prepared → running → ended
 *
 * Each step may refuse, which is an answer like any other. A call that was cancelled or whose
 * client has gone runs to its end, which comes soon, and is not answered.
 */

#include <stdbool.h>

#include "broker/call-record.h"
#include "broker/client.h"
#include "broker/manager.h"
#include "broker/progress.h"
#include "broker/route.h"
#include "mcp/protocol.h"
#include "policy/evaluate.h"

struct Call {
        LIST_ENTRY(Call) in_manager;
        LIST_ENTRY(Call) in_client;
        Manager *manager;
        Client *client; /* NULL: gone */
        Batch *batch;   /* NULL: answered by itself */
        McpRevision revision;
        char *id; /* raw */
        size_t id_size;
        bool cancelled;       /* by its client: no answer */
        bool lost;            /* ended by the broker's stop */
        Policy *policy;       /* that it began under */
        const Tenant *tenant; /* NULL: nobody */
        Decision decision;
        const Executor *executor;
        void *execution; /* the executor's */
        CallRecord record;
        Trace trace;
        Progress progress;
        sd_event_source *progress_timer;
};

/* Takes a request of MCP_CALL through all steps up to running; answers it if one refuses. 0 or a
 * negative errno. */
int call_start(Client *client, Batch *batch, const JsonDoc *doc, const McpRequest *request);
/* The executor has ended: answers and frees the call. */
void call_finish(Call *call);
/* New output of the job, for the stream. */
void call_add_output(Call *call, unsigned stream, const void *data, size_t size);
/* As much of it as the stream only tells of. */
void call_skip_output(Call *call, size_t size);
/* Sends what is pending in the stream, if the client takes it now. */
void call_stream(Call *call);

/* Ends a call for a reason; the answer, if there is one, comes by call_finish(). */
void call_cancel(Call *call);
void call_lose(Call *call);
/* Its client goes. */
void call_orphan(Call *call);
/* Kills what it has started, without an answer: the broker ends. */
void call_drop(Call *call);
