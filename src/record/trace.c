/* SPDX-License-Identifier: Apache-2.0 */

#include "record/trace.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/time-util.h"

#define NSEC_PER_SEC 1000000000ULL

static uint64_t clock_nsec(clockid_t clock) {
        struct timespec ts;

        (void) clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * NSEC_PER_SEC + (uint64_t) ts.tv_nsec;
}

/* --- traceparent --- */

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_decode(const char *text, uint8_t *bytes, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                bytes[i] = (uint8_t) (high << 4 | low);
        }
        return true;
}

static bool is_zero(const uint8_t *bytes, size_t n) {
        uint8_t any = 0;

        for (size_t i = 0; i < n; i++)
                any |= bytes[i];
        return any == 0;
}

int trace_parent_parse(const char *text, size_t size, TraceParent *ret_parent) {
        TraceParent parent;

        if (size != TRACE_PARENT_SIZE || memcmp(text, "00-", 3) != 0 || text[35] != '-' ||
            text[52] != '-')
                return TRACE_E_MALFORMED;
        if (!hex_decode(text + 3, parent.trace_id, sizeof(parent.trace_id)) ||
            !hex_decode(text + 36, parent.span_id, sizeof(parent.span_id)) ||
            !hex_decode(text + 53, &parent.flags, 1))
                return TRACE_E_MALFORMED;
        if (is_zero(parent.trace_id, sizeof(parent.trace_id)) ||
            is_zero(parent.span_id, sizeof(parent.span_id)))
                return TRACE_E_MALFORMED;

        *ret_parent = parent;
        return 0;
}

/* --- begin --- */

int trace_begin(Trace *trace) {
        uint8_t random[TRACE_ID_SIZE + _TRACE_STEP_MAX * TRACE_SPAN_ID_SIZE];

        *trace = (Trace){.facts.exit_code = -1};
        /* All zero is no id. That it comes is as likely as a guess of all of it. */
        if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return error_origin(negative_errno());
        memcpy(trace->trace_id, random, TRACE_ID_SIZE);
        for (size_t i = 0; i < _TRACE_STEP_MAX; i++)
                memcpy(trace->spans[i].id, random + TRACE_ID_SIZE + i * TRACE_SPAN_ID_SIZE,
                       TRACE_SPAN_ID_SIZE);

        trace->wall_nsec = clock_nsec(CLOCK_REALTIME);
        trace_step_begin(trace, TRACE_ROOT);
        return 0;
}

static bool state_is_sound(const char *state, size_t size) {
        if (size > TRACE_STATE_MAX)
                return false;
        for (size_t i = 0; i < size; i++)
                if (state[i] < ' ' || state[i] > '~')
                        return false;
        return true;
}

void trace_set_parent(Trace *trace, const char *parent, size_t parent_size, const char *state,
                      size_t state_size) {
        TraceParent parsed;

        if (!parent || trace_parent_parse(parent, parent_size, &parsed) != 0) {
                trace->parent_malformed = true;
                return;
        }
        memcpy(trace->trace_id, parsed.trace_id, sizeof(trace->trace_id));
        memcpy(trace->parent_id, parsed.span_id, sizeof(trace->parent_id));
        trace->has_parent = true;
        if (state && state_is_sound(state, state_size)) {
                memcpy(trace->state, state, state_size);
                trace->state[state_size] = 0;
        }
}

void trace_format_id(const Trace *trace, char ret_text[static TRACE_ID_TEXT_SIZE]) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < TRACE_ID_SIZE; i++) {
                ret_text[2 * i] = digits[trace->trace_id[i] >> 4];
                ret_text[2 * i + 1] = digits[trace->trace_id[i] & 15];
        }
        ret_text[2 * TRACE_ID_SIZE] = 0;
}

/* --- steps --- */

void trace_step_begin(Trace *trace, TraceStep step) {
        trace->spans[step].begin_nsec = clock_nsec(CLOCK_MONOTONIC);
}

void trace_step_end(Trace *trace, TraceStep step) {
        TraceSpan *span = &trace->spans[step];

        if (span->begin_nsec > 0 && span->end_nsec == 0)
                span->end_nsec = clock_nsec(CLOCK_MONOTONIC);
}

void trace_step_split(Trace *trace, TraceStep step, uint64_t usec, TraceStep next) {
        TraceSpan *span = &trace->spans[step];
        uint64_t now = clock_nsec(CLOCK_MONOTONIC);

        if (span->begin_nsec == 0 || span->end_nsec > 0)
                return;
        span->end_nsec = usec <= (now - span->begin_nsec) / NSEC_PER_USEC
                                 ? span->begin_nsec + usec * NSEC_PER_USEC
                                 : now;
        trace->spans[next].begin_nsec = span->end_nsec;
}

/* Within the call, whatever the one who tells of it says. */
static uint64_t clamp_nsec(const Trace *trace, uint64_t usec) {
        uint64_t begun = trace->spans[TRACE_ROOT].begin_nsec, now = clock_nsec(CLOCK_MONOTONIC);

        if (usec < begun / NSEC_PER_USEC)
                return begun;
        return usec < now / NSEC_PER_USEC ? usec * NSEC_PER_USEC : now;
}

TraceRequest *trace_add_request(Trace *trace, uint64_t begun_usec, uint64_t usec) {
        TraceRequest *request;

        if (trace->n_requests++ >= TRACE_REQUESTS_MAX)
                return NULL;
        request = &trace->requests[trace->n_requests - 1];
        if (getrandom(request->span.id, TRACE_SPAN_ID_SIZE, 0) != (ssize_t) TRACE_SPAN_ID_SIZE) {
                trace->n_requests--;
                return NULL;
        }
        request->span.begin_nsec = clamp_nsec(trace, begun_usec);
        request->span.end_nsec =
                clamp_nsec(trace, usec < UINT64_MAX - begun_usec ? begun_usec + usec : UINT64_MAX);
        return request;
}

void trace_end(Trace *trace) {
        for (size_t i = _TRACE_STEP_MAX; i > 0; i--)
                trace_step_end(trace, (TraceStep) (i - 1));
}

void trace_copy(char *target, size_t size, const char *text) {
        size_t n = text ? strlen(text) : 0;

        if (n >= size) {
                n = size - 1;
                while (n > 0 && ((uint8_t) text[n] & 0xc0) == 0x80)
                        n--;
        }
        if (n > 0)
                memcpy(target, text, n);
        target[n] = 0;
}
