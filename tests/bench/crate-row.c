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
#include "crate/limits-means.h"
#include "policy/policy.h"

#define NET_STOCK 4U

struct CrateRow {
        Template *template;
        CratePlans plans;
        CrateRowLimits which;
        Limits limits;
        LimitsMeans means;
        StrBuf missing;
        CrateJob job;
        Launcher *launcher;
        Egress *egress; /* NULL: nothing is reached */
        DestinationList destinations;
        Config config;
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
        row->egress = egress_free(row->egress);
        destination_list_done(&row->destinations);
        config_done(&row->config);
        if (row->template)
                row->template = template_free(row->template);
        crate_plans_done(&row->plans);
        crate_job_done(&row->job);
        strbuf_done(&row->missing);
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

/* Far from what /usr/bin/true takes: what is measured is holding a limit, not meeting it. */
static void choose_limits(CrateRow *row) {
        static const struct {
                LimitName name;
                uint64_t max;
        } sets[] = {
                {LIMIT_WALL_TIME, 60000000},
                {LIMIT_CPU_TIME, 60000000},
                {LIMIT_MEMORY, 1U << 30},
                {LIMIT_PIDS, 512},
                {LIMIT_CPUS, 64000},
                {LIMIT_FILE_SIZE, 1U << 30},
                {LIMIT_OUTPUT, 1U << 20},
                {LIMIT_IO_READ_BPS, 1U << 30},
                {LIMIT_IO_WRITE_BPS, 1U << 30},
        };

        limits_init(&row->limits);
        for (size_t i = 0; row->which != CRATE_ROW_LIMITS_DEFAULT && i < ELEMENTSOF(sets); i++)
                row->limits.max[sets[i].name] =
                        row->which == CRATE_ROW_LIMITS_ON ? sets[i].max : LIMIT_UNLIMITED;
        row->job.limits = row->limits;
}

static int start(CrateRow *row, const char *profile, CrateError *error) {
        CrateRequest request = {
                .template = row->template,
                .profile = profile,
                .limits = &row->limits,
                .egress = &row->destinations,
                .egress_settings = egress_settings(&row->config.egress),
        };
        LauncherConfig launcher = {.net_stock = NET_STOCK};
        int r;

        choose_limits(row);
        r = crate_build_plans(&request, &row->plans, error);
        if (r == 0)
                r = strv_append(&row->job.argv, "/usr/bin/true");
        if (r == 0)
                r = crate_build_env(row->template, &STRV_NULL, &row->job.env);
        if (r != 0)
                return r < 0 ? r : -EINVAL;

        launcher.tree = row->plans.tree;
        launcher.subuid_base = row->config.subuid_base;
        launcher.subuid_count = row->config.subuid_count;
        launcher.cgroups = row->cgroups;
        r = launcher_start(&launcher, &row->launcher, error);
        return r <= 0 ? r : -EINVAL;
}

/* Whether the host holds this one of the row's limits. */
static int try_limit(CrateRow *row, const LimitsHost *host, LimitName name) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsMeans means;
        Limits one;

        for (LimitName i = 0; i < _LIMIT_MAX; i++)
                one.max[i] = i == name ? row->limits.max[i] : LIMIT_UNLIMITED;
        one.given = 1U << name;
        return limits_means_decide(host, &one, &means, NULL, &error);
}

int crate_row_take_limits(CrateRow *row) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        const LimitsHost host = {.cgroups = row->cgroups, .enforce = ENFORCE_STRICT};
        int r;

        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                r = try_limit(row, &host, name);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                row->limits.max[name] = LIMIT_UNLIMITED;
                r = strbuf_appendf(&row->missing, "%s%s", row->missing.size > 0 ? ", " : "",
                                   limit_to_string(name));
                if (r < 0)
                        return r;
        }
        row->job.limits = row->limits;
        r = limits_means_decide(&host, &row->limits, &row->means, NULL, &error);
        return r > 0 ? -EINVAL : r;
}

const char *crate_row_missing(const CrateRow *row) {
        return row->missing.data ?: "";
}

/* --- one run --- */

static int make_cgroup(CrateRow *row) {
        const CgroupLimits crate = limits_of_crate(&row->limits, &row->means);
        const CgroupLimits job = limits_of_job(&row->limits, &row->means);
        const CgroupCrateSpec spec = {.crate_limits = &crate, .job_limits = &job};
        CgroupFailure failure;
        int r;

        if (row->which != CRATE_ROW_LIMITS_ON)
                return cgroup_crate_new(row->cgroups, &row->cgroup);
        r = cgroup_crate_make(row->cgroups, &spec, &row->cgroup, &failure);
        return r > 0 ? -EIO : r;
}

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
                        {.fd = row->egress ? egress_get_fd(row->egress) : -1, .events = POLLIN},
                };

                if (poll(polls, ELEMENTSOF(polls), -1) < 0)
                        return -errno;
                if (polls[0].revents) {
                        r = launcher_dispatch(row->launcher);
                        if (r != 0)
                                return r < 0 ? r : -EPIPE;
                }
                if (polls[2].revents)
                        egress_dispatch(row->egress);
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

/* Each crate takes one. */
static int plan_egress(CrateRow *row, CrateError *error) {
        const EgressSettings settings = egress_settings(&row->config.egress);
        const EgressGrants none = {};

        if (!row->egress || row->plans.egress)
                return 0;
        return egress_plan_new(&row->destinations, &none, &settings, &row->plans.egress, error);
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
        r = plan_egress(row, &error);
        if (r != 0)
                return r < 0 ? r : -EINVAL;
        spec.egress = row->egress;
        spec.egress_plan = &row->plans.egress;
        if (row->cgroups) {
                r = make_cgroup(row);
                if (r < 0)
                        return r;
                spec.cgroup = row->cgroup;
        }
        if (row->which != CRATE_ROW_LIMITS_DEFAULT)
                spec.means = &row->means;
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

static int start_egress(CrateRow *row, CrateError *error) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = destination_list_parse(&row->destinations, "example.org:443", &text);
        if (r == 0)
                r = egress_new(NULL, &row->egress);
        if (r == 0)
                r = egress_start(row->egress, error);
        return r <= 0 ? r : -EIO;
}

int crate_row_new(const CrateRowSpec *spec, CrateRow **ret_row, char **ret_text) {
        _cleanup_(crate_row_freep) CrateRow *row = NULL;
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        int r;

        row = calloc(1, sizeof(CrateRow));
        if (!row)
                return -ENOMEM;
        row->cgroups = spec->cgroups;
        row->which = spec->limits;
        config_init(&row->config);
        crate_job_init(&row->job);
        r = spec->egress ? start_egress(row, &error) : 0;
        if (r == 0)
                r = load_template(row, ret_text);
        if (r == 0)
                r = start(row, spec->profile, &error);
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
