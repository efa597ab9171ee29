/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * By what each limit of a job is enforced on this host: the strongest means that there is, decided
 * before anything is started. What nothing can enforce is refused by name, as is what only sampling
 * could where that is not enough.
 */

#include <stdbool.h>

#include "basic/string-util.h"
#include "cgroup/cgroup.h"
#include "crate/result.h"
#include "policy/limits.h"

typedef struct LimitsHost {
        const CgroupTree *cgroups; /* NULL: crates have no cgroups */
        const char *reason;        /* why they have none, a clause; or NULL; borrowed */
        bool can_sample;           /* this process may look at those of its crates */
        Enforce enforce;
} LimitsHost;

typedef enum LimitMeans {
        LIMIT_BY_NOTHING, /* of an unlimited one that nothing could enforce */
        LIMIT_BY_CGROUP,
        LIMIT_BY_RLIMIT,
        LIMIT_BY_SAMPLER,
        LIMIT_BY_MOUNT,
        LIMIT_BY_TIMER,
        LIMIT_BY_BROKER,
} LimitMeans;

typedef struct LimitsMeans {
        LimitMeans of[_LIMIT_MAX];
} LimitsMeans;

/* As a record has it; NULL for LIMIT_BY_NOTHING. */
const char *limit_means_to_string(LimitMeans means);

enum {
        _LIMITS_MEANS_E_SUCCESS,
        LIMITS_MEANS_E_REFUSED, /* ret_error tells */
};

/* notes gets a sentence where less than a cgroup enforces what a cgroup could; may be NULL. */
int limits_means_decide(const LimitsHost *host, const Limits *limits, LimitsMeans *ret_means,
                        StrV *notes, CrateError *ret_error);

/* A job's own processes are held by the kernel everywhere; those of several together only by a
 * cgroup, or by whoever looks at them and may. where is the level's place in the configuration. */
int limits_means_check_ceilings(const LimitsHost *host, const LimitsMeans *means,
                                const Limits *ceilings, const char *where, CrateError *ret_error);

/* What of the limits is the part of the job's cgroup. */
CgroupLimits limits_of_job(const Limits *limits, const LimitsMeans *means);
/* The ceiling of the crate around the job: that, its private files, and room for init. */
CgroupLimits limits_of_crate(const Limits *limits, const LimitsMeans *means);
/* Ceilings of a tenant or of the instance, as far as the tree has controllers for them. */
CgroupLimits limits_of_ceilings(const Limits *ceilings, unsigned controllers);
