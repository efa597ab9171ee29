/* SPDX-License-Identifier: Apache-2.0 */

/* The text form of Prometheus, version 0.0.4. Every series is there from the start: a counter that
 * appears with its first event hides that event from rate(). */

#include <inttypes.h>

#include "basic/error.h"
#include "record/metrics-internal.h"

#define NSEC_PER_SEC UINT64_C(1000000000)

static const char *const outcome_words[] = {
        [METRICS_OK] = "ok",       [METRICS_ERROR] = "error",         [METRICS_DENIED] = "denied",
        [METRICS_LIMIT] = "limit", [METRICS_CANCELLED] = "cancelled", [METRICS_LOST] = "lost",
};
_Static_assert(ELEMENTSOF(outcome_words) == _METRICS_OUTCOME_MAX, "a word for each outcome");

static const char *const state_words[] = {
        [METRICS_MAKING] = "making",
        [METRICS_RUNNING] = "running",
        [METRICS_ENDED] = "ended",
};
_Static_assert(ELEMENTSOF(state_words) == _METRICS_STATE_MAX, "a word for each state");

static const char *const temperature_words[] = {[METRICS_COLD] = "cold"};
_Static_assert(ELEMENTSOF(temperature_words) == _METRICS_TEMPERATURE_MAX,
               "a word for each temperature");

static int append_family(StrBuf *out, const char *name, const char *type, const char *help) {
        return error_trace(strbuf_appendf(out, "# HELP agentcrate_%s %s\n# TYPE agentcrate_%s %s\n",
                                          name, help, name, type));
}

/* Names of tools and templates hold nothing that needs it; that is not for here to rely on. */
static int append_value(StrBuf *out, const char *value) {
        int r = 0;

        for (; r == 0 && *value; value++)
                if (*value == '\n')
                        r = strbuf_append_string(out, "\\n");
                else {
                        if (*value == '"' || *value == '\\')
                                r = strbuf_append_byte(out, '\\');
                        if (r == 0)
                                r = strbuf_append_byte(out, *value);
                }
        return r;
}

static int append_label(StrBuf *out, const char *name, const Label *label, size_t i) {
        int r;

        r = strbuf_appendf(out, "%s=\"", name);
        if (r == 0)
                r = append_value(out, i < label->values.n_items ? label->values.items[i] : "other");
        if (r == 0)
                r = strbuf_append_byte(out, '"');
        return r;
}

/* Seconds, exact to the nanosecond. */
static int append_seconds(StrBuf *out, uint64_t nsec) {
        return strbuf_appendf(out, "%" PRIu64 ".%09" PRIu64, nsec / NSEC_PER_SEC,
                              nsec % NSEC_PER_SEC);
}

static int append_bound(StrBuf *out, uint64_t nsec) {
        return strbuf_appendf(out, "%g", (double) nsec / (double) NSEC_PER_SEC);
}

/* labels: those of the series without braces, or "". */
static int append_histogram(StrBuf *out, const char *name, const char *labels,
                            const Histogram *histogram) {
        const char *comma = *labels ? "," : "", *open = *labels ? "{" : "",
                   *close = *labels ? "}" : "";
        uint64_t sum = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < METRICS_BUCKETS; i++) {
                sum += histogram->buckets[i];
                r = strbuf_appendf(out, "agentcrate_%s_bucket{%s%sle=\"", name, labels, comma);
                if (r == 0)
                        r = append_bound(out, metrics_bounds[i]);
                if (r == 0)
                        r = strbuf_appendf(out, "\"} %" PRIu64 "\n", sum);
        }
        if (r == 0)
                r = strbuf_appendf(out,
                                   "agentcrate_%s_bucket{%s%sle=\"+Inf\"} %" PRIu64
                                   "\nagentcrate_%s_sum%s%s%s ",
                                   name, labels, comma, histogram->count, name, open, labels,
                                   close);
        if (r == 0)
                r = append_seconds(out, histogram->sum_nsec);
        if (r == 0)
                r = strbuf_appendf(out, "\nagentcrate_%s_count%s%s%s %" PRIu64 "\n", name, open,
                                   labels, close, histogram->count);
        return error_trace(r);
}

