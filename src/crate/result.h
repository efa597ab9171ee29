/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result record: how a job ended, what it used, which limit it met. The same for agentcrate-run
 * and the broker.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "crate/capture.h"
#include "plan/plan.h"
#include "policy/limits.h"

typedef enum CrateOutcome {
        CRATE_EXITED,
        CRATE_SIGNALED,
        CRATE_LIMIT,
        CRATE_EXEC_FAILED,
        CRATE_CANCELLED,
        CRATE_LOST,
} CrateOutcome;

/* Why no crate could be made, or why the command could not be started. All strings are owned; NULL
 * where there is none. */
typedef struct CrateError {
        char *step;
        int error; /* errno, positive; 0 if none */
        char *path;
        char *text;   /* one sentence: what, where */
        char *remedy; /* one clause: what to do */
} CrateError;

#define CRATE_ERROR_NULL ((CrateError){})

void crate_error_done(CrateError *error);
/* Replaces the error; format gives the text. path and remedy may be NULL. */
int crate_error_set(CrateError *error, const char *step, int errno_value, const char *path,
                    const char *remedy, const char *format, ...) _printf_(6, 7);

typedef struct CrateLimitState {
        uint64_t max, peak, hits; /* peak LIMIT_UNLIMITED: not known */
        const char *enforced_by; /* "cgroup", "mount", "rlimit", "sampler", "timer", "broker"; NULL:
                                    nothing could */
} CrateLimitState;

/* Whose ceiling was met. */
typedef enum CrateLevel {
        CRATE_LEVEL_JOB,
        CRATE_LEVEL_SANDBOX,
        CRATE_LEVEL_TENANT,
        CRATE_LEVEL_INSTANCE,
} CrateLevel;

/* What ended a job. */
typedef struct CrateBreach {
        LimitName name; /* _LIMIT_INVALID: nothing did */
        uint64_t max, observed;
        CrateLevel level;
        const char *enforced_by; /* static */
} CrateBreach;

/* What went through agentcrate-egress. */
typedef struct CrateEgressUse {
        bool known; /* the job could reach something, and it was reported */
        uint64_t connections, bytes_in, bytes_out, n_denied;
} CrateEgressUse;

#define CRATE_EVIDENCE_MAX 16U

typedef struct CrateEvidence {
        uint64_t usec; /* since the start of the job */
        const char *kind;
        char *text;
} CrateEvidence;

typedef struct CrateResult {
        char job[32];
        char *tenant; /* NULL: the one who asked, "owner" */
        char *template;
        CrateOutcome outcome;
        int exit_code;     /* -1 if none */
        int signal;        /* 0 if none */
        bool ended_itself; /* nobody had to end it */
        CrateError error;
        CrateBreach limit;
        CrateLimitState limits[_LIMIT_MAX];
        bool limits_known; /* they are in force and listed */
        bool workspace_rw; /* a host folder was writable: its disk is not limited, and the record
                              says so */
        Capture out, err;
        uint64_t wall_usec, cpu_usec;
        uint64_t memory_peak_bytes; /* largest single process where nothing better is known */
        /* LIMIT_UNLIMITED: not known. */
        uint64_t pids_peak, io_read_bytes, io_write_bytes;
        CrateEgressUse egress;
        json_t *denied;                 /* an array, of the egress report; NULL: there was none */
        json_t *called;                 /* the same: operations, by what came of them */
        json_t *reached;                /* the same: connections, the first of them */
        uint64_t n_refused, n_unrouted; /* connections, by the counters of the crate's network */
        uint64_t n_missed; /* what a job that reaches nothing and failed has tried of the network */
        CrateEvidence evidence[CRATE_EVIDENCE_MAX];
        size_t n_evidence;
        char plan_digest[PLAN_DIGEST_SIZE];
} CrateResult;

void crate_result_init(CrateResult *result);
void crate_result_done(CrateResult *result);
int crate_result_add_evidence(CrateResult *result, uint64_t usec, const char *kind,
                              const char *format, ...) _printf_(4, 5);

const char *crate_outcome_to_string(CrateOutcome outcome);
/* "job", "sandbox", "tenant", "instance" */
const char *crate_level_to_string(CrateLevel level);
/* The record as JSON (tools.md's form); with_output false leaves stdout and stderr empty but keeps
 * their byte counts. NULL: out of memory. */
json_t *crate_result_to_json(const CrateResult *result, bool with_output);
/* The line that says how it ended if not "exited 0"; NULL if there is nothing to say or no memory.
 * Owned by the caller. */
char *crate_result_verdict(const CrateResult *result);
/* The exit status of agentcrate-run for this result. */
int crate_result_exit_status(const CrateResult *result);
