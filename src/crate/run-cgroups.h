/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the cgroups of a crate without a broker come from, agentcrate-run's and doctor's: a
 * transient scope where a service manager runs, a child of the own cgroup where none does. The
 * scope is asked for by agentcrate-scope while launcher and plan are being made; a host without
 * either costs a few system calls.
 */

#include "cgroup/cgroup.h"
#include "ipc/link.h"

typedef struct RunCgroups {
        pid_t helper; /* agentcrate-scope; 0: none runs */
        Link link;
        uint64_t deadline_usec;
        CgroupTree *tree; /* NULL: none */
        char *reason;     /* why there is none, once that is known: one clause */
} RunCgroups;

#define RUN_CGROUPS_NULL ((RunCgroups){.link = LINK_NULL})

/* Begins to look, with the launcher that is to sit in it. What the host refuses is a reason. 0 or a
 * negative errno. */
int run_cgroups_begin(RunCgroups *cgroups, pid_t launcher);
/* Waits for the answer, at most until 6 s after the beginning: from then on there is a tree or a
 * reason. 0 or a negative errno. */
int run_cgroups_wait(RunCgroups *cgroups);
/* All crates in it must have been freed, and the launcher must have ended. */
void run_cgroups_done(RunCgroups *cgroups);
