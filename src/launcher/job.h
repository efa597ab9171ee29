/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting the job: init makes the job's standard streams, so that the job's uid owns them, and
 * starts its main process by one clone3 in vfork style. What the child does between clone and exec
 * is all in job_child().
 */

#include "ipc/frame.h"
#include "ipc/proto.h"

typedef struct Job {
        pid_t pid; /* 0: not running */
        uint64_t start_usec;
        bool has_cgroup; /* of its own */
} Job;

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
