/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * By what each limit of a job is enforced on this host: the strongest means that there is, decided
 * before anything is started. What nothing can enforce is refused by name, as is what only sampling
 * could where that is not enough.
 */

#include <stdbool.h>

#include "crate/result.h"
#include "policy/limits.h"

typedef enum LimitController {
        LIMIT_CONTROLLER_MEMORY,
        LIMIT_CONTROLLER_PIDS,
        LIMIT_CONTROLLER_CPU,
        LIMIT_CONTROLLER_IO,
        _LIMIT_CONTROLLER_MAX,
} LimitController;

typedef struct LimitsHost {
        bool has_cgroup; /* a cgroup for each job, with these controllers */
        bool controllers[_LIMIT_CONTROLLER_MAX];
        const char *reasons[_LIMIT_CONTROLLER_MAX]; /* why there is none, a clause; or NULL */
        bool can_sample; /* this process may look at those of its crates */
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

/* A host without cgroups, whose crates this process may look at or not, as its ids have it. */
void limits_host_init(LimitsHost *host, Enforce enforce);
int limits_means_decide(const LimitsHost *host, const Limits *limits, LimitsMeans *ret_means,
                        CrateError *ret_error);
