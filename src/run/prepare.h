/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the command line to everything that a crate is made from. Nothing is started here, so that
 * --print-plan shows exactly what a run would do.
 */

#include "crate/build.h"
#include "crate/crate.h"
#include "policy/policy.h"
#include "run/options.h"

typedef struct RunSetup {
        Template *template;
        Config config;
        Limits limits;
        CratePlans plans;
        CrateJob job;
        LimitsMeans means; /* after run_setup_enforce() */
        DestinationList egress;
        Credential **credentials; /* of the operations that are asked for */
        size_t n_credentials;
        StrV operations; /* the template's, and those of the command line */
        StrV notes;
} RunSetup;

/* 0, RUN_E_REPORTED or a negative errno. On failure there is nothing to free. */
int run_setup_init(RunSetup *setup, const RunOptions *options);
void run_setup_done(RunSetup *setup);
/* allowed: what the command line names. */
int run_setup_print(const RunSetup *setup, const DestinationList *allowed);

/*
 * Decides by what the limits are enforced: by cgroups below tree, or without any, NULL, for that
 * reason (a clause, or NULL). With a tree the job's cgroup is made, with its limits. 0,
 * RUN_E_REPORTED or a negative errno.
 */
int run_setup_enforce(RunSetup *setup, Enforce enforce, CgroupTree *tree, const char *reason,
                      CgroupCrate **ret_cgroup);

/* Says what a CrateError says, as a failure of the runner. */
int report_crate_error(const CrateError *error);
