/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the counting and the writing of metrics share. */

#include "record/metrics.h"

#define METRICS_BUCKETS 18U

/* In nanoseconds; what is longer than all of them is in the count alone. */
extern const uint64_t metrics_bounds[METRICS_BUCKETS];

typedef struct Histogram {
        uint64_t buckets[METRICS_BUCKETS]; /* each by itself: summed up when written */
        uint64_t count, sum_nsec;
} Histogram;

/* The values of a label. Whatever has one index more is "other". */
typedef struct Label {
        StrV values;
} Label;

typedef struct ToolMetrics {
        uint64_t calls[_METRICS_OUTCOME_MAX];
        Histogram duration;
} ToolMetrics;

typedef struct TemplateMetrics {
        Histogram start[_METRICS_TEMPERATURE_MAX];
} TemplateMetrics;

typedef struct OperationMetrics {
        uint64_t requests[_METRICS_REQUEST_MAX];
} OperationMetrics;

struct Metrics {
        Label tools, templates, limits, denials, records;
        Label operations;               /* CREDENTIAL.OPERATION */
        OperationMetrics *by_operation; /* one more; the last is "other" */
        ToolMetrics *by_tool;           /* one more than tools */
        TemplateMetrics *by_template;   /* one more than templates; the last is "other" */
        uint64_t *by_limit, *by_denial;
        Histogram authorize;
        uint64_t egress_connections[2]; /* relayed, denied */
        uint64_t egress_bytes[2];       /* in, out */
};
