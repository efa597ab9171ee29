/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting the job: init makes the job's standard streams, so that the job's uid owns them, and
 * starts its main process by one clone in vfork style. What the child does between clone and exec
 * is all in job_child().
 */

#include <linux/filter.h>

#include "ipc/frame.h"
#include "ipc/proto.h"

typedef struct Job {
        pid_t pid; /* 0: not running */
        uint64_t start_usec;
        bool has_cgroup; /* of its own */
        bool is_closed;  /* init wears the closing rules already: no job can have a cgroup */
} Job;

/*
 * What closes the two calls that the plan's filter leaves open to init; what follows them decides
 * on all others. Only clone3 can start a job in a cgroup, so where there are cgroups the job's
 * process wears them from just before its exec. Where there are none, init wears them from its seal
 * on, as the first rules of the plan's filter: one filter instead of two.
 */
#define JOB_CLOSING_RULES 7
extern const struct sock_filter job_closing_rules[JOB_CLOSING_RULES];

/*
 * Handles an INIT_JOB frame: sends INIT_STARTED with the host's ends of the streams, then starts
 * the process. If that fails, ret_exited says at which step and the return is JOB_E_EXEC_FAILED;
 * nothing of the job has run.
 */
enum {
        _JOB_E_SUCCESS,
        JOB_E_EXEC_FAILED,
};
int job_start(Job *job, int control_fd, Frame *frame, InitExited *ret_exited);
