/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the spans of a call are told of it. Every request tools/call has them, also one that never
 * becomes a call; what they are told is what the audit log is told.
 */

#include "broker/manager.h"
#include "mcp/protocol.h"
#include "record/audit.h"
#include "record/trace.h"

/* It begins, in the trace that the client wants if it says so. 0 or a negative errno. */
int call_trace_begin(Trace *trace, const Policy *policy, const JsonDoc *doc,
                     const McpRequest *request);
void call_trace_decision(Trace *trace, const Tenant *tenant, const AuditDecision *decision);
/* A request with a credential is over. */
void call_trace_operation(Trace *trace, const EgressOperation *operation);
/* So is a connection. */
void call_trace_connection(Trace *trace, const AuditEgress *connection);
void call_trace_outcome(Trace *trace, const AuditEnd *end);
/* Nothing follows: the spans go to the collector, if there is one. */
void call_trace_end(const Manager *manager, Trace *trace);

/* The job was started; it has ended after so long. */
void call_trace_started(Trace *trace);
void call_trace_ended(Trace *trace, uint64_t wall_usec);
