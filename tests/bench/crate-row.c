/* SPDX-License-Identifier: Apache-2.0 */

#include "crate-row.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "crate/build.h"
#include "crate/crate.h"
#include "crate/launcher.h"
#include "policy/policy.h"

#define NET_STOCK 4U

struct CrateRow {
        Template *template;
        CratePlans plans;
        Limits limits;
        CrateJob job;
        Launcher *launcher;
        CgroupTree *cgroups; /* borrowed */
        CgroupCrate *cgroup;
        Crate *crate;
        bool is_ended;
        uint64_t begin, started, ended;
        uint64_t phases[_CRATE_PHASE_MAX];
};

CrateRow *crate_row_free(CrateRow *row) {
        if (!row)
                return NULL;

        if (row->crate)
                row->crate = crate_free(row->crate);
        if (row->cgroup)
                row->cgroup = cgroup_crate_free(row->cgroup);
        if (row->launcher)
                row->launcher = launcher_free(row->launcher);
        if (row->template)
                row->template = template_free(row->template);
        crate_plans_done(&row->plans);
        crate_job_done(&row->job);
        free(row);
        return NULL;
}

static int load_template(CrateRow *row, char **ret_text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = policy_default_dirs(&dirs);
        if (r == 0)
                r = policy_load_template(&dirs, "host", &diags, &row->template);
        if (r == POLICY_E_INVALID) {
                *ret_text = diags.n_items > 0 ? diag_format(&diags.items[0]) : NULL;
                return -EINVAL;
        }
        return r;
}

static int start(CrateRow *row, const char *profile, CrateError *error) {
        _cleanup_(config_done) Config config = {};
        CrateRequest request = {
                .template = row->template,
                .profile = profile,
                .limits = &row->limits,
        };
        LauncherConfig launcher = {.net_stock = NET_STOCK};
        int r;

        config_init(&config);
        limits_init(&row->limits);
        row->job.limits = row->limits;
        r = crate_build_plans(&request, &row->plans, error);
        if (r == 0)
                r = strv_append(&row->job.argv, "/usr/bin/true");
        if (r == 0)
                r = crate_build_env(row->template, &STRV_NULL, &row->job.env);
        if (r != 0)
                return r < 0 ? r : -EINVAL;

        launcher.tree = row->plans.tree;
        launcher.subuid_base = config.subuid_base;
        launcher.subuid_count = config.subuid_count;
        launcher.cgroups = row->cgroups;
        r = launcher_start(&launcher, &row->launcher, error);
        return r <= 0 ? r : -EINVAL;
}

/* --- one run --- */

static void on_started(Crate *crate _unused_, void *userdata) {
        CrateRow *row = userdata;

        row->started = bench_now();
}

static void on_end(Crate *crate _unused_, void *userdata) {
        CrateRow *row = userdata;

        row->ended = bench_now();
        row->is_ended = true;
}

static int wait_for(CrateRow *row, bool (*is_done)(const CrateRow *row)) {
        int r;

        while (!is_done(row)) {
                struct pollfd polls[] = {
                        {.fd = launcher_get_fd(row->launcher), .events = POLLIN},
                        {.fd = row->crate ? crate_get_fd(row->crate) : -1, .events = POLLIN},
                };

                if (poll(polls, ELEMENTSOF(polls), -1) < 0)
                        return -errno;
                if (polls[0].revents) {
                        r = launcher_dispatch(row->launcher);
                        if (r != 0)
                                return r < 0 ? r : -EPIPE;
                }
                if (polls[1].revents && !row->is_ended)
                        (void) crate_dispatch(row->crate);
        }
        return 0;
}

static bool is_ended(const CrateRow *row) {
        return row->is_ended;
}

static bool is_ready(const CrateRow *row) {
        return launcher_is_ready(row->launcher);
}

static int run_crate(CrateRow *row) {
        static const CrateCallbacks callbacks = {.on_started = on_started, .on_end = on_end};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        CrateSpec spec = {.plan = row->plans.crate, .template = row->template->name};
        const CrateResult *result;
        int r;

        memcpy(spec.plan_digest, row->plans.digest, sizeof(spec.plan_digest));
        row->is_ended = false;
        row->begin = bench_now();
        if (row->cgroups) {
                r = cgroup_crate_new(row->cgroups, &row->cgroup);
                if (r < 0)
                        return r;
                spec.cgroup = row->cgroup;
        }
        r = crate_new(row->launcher, &spec, &row->job, &callbacks, row, &row->crate, &error);
        if (r == 0)
                r = wait_for(row, is_ended);
        if (r != 0)
                return r < 0 ? r : -EIO;

        result = crate_get_result(row->crate);
        if (result->outcome != CRATE_EXITED || result->exit_code != 0) {
                fprintf(stderr, "crate: %s: %s\n", crate_outcome_to_string(result->outcome),
                        result->error.text ?: "no reason given");
                return -EIO;
        }
        return 0;
}

int crate_row_measure(void *userdata, uint64_t *ret_nsec) {
        CrateRow *row = userdata;
        uint64_t freed;
        int r;

        r = run_crate(row);
        if (row->crate)
                row->crate = crate_free(row->crate);
        if (row->cgroup)
                row->cgroup = cgroup_crate_free(row->cgroup);
        freed = bench_now();
        if (r < 0)
                return r;

        row->phases[CRATE_PHASE_MADE] = row->started - row->begin;
        row->phases[CRATE_PHASE_ENDED] = row->ended - row->started;
        row->phases[CRATE_PHASE_FREED] = freed - row->ended;
        *ret_nsec = row->ended - row->begin;
        return 0;
}

const uint64_t *crate_row_phases(const CrateRow *row) {
        return row->phases;
}

int crate_row_new(const char *profile, CgroupTree *cgroups, CrateRow **ret_row, char **ret_text) {
        _cleanup_(crate_row_freep) CrateRow *row = NULL;
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        int r;

        row = calloc(1, sizeof(CrateRow));
        if (!row)
                return -ENOMEM;
        row->cgroups = cgroups;
        crate_job_init(&row->job);
        r = load_template(row, ret_text);
        if (r == 0)
                r = start(row, profile, &error);
        if (r == 0)
                r = wait_for(row, is_ready);
        if (r < 0) {
                if (!error.text && row->launcher)
                        *ret_text = strdup(launcher_get_error(row->launcher)->text ?: "");
                else if (error.text)
                        *ret_text = TAKE_PTR(error.text);
                return r;
        }

        *ret_row = TAKE_PTR(row);
        return 0;
}
