/* SPDX-License-Identifier: Apache-2.0 */

/* What is taken as a traceparent is, byte for byte, what would be written for it; a body that is
 * made of it, and of a state of any bytes, is JSON. The input's first line is the one, the rest the
 * other. */

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "basic/json-scan.h"
#include "record/otlp.h"

static void check_parsed(const char *text, size_t size) {
        char again[TRACE_PARENT_SIZE + 1];
        TraceParent parent;
        size_t n = 0;

        if (trace_parent_parse(text, size, &parent) != 0)
                return;
        n += (size_t) snprintf(again, sizeof(again), "00-");
        for (size_t i = 0; i < TRACE_ID_SIZE; i++)
                n += (size_t) snprintf(again + n, sizeof(again) - n, "%02x", parent.trace_id[i]);
        n += (size_t) snprintf(again + n, sizeof(again) - n, "-");
        for (size_t i = 0; i < TRACE_SPAN_ID_SIZE; i++)
                n += (size_t) snprintf(again + n, sizeof(again) - n, "%02x", parent.span_id[i]);
        n += (size_t) snprintf(again + n, sizeof(again) - n, "-%02x", parent.flags);
        FUZZ_ASSERT(n == size && memcmp(again, text, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        const char *text = (const char *) data;
        const char *end = size > 0 ? memchr(text, '\n', size) : NULL;
        size_t parent_size = end ? (size_t) (end - text) : size;
        JsonError error;
        Trace trace;

        check_parsed(text, parent_size);
        FUZZ_ASSERT(trace_begin(&trace) == 0);
        trace_set_parent(&trace, text, parent_size, end ? end + 1 : NULL,
                         end ? size - parent_size - 1 : 0);
        FUZZ_ASSERT(trace.has_parent != trace.parent_malformed);
        trace_end(&trace);
        FUZZ_ASSERT(otlp_append_trace(&out, &trace, true) == 0);
        FUZZ_ASSERT(out.size <= OTLP_TRACE_MAX && json_scan(out.data, out.size, &doc, &error) == 0);
        return 0;
}
