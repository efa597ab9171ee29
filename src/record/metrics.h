/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is counted for an operator, and its text for Prometheus.
 *
 * To count is an addition in a table that was made at the start: a call pays some nanoseconds. A
 * label has only values that the configuration knows, and "other" for whatever else a client may
 * name, so that nobody can make the table grow. Durations fall into buckets from 0.1 ms to 60 s.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"

typedef struct Metrics Metrics;

/* How a call has ended. */
typedef enum MetricsOutcome {
        METRICS_OK,
        METRICS_ERROR,
        METRICS_DENIED,
        METRICS_LIMIT,
        METRICS_CANCELLED,
        METRICS_LOST,
        _METRICS_OUTCOME_MAX,
} MetricsOutcome;

/* Where the crate of a job came from. */
typedef enum MetricsTemperature {
        METRICS_COLD, /* made for it */
        _METRICS_TEMPERATURE_MAX,
} MetricsTemperature;

/* What has come of a request with a credential. */
typedef enum MetricsRequest {
        METRICS_REQUEST_OK,
        METRICS_REQUEST_ERROR, /* there was no whole answer */
        METRICS_REQUEST_DENIED,
        _METRICS_REQUEST_MAX,
} MetricsRequest;

/* How far a crate is. */
typedef enum MetricsState {
        METRICS_MAKING,
        METRICS_RUNNING,
        METRICS_ENDED, /* its job has, and it is taken down */
        _METRICS_STATE_MAX,
} MetricsState;

/* The values of labels; copied. */
typedef struct MetricsNames {
        const StrV *tools;
        const StrV *limits;
        const StrV *denials; /* kinds */
        const StrV *records; /* kinds that may be dropped */
} MetricsNames;

/* What is not counted but looked at when it is asked for. */
typedef struct MetricsNow {
        /* Of each template, in the order of metrics_template(): n_templates + 1 rows. */
        const uint64_t (*crates)[_METRICS_STATE_MAX];
        const uint64_t *dropped; /* of each kind of record */
} MetricsNow;

/* 0 or -ENOMEM. */
int metrics_new(const MetricsNames *names, Metrics **ret_metrics);
Metrics *metrics_free(Metrics *metrics);
DEFINE_CLEANUP(Metrics, metrics_free);
/* Templates of a policy that has come into force. Those that were known stay, with their counts;
 * more than METRICS_TEMPLATES_MAX in all count as "other". 0 or -ENOMEM. */
#define METRICS_TEMPLATES_MAX 256U
int metrics_add_template(Metrics *metrics, const char *name);
/* The same of tools. */
#define METRICS_TOOLS_MAX 512U
int metrics_add_tool(Metrics *metrics, const char *name);
/* The same of operations, by both names. */
#define METRICS_OPERATIONS_MAX 1024U
int metrics_add_operation(Metrics *metrics, const char *credential, const char *operation);
size_t metrics_n_templates(const Metrics *metrics);
/* Its index; that of "other", which is metrics_n_templates(), if it is not known or NULL. */
size_t metrics_template(const Metrics *metrics, const char *name);

/* A call has ended. tool may be anything, or NULL. */
void metrics_count_call(Metrics *metrics, const char *tool, MetricsOutcome outcome, uint64_t nsec);
void metrics_count_authorize(Metrics *metrics, uint64_t nsec);
void metrics_count_start(Metrics *metrics, const char *template, MetricsTemperature temperature,
                         uint64_t nsec);
void metrics_count_limit(Metrics *metrics, const char *limit, uint64_t hits);
void metrics_count_denial(Metrics *metrics, const char *kind);
/* What a job has reached and was refused there. */
void metrics_count_egress(Metrics *metrics, uint64_t connections, uint64_t denied,
                          uint64_t bytes_in, uint64_t bytes_out);

/* Names that are not known count as "other" both. */
void metrics_count_operation(Metrics *metrics, const char *credential, const char *operation,
                             MetricsRequest outcome);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The text of all. 0 or -ENOMEM. */
int metrics_append_text(const Metrics *metrics, const MetricsNow *now, const char *version,
                        StrBuf *out);
