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
} RunSetup;

/* 0, RUN_E_REPORTED or a negative errno. On failure there is nothing to free. */
int run_setup_init(RunSetup *setup, const RunOptions *options);
void run_setup_done(RunSetup *setup);
int run_setup_print(const RunSetup *setup);

/* Says what a CrateError says, as a failure of the runner. */
int report_crate_error(const CrateError *error);
