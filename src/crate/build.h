/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From a template and a request to plans: the tree plan that a launcher is started with, and the
 * crate plan of one job. No side effects but looking at the host's files.
 */

#include "basic/string-util.h"
#include "crate/egress-plan.h"
#include "crate/result.h"
#include "plan/plan.h"
#include "policy/template.h"

typedef struct CrateBind {
        const char *from; /* host path, a real one: links in it are refused */
        const char *to;   /* path in the crate; NULL: the same as from */
        bool writable;
} CrateBind;

typedef struct CrateRequest {
        const Template *template;
        const char *profile;   /* NULL: the template's */
        const char *workspace; /* host folder for /workspace, a real path too; NULL: empty and
                                  private */
        bool workspace_ro;
        const CrateBind *binds; /* of agentcrate-run's --ro and --rw */
        size_t n_binds;
        const Limits *limits;
        const DestinationList *egress; /* what the job may reach; NULL or empty: nothing */
        EgressGrants grants;           /* operations that it may call */
        EgressSettings egress_settings;
        /* The broker starts a launcher once and gives each job's workspace later: the tree must
         * hold for any. */
} CrateRequest;

typedef struct CratePlans {
        CratePlan *tree;  /* for launcher_start() */
        CratePlan *crate; /* for crate_new() */
        StrV notes;       /* skipped paths and the like, for --print-plan */
        bool workspace_rw;
        EgressPlan *egress; /* for crate_new(); NULL: nothing is reached */
        char digest[PLAN_DIGEST_SIZE];
} CratePlans;

enum {
        _CRATE_BUILD_E_SUCCESS,
        CRATE_BUILD_E_INVALID, /* ret_error tells */
};

void crate_plans_done(CratePlans *plans);
int crate_build_plans(const CrateRequest *request, CratePlans *ret_plans, CrateError *ret_error);

/* Lowers what defaults and template say to what this process itself may have (open files). Called
 * before what was asked for is merged in: that is left to fail by name. */
void crate_limits_lower(Limits *limits);

/* The environment of a job: defaults of the crate, the template's env and pass_env, then extra
 * (NAME=VALUE each). */
int crate_build_env(const Template *template, const StrV *extra, StrV *ret_env);
