/* SPDX-License-Identifier: Apache-2.0 */

#include "record/metrics.h"

#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "record/metrics-internal.h"

#define USEC(n) ((n) *NSEC_PER_USEC)
#define MSEC(n) USEC((n) *USEC_PER_MSEC)

const uint64_t metrics_bounds[METRICS_BUCKETS] = {
        USEC(100),  USEC(250),  USEC(500),  MSEC(1),     MSEC(2) + USEC(500), MSEC(5),
        MSEC(10),   MSEC(25),   MSEC(50),   MSEC(100),   MSEC(250),           MSEC(500),
        MSEC(1000), MSEC(2500), MSEC(5000), MSEC(10000), MSEC(30000),         MSEC(60000),
};

static void histogram_add(Histogram *histogram, uint64_t nsec) {
        histogram->count++;
        histogram->sum_nsec += nsec;
        for (size_t i = 0; i < METRICS_BUCKETS; i++)
                if (nsec <= metrics_bounds[i]) {
                        histogram->buckets[i]++;
                        return;
                }
}

/* There are few: a search from the front is quicker than anything clever. */
static size_t label_find(const Label *label, const char *value) {
        size_t i = 0;

        if (!value)
                return label->values.n_items;
        while (i < label->values.n_items && !string_equal(label->values.items[i], value))
                i++;
        return i;
}

/* --- making --- */

Metrics *metrics_free(Metrics *metrics) {
        if (!metrics)
                return NULL;

        strv_done(&metrics->tools.values);
        strv_done(&metrics->templates.values);
        strv_done(&metrics->limits.values);
        strv_done(&metrics->denials.values);
        strv_done(&metrics->records.values);
        strv_done(&metrics->operations.values);
        free(metrics->by_operation);
        free(metrics->by_tool);
        free(metrics->by_template);
        free(metrics->by_limit);
        free(metrics->by_denial);
        free(metrics);
        return NULL;
}

static int metrics_copy_names(Metrics *metrics, const MetricsNames *names) {
        int r;

        r = strv_copy(&metrics->tools.values, names->tools);
        if (r == 0)
                r = strv_copy(&metrics->limits.values, names->limits);
        if (r == 0)
                r = strv_copy(&metrics->denials.values, names->denials);
        if (r == 0)
                r = strv_copy(&metrics->records.values, names->records);
        return error_trace(r);
}

int metrics_new(const MetricsNames *names, Metrics **ret_metrics) {
        _cleanup_(metrics_freep) Metrics *metrics = NULL;
        int r;

        metrics = calloc(1, sizeof(Metrics));
        if (!metrics)
                return error_origin(-ENOMEM);

        r = metrics_copy_names(metrics, names);
        if (r < 0)
                return error_trace(r);
        metrics->by_tool = calloc(names->tools->n_items + 1, sizeof(ToolMetrics));
        metrics->by_template = calloc(1, sizeof(TemplateMetrics));
        metrics->by_operation = calloc(1, sizeof(OperationMetrics));
        metrics->by_limit = calloc(names->limits->n_items + 1, sizeof(uint64_t));
        metrics->by_denial = calloc(names->denials->n_items + 1, sizeof(uint64_t));
        if (!metrics->by_tool || !metrics->by_template || !metrics->by_limit ||
            !metrics->by_denial || !metrics->by_operation)
                return error_origin(-ENOMEM);

        *ret_metrics = TAKE_PTR(metrics);
        return 0;
}

int metrics_add_template(Metrics *metrics, const char *name) {
        size_t n = metrics->templates.values.n_items;
        TemplateMetrics *rows;
        int r;

        if (label_find(&metrics->templates, name) < n || n >= METRICS_TEMPLATES_MAX)
                return 0;
        rows = reallocarray(metrics->by_template, n + 2, sizeof(TemplateMetrics));
        if (!rows)
                return error_origin(-ENOMEM);
        metrics->by_template = rows;
        r = strv_append(&metrics->templates.values, name);
        if (r < 0)
                return error_trace(r);
        rows[n + 1] = rows[n];
        rows[n] = (TemplateMetrics){};
        return 0;
}