/* A counter with one label. */
static int append_counts(StrBuf *out, const char *name, const char *label_name, const Label *label,
                         const uint64_t *counts, bool other) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < label->values.n_items + (other ? 1 : 0); i++) {
                r = strbuf_appendf(out, "agentcrate_%s{", name);
                if (r == 0)
                        r = append_label(out, label_name, label, i);
                if (r == 0)
                        r = strbuf_appendf(out, "} %" PRIu64 "\n", counts[i]);
        }
        return error_trace(r);
}

static int append_calls(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "calls_total", "counter", "Calls of tools, by how they ended.");
        for (size_t i = 0; i <= metrics->tools.values.n_items; i++)
                for (size_t k = 0; r == 0 && k < _METRICS_OUTCOME_MAX; k++) {
                        r = strbuf_append_string(out, "agentcrate_calls_total{");
                        if (r == 0)
                                r = append_label(out, "tool", &metrics->tools, i);
                        if (r == 0)
                                r = strbuf_appendf(out, ",outcome=\"%s\"} %" PRIu64 "\n",
                                                   outcome_words[k], metrics->by_tool[i].calls[k]);
                }
        return error_trace(r);
}

static int append_durations(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "call_duration_seconds", "histogram",
                          "Time from the request of a call to its end.");
        for (size_t i = 0; r == 0 && i <= metrics->tools.values.n_items; i++) {
                _cleanup_(strbuf_done) StrBuf labels = STRBUF_NULL;

                r = append_label(&labels, "tool", &metrics->tools, i);
                if (r == 0)
                        r = append_histogram(out, "call_duration_seconds", labels.data,
                                             &metrics->by_tool[i].duration);
        }
        return error_trace(r);
}

static int append_authorize(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "authorize_duration_seconds", "histogram",
                          "Time that the policy took to decide on a call.");
        if (r == 0)
                r = append_histogram(out, "authorize_duration_seconds", "", &metrics->authorize);
        return error_trace(r);
}

static int append_crates(const Metrics *metrics, const MetricsNow *now, StrBuf *out) {
        int r;

        r = append_family(out, "crates", "gauge", "Crates that there are now.");
        for (size_t i = 0; i <= metrics->templates.values.n_items; i++)
                for (size_t k = 0; r == 0 && k < _METRICS_STATE_MAX; k++) {
                        r = strbuf_append_string(out, "agentcrate_crates{");
                        if (r == 0)
                                r = append_label(out, "template", &metrics->templates, i);
                        if (r == 0)
                                r = strbuf_appendf(out, ",state=\"%s\"} %" PRIu64 "\n",
                                                   state_words[k], now->crates[i][k]);
                }
        return error_trace(r);
}

static int append_starts(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "crate_start_seconds", "histogram",
                          "Time from asking for a crate to the start of the job in it.");
        for (size_t i = 0; i <= metrics->templates.values.n_items; i++)
                for (size_t k = 0; r == 0 && k < _METRICS_TEMPERATURE_MAX; k++) {
                        _cleanup_(strbuf_done) StrBuf labels = STRBUF_NULL;

                        r = append_label(&labels, "template", &metrics->templates, i);
                        if (r == 0)
                                r = strbuf_appendf(&labels, ",temperature=\"%s\"",
                                                   temperature_words[k]);
                        if (r == 0)
                                r = append_histogram(out, "crate_start_seconds", labels.data,
                                                     &metrics->by_template[i].start[k]);
                }
        return error_trace(r);
}

