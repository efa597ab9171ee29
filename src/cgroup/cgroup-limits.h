/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the limits of one level to its cgroup, and reads each of them back. */

#include "cgroup/cgroup.h"

/* The largest number of tasks that the kernel takes. */
#define CGROUP_PIDS_MAX 4194304U

enum {
        CGROUP_LIMITS_JOB = 1U << 0,  /* the job as a whole is ended when it runs out of memory */
        CGROUP_LIMITS_LIFT = 1U << 1, /* the level may have had others: unlimited ones are written,
                                         too */
};

/* controllers are those that dir has. 0, CGROUP_E_FAILED or a negative errno. */
int cgroup_limits_write(int dir, const char *path, const CgroupLimits *limits, unsigned controllers,
                        unsigned flags, CgroupFailure *ret_failure);