int metrics_add_tool(Metrics *metrics, const char *name) {
        size_t n = metrics->tools.values.n_items;
        ToolMetrics *rows;
        int r;

        if (label_find(&metrics->tools, name) < n || n >= METRICS_TOOLS_MAX)
                return 0;
        rows = reallocarray(metrics->by_tool, n + 2, sizeof(ToolMetrics));
        if (!rows)
                return error_origin(-ENOMEM);
        metrics->by_tool = rows;
        r = strv_append(&metrics->tools.values, name);
        if (r < 0)
                return error_trace(r);
        rows[n + 1] = rows[n];
        rows[n] = (ToolMetrics){};
        return 0;
}

int metrics_add_operation(Metrics *metrics, const char *credential, const char *operation) {
        size_t n = metrics->operations.values.n_items;
        _cleanup_(freep) char *name = NULL;
        OperationMetrics *rows;
        int r;

        if (asprintf(&name, "%s.%s", credential, operation) < 0) {
                name = NULL;
                return error_origin(-ENOMEM);
        }
        if (label_find(&metrics->operations, name) < n || n >= METRICS_OPERATIONS_MAX)
                return 0;
        rows = reallocarray(metrics->by_operation, n + 2, sizeof(OperationMetrics));
        if (!rows)
                return error_origin(-ENOMEM);
        metrics->by_operation = rows;
        r = strv_append(&metrics->operations.values, name);
        if (r < 0)
                return error_trace(r);
        rows[n + 1] = rows[n];
        rows[n] = (OperationMetrics){};
        return 0;
}

size_t metrics_n_templates(const Metrics *metrics) {
        return metrics->templates.values.n_items;
}

size_t metrics_template(const Metrics *metrics, const char *name) {
        return label_find(&metrics->templates, name);
}

/* --- counting --- */

void metrics_count_call(Metrics *metrics, const char *tool, MetricsOutcome outcome, uint64_t nsec) {
        ToolMetrics *row = &metrics->by_tool[label_find(&metrics->tools, tool)];

        row->calls[outcome]++;
        histogram_add(&row->duration, nsec);
}

void metrics_count_authorize(Metrics *metrics, uint64_t nsec) {
        histogram_add(&metrics->authorize, nsec);
}

void metrics_count_start(Metrics *metrics, const char *template, MetricsTemperature temperature,
                         uint64_t nsec) {
        histogram_add(
                &metrics->by_template[label_find(&metrics->templates, template)].start[temperature],
                nsec);
}

void metrics_count_limit(Metrics *metrics, const char *limit, uint64_t hits) {
        metrics->by_limit[label_find(&metrics->limits, limit)] += hits;
}

void metrics_count_denial(Metrics *metrics, const char *kind) {
        metrics->by_denial[label_find(&metrics->denials, kind)]++;
}

void metrics_count_egress(Metrics *metrics, uint64_t connections, uint64_t denied,
                          uint64_t bytes_in, uint64_t bytes_out) {
        metrics->egress_connections[0] += connections;
        metrics->egress_connections[1] += denied;
        metrics->egress_bytes[0] += bytes_in;
        metrics->egress_bytes[1] += bytes_out;
}

void metrics_count_operation(Metrics *metrics, const char *credential, const char *operation,
                             MetricsRequest outcome) {
        size_t n = strlen(credential), i = 0;

        for (; i < metrics->operations.values.n_items; i++) {
                const char *name = metrics->operations.values.items[i];

                if (strncmp(name, credential, n) == 0 && name[n] == '.' &&
                    string_equal(name + n + 1, operation))
                        break;
        }
        metrics->by_operation[i].requests[outcome]++;
}