static int append_other_counts(const Metrics *metrics, const MetricsNow *now, StrBuf *out) {
        int r;

        r = append_family(out, "limit_hits_total", "counter", "Times that jobs met a limit.");
        if (r == 0)
                r = append_counts(out, "limit_hits_total", "limit", &metrics->limits,
                                  metrics->by_limit, false);
        if (r == 0)
                r = append_family(out, "denials_total", "counter",
                                  "Calls and connections that were denied, by what denied them.");
        if (r == 0)
                r = append_counts(out, "denials_total", "kind", &metrics->denials,
                                  metrics->by_denial, true);
        if (r == 0)
                r = append_family(out, "records_dropped_total", "counter",
                                  "Records that could not be written or sent.");
        if (r == 0)
                r = append_counts(out, "records_dropped_total", "kind", &metrics->records,
                                  now->dropped, false);
        return error_trace(r);
}

static int append_egress(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "egress_connections_total", "counter",
                          "Connections of jobs, and what they were denied.");
        if (r == 0)
                r = strbuf_appendf(
                        out,
                        "agentcrate_egress_connections_total{outcome=\"relayed\"} %" PRIu64
                        "\nagentcrate_egress_connections_total{outcome=\"denied\"} %" PRIu64 "\n",
                        metrics->egress_connections[0], metrics->egress_connections[1]);
        if (r == 0)
                r = append_family(out, "egress_bytes_total", "counter",
                                  "Bytes to jobs and from jobs.");
        if (r == 0)
                r = strbuf_appendf(out,
                                   "agentcrate_egress_bytes_total{direction=\"in\"} %" PRIu64
                                   "\nagentcrate_egress_bytes_total{direction=\"out\"} %" PRIu64
                                   "\n",
                                   metrics->egress_bytes[0], metrics->egress_bytes[1]);
        return error_trace(r);
}

/* The two names are one label's value, with a dot between them, which neither has. */
static int append_operation(const Metrics *metrics, size_t i, StrBuf *out) {
        static const char *const words[_METRICS_REQUEST_MAX] = {"ok", "error", "denied"};
        const StrV *names = &metrics->operations.values;
        const char *name = i < names->n_items ? names->items[i] : "other.other";
        int dot = (int) strcspn(name, "."), r = 0;

        for (size_t k = 0; r == 0 && k < _METRICS_REQUEST_MAX; k++)
                r = strbuf_appendf(out,
                                   "agentcrate_operations_total{credential=\"%.*s\",operation="
                                   "\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                                   dot, name, name + dot + 1, words[k],
                                   metrics->by_operation[i].requests[k]);
        return error_trace(r);
}

static int append_operations(const Metrics *metrics, StrBuf *out) {
        int r;

        r = append_family(out, "operations_total", "counter",
                          "Requests with a credential, by what came of them.");
        for (size_t i = 0; r == 0 && i <= metrics->operations.values.n_items; i++)
                r = append_operation(metrics, i, out);
        return error_trace(r);
}

static int append_build(StrBuf *out, const char *version) {
        int r;

        r = append_family(out, "build_info", "gauge", "Always 1; tells the version.");
        if (r == 0)
                r = strbuf_append_string(out, "agentcrate_build_info{version=\"");
        if (r == 0)
                r = append_value(out, version);
        if (r == 0)
                r = strbuf_append_string(out, "\"} 1\n");
        return error_trace(r);
}

int metrics_append_text(const Metrics *metrics, const MetricsNow *now, const char *version,
                        StrBuf *out) {
        int r;

        r = append_calls(metrics, out);
        if (r == 0)
                r = append_durations(metrics, out);
        if (r == 0)
                r = append_authorize(metrics, out);
        if (r == 0)
                r = append_crates(metrics, now, out);
        if (r == 0)
                r = append_starts(metrics, out);
        if (r == 0)
                r = append_other_counts(metrics, now, out);
        if (r == 0)
                r = append_egress(metrics, out);
        if (r == 0)
                r = append_operations(metrics, out);
        if (r == 0)
                r = append_build(out, version);
        return error_trace(r);
}
