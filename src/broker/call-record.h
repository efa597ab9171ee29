/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the audit log, and with it the trace, is told of a call: exactly one decision and one end,
 * whatever becomes of it.
 *
 * Every request tools/call is a call, also one that is refused before anybody looks at its
 * arguments: an unknown tool, params that are none, an id that is in use. What is no request (a
 * notification, a message that is no JSON-RPC) is none. The decision is on record before it is
 * acted on; the end before the answer is sent.
 */

#include "broker/manager.h"
#include "crate/result.h"
#include "ipc/proto.h"
#include "mcp/protocol.h"
#include "record/audit.h"
#include "record/trace.h"

#define CALL_RECORD_ID_SIZE (2 + 16 + 1)

typedef struct CallRecord {
        char id[CALL_RECORD_ID_SIZE]; /* "c-" and 16 hex digits */
        uid_t uid;
        pid_t pid;
        const Tenant *tenant; /* of the call's policy; NULL: nobody */
        char *client;         /* its beginning */
        size_t client_size;
        char *tool;
        AuditData arguments; /* borrowed, only while the call is started */
        uint64_t begun_usec, decided_usec;
        const char *rule;   /* static: what refuses, where that is not a rule of the policy */
        const char *denial; /* static: what counts it as denied; NULL: nothing did */
        bool decided, ended;
        bool finished;                     /* its executor has come to the end */
        Trace *trace;                      /* the call's */
        char trace_id[TRACE_ID_TEXT_SIZE]; /* "": in a trace of which nobody is told */
} CallRecord;

enum {
        _CALL_RECORD_E_SUCCESS,
        CALL_RECORD_E_REFUSED, /* it cannot be recorded, and so is not run; ret_text tells */
};

/* 0 or -ENOMEM. */
int call_record_begin(Call *call, const JsonDoc *doc, const McpRequest *request);
/* Writes what is still missing, and frees. */
void call_record_done(Call *call);

/* It is allowed, and will be run. 0, CALL_RECORD_E_REFUSED or -ENOMEM. */
int call_record_allow(Call *call, char **ret_text);
/* It is not run: denied if nothing was decided yet, else refused. answer is what tells so. */
void call_record_refuse(Call *call, const char *text, const StrBuf *answer);
/* It has ended, and is answered so; NULL: nobody waits for an answer. */
void call_record_end(Call *call, const StrBuf *answer);

/* A request with a credential that the call's job has made. */
/* False: it is not on record, and no other may follow it. */
bool call_record_operation(Call *call, const EgressOperation *operation);
/* What its job reached or was not let reach, once that has ended. */
void call_record_egress(Call *call, const CrateResult *result);

/* A request tools/call that is refused before it becomes a call, by an error of that code; answer,
 * if it is known, tells so. */
void call_record_reject(Client *client, const RpcLine *line, const RpcMessage *message,
                        const McpRequest *request, int code, const char *text,
                        const StrBuf *answer);
/* The same if mcp_handle() has answered a message by an error and it was such a request. */
void call_record_reject_answered(Client *client, const RpcLine *line, const RpcMessage *message,
                                 const McpRequest *request);
