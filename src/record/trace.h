/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The spans of one call, in one block of fixed size: while the call runs, clocks are read and a few
 * bytes are copied, nothing else. otlp.h makes the text of it, later.
 *
 * Times are of the monotonic clock, tied to the wall's once, when the call begins: a clock that is
 * set meanwhile bends no duration.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_ID_SIZE 16U
#define TRACE_SPAN_ID_SIZE 8U
/* In hex, with NUL. */
#define TRACE_ID_TEXT_SIZE (2 * TRACE_ID_SIZE + 1)
#define TRACE_PARENT_SIZE 55U
#define TRACE_STATE_MAX 512U

/* In which trace a client wants a call to stand, and below which span. */
typedef struct TraceParent {
        uint8_t trace_id[TRACE_ID_SIZE];
        uint8_t span_id[TRACE_SPAN_ID_SIZE];
        uint8_t flags;
} TraceParent;

enum {
        _TRACE_E_SUCCESS,
        TRACE_E_MALFORMED,
};

/* W3C Trace Context, version 00 and only that: "00-", 32 hex digits, "-", 16, "-", 2; lower case,
 * no id all zero. 0 or TRACE_E_MALFORMED. */
int trace_parent_parse(const char *text, size_t size, TraceParent *ret_parent);

typedef enum TraceStep {
        TRACE_ROOT,
        TRACE_AUTHORIZE,
        TRACE_ROUTE,
        TRACE_EXEC,
        TRACE_CREATE, /* from here on inside of exec */
        TRACE_RUN,
        TRACE_DRAIN,
        TRACE_DESTROY,
        _TRACE_STEP_MAX,
} TraceStep;

typedef struct TraceSpan {
        uint8_t id[TRACE_SPAN_ID_SIZE];
        uint64_t begin_nsec, end_nsec; /* monotonic; 0: it has not begun, not ended */
        bool failed;
} TraceSpan;

/* What is told of a call; "" where there is nothing. What is too long is cut between characters. */
typedef struct TraceFacts {
        char tool[72];        /* of the catalogue */
        char request_id[128]; /* as JSON has it: a string with its quotes, or a number */
        char revision[16];
        char tenant[128];
        char rule[192];
        char reason[512];
        char job[32];
        char template[128];
        char limit[16];
        char plan_digest[72];
        char error_type[24];
        int32_t status_code; /* of an error of JSON-RPC; 0: none */
        int32_t exit_code;   /* -1: none */
        bool has_egress;
        uint64_t egress_connections, egress_bytes_in, egress_bytes_out, egress_denied;
        bool denied;
} TraceFacts;

#define TRACE_REQUESTS_MAX 8U

/* A request with a credential, or a connection. */
typedef struct TraceRequest {
        TraceSpan span;
        char name[104];   /* CREDENTIAL.OPERATION; without the latter it was none. Or the host */
        char address[48]; /* of a connection; "": it is none */
        uint16_t port;
        uint64_t bytes_in, bytes_out;
        char reason[36];
        uint32_t status;
        bool denied;
} TraceRequest;

typedef struct Trace {
        uint8_t trace_id[TRACE_ID_SIZE];
        uint8_t parent_id[TRACE_SPAN_ID_SIZE];
        bool has_parent;
        bool parent_malformed; /* one was given and is ignored */
        uint64_t wall_nsec;    /* when root began, since 1970 */
        char state[TRACE_STATE_MAX + 1];
        TraceSpan spans[_TRACE_STEP_MAX];
        TraceFacts facts;
        TraceRequest requests[TRACE_REQUESTS_MAX]; /* the first ones */
        uint64_t n_requests, n_operations;         /* of all; of those with a credential */
} Trace;

/* New ids, and the root begins. 0 or a negative errno. */
int trace_begin(Trace *trace);
/* Puts the call where the client wants it. traceparent is no text at all: NULL. A parent that is
 * malformed is ignored with its state; so is a state that is too long or holds other than printable
 * ASCII. */
void trace_set_parent(Trace *trace, const char *parent, size_t parent_size, const char *state,
                      size_t state_size);
void trace_format_id(const Trace *trace, char ret_text[static TRACE_ID_TEXT_SIZE]);

void trace_step_begin(Trace *trace, TraceStep step);
void trace_step_end(Trace *trace, TraceStep step);
/* step took so long since it began, and next began then, as far as that was before now. */
void trace_step_split(Trace *trace, TraceStep step, uint64_t usec, TraceStep next);
/* One that began then, by CLOCK_MONOTONIC, and took so long. What of it is told is the caller's to
 * fill; NULL: there is no room for it, or it has no id. */
TraceRequest *trace_add_request(Trace *trace, uint64_t begun_usec, uint64_t usec);
/* Ends all that has begun, the innermost first. */
void trace_end(Trace *trace);

/* Into one of the facts. text may be NULL. */
#define trace_set(member, text) trace_copy((member), sizeof(member), (text))
void trace_copy(char *target, size_t size, const char *text);
