/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Traces as OpenTelemetry's collectors take them by HTTP: the JSON form of an
 * ExportTraceServiceRequest. It is pure ASCII. */

#include "basic/string-util.h"
#include "record/trace.h"

/* No trace, whatever a client put into it, is longer. */
#define OTLP_TRACE_MAX (56U * 1024U)
#define OTLP_FRAME_MAX 512U

/* All return 0 or -ENOMEM. Between begin and end any number of traces that have ended. */
int otlp_append_begin(StrBuf *out, const char *version);
int otlp_append_trace(StrBuf *out, const Trace *trace, bool first);
int otlp_append_end(StrBuf *out);
