/* SPDX-License-Identifier: Apache-2.0 */

/*
 * By what each limit would be enforced here. Not decided in this place: crates ask the same
 * function.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "cgroup/cgroup.h"
#include "crate/limits-means.h"
#include "doctor/doctor.h"

/* What would be asked for: enough of whatever it is. */
#define ANY_VALUE (1ULL << 30)

static const unsigned controller_bits[_DOCTOR_CONTROLLER_MAX] = {
        [DOCTOR_CONTROLLER_MEMORY] = CGROUP_MEMORY,
        [DOCTOR_CONTROLLER_PIDS] = CGROUP_PIDS,
        [DOCTOR_CONTROLLER_CPU] = CGROUP_CPU,
        [DOCTOR_CONTROLLER_IO] = CGROUP_IO,
};

static void ask_for_one(LimitName name, Limits *ret_limits) {
        limits_init(ret_limits);
        for (LimitName other = 0; other < _LIMIT_MAX; other++)
                ret_limits->max[other] = LIMIT_UNLIMITED;
        ret_limits->max[name] = ANY_VALUE;
}

/* --- gathering --- */

static int gather_controllers(TrialFacts *trial, const CgroupTree *tree) {
        trial->has_cgroup = true;
        for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                CgroupController controller = (CgroupController) controller_bits[i];
                const char *missing = cgroup_tree_missing(tree, controller);

                trial->cgroup_has[i] = cgroup_tree_controllers(tree) & controller;
                if (!missing)
                        continue;
                trial->cgroup_lacks[i] = strdup(missing);
                if (!trial->cgroup_lacks[i])
                        return error_origin(-ENOMEM);
        }
        return 0;
}

static int gather_limit(const LimitsHost *host, LimitName name, LimitFacts *facts) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsMeans means;
        Limits limits;
        int r;

        ask_for_one(name, &limits);
        r = limits_means_decide(host, &limits, &means, NULL, &error);
        if (r < 0)
                return error_trace(r);
        facts->refused = r == LIMITS_MEANS_E_REFUSED;
        if (!facts->refused)
                facts->means = means.of[name];
        facts->text = TAKE_PTR(error.text);
        return 0;
}

/* What a broker would answer every call with. */
static int gather_enforcement(const DoctorFacts *facts, LimitsHost host, TrialFacts *trial) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        const Config *config = &facts->install.config;
        LimitsMeans means;
        int r;

        trial->enforce = config->enforce_given        ? config->enforce
                         : host_is_root(&facts->host) ? ENFORCE_STRICT
                                                      : ENFORCE_SAMPLED;
        host.enforce = trial->enforce;
        r = limits_means_decide(&host, &facts->install.limits, &means, NULL, &error);
        if (r == 0)
                r = limits_means_check_ceilings(&host, &means, &config->instance.limits, "instance",
                                                &error);
        if (r < 0)
                return error_trace(r);
        trial->enforce_text = TAKE_PTR(error.text);
        trial->enforce_remedy = TAKE_PTR(error.remedy);
        return 0;
}

int limits_gather(DoctorFacts *facts, const CgroupTree *tree, const char *reason) {
        LimitsHost host = {
                .cgroups = tree, .reason = reason, .can_sample = true, .enforce = ENFORCE_SAMPLED};
        TrialFacts *trial = &facts->trial;
        int r = 0;

        if (tree)
                r = gather_controllers(trial, tree);
        for (LimitName name = 0; r == 0 && name < _LIMIT_MAX; name++)
                r = gather_limit(&host, name, &trial->limits[name]);
        if (r == 0)
                r = gather_enforcement(facts, host, trial);
        if (r == 0 && reason) {
                trial->cgroup_reason = strdup(reason);
                if (!trial->cgroup_reason)
                        return error_origin(-ENOMEM);
        }
        return error_trace(r);
}

/* --- judging --- */

/* The controllers that would enforce that limit best. */
static unsigned limit_controllers(LimitName name) {
        LimitsMeans by_cgroup;
        CgroupLimits of_job;
        Limits limits;

        for (LimitName other = 0; other < _LIMIT_MAX; other++)
                by_cgroup.of[other] = LIMIT_BY_CGROUP;
        ask_for_one(name, &limits);
        of_job = limits_of_job(&limits, &by_cgroup);
        return cgroup_limits_controllers(&of_job);
}

/* The check of a controller: its answer is what crates have, its cause why not. */
static const DoctorCheck *find_check(const DoctorCheck *checks, size_t n_checks, unsigned bit) {
        const char *name = cgroup_controller_to_string((CgroupController) bit);

        for (size_t i = 0; i < n_checks; i++) {
                const char *of = string_after(checks[i].id, "cgroup-");

                if (of && string_equal(of, name))
                        return &checks[i];
        }
        return NULL;
}

/* A cgroup that the trial did not make, because it would have changed the host's own, but that a
 * crate would have. */
static bool has_untried_cgroup(const DoctorFacts *facts, const DoctorCheck *checks, size_t n_checks,
                               unsigned wanted) {
        for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                const DoctorCheck *check = find_check(checks, n_checks, controller_bits[i]);

                if ((controller_bits[i] & wanted) && check && check->answer == DOCTOR_YES)
                        return !facts->trial.has_cgroup && !facts->cgroup.systemd;
        }
        return false;
}

int judge_enforcement(DoctorCheck *check, const DoctorFacts *facts) {
        const TrialFacts *trial = &facts->trial;
        const char *enforce = trial->enforce == ENFORCE_STRICT ? "strict" : "sampled";

        /* A cgroup that was not tried would have been a broker's. */
        if (trial->enforce_text && !trial->has_cgroup && !facts->cgroup.systemd &&
            facts->cgroup.own && facts->cgroup.write_error == 0 &&
            facts->cgroup.controllers[DOCTOR_CONTROLLER_MEMORY].in_own)
                return check_found(check, "%s, not tried", enforce);
        return trial->enforce_text ? check_answer(check, DOCTOR_NO, trial->enforce_remedy, "%s",
                                                  trial->enforce_text)
                                   : check_found(check, "%s", enforce);
}

static const char *enforced_by(const DoctorFacts *facts, const DoctorCheck *checks, size_t n_checks,
                               LimitName name) {
        const LimitFacts *limit = &facts->trial.limits[name];
        unsigned wanted = limit_controllers(name);

        /* Time is counted in any cgroup, and one is made for the sake of any of these. */
        if (name == LIMIT_CPU_TIME)
                wanted = CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU;
        if (has_untried_cgroup(facts, checks, n_checks, wanted))
                return limit_means_to_string(LIMIT_BY_CGROUP);
        if (limit->refused || limit->means == LIMIT_BY_NOTHING)
                return "refused";
        return limit_means_to_string(limit->means);
}

static int set_reason(const DoctorFacts *facts, const DoctorCheck *checks, size_t n_checks,
                      LimitName name, DoctorLimit *limit) {
        unsigned wanted = limit_controllers(name);
        const DoctorCheck *check = wanted ? find_check(checks, n_checks, wanted) : NULL;
        int n = 0;

        if (string_equal(limit->enforced_by, "cgroup"))
                return 0;
        if (check && check->cause)
                n = asprintf(&limit->reason, "no controller %s: %s",
                             cgroup_controller_to_string((CgroupController) wanted), check->cause);
        else if (check || name == LIMIT_CPU_TIME)
                n = asprintf(&limit->reason, "crates have no cgroup%s%s",
                             facts->trial.cgroup_reason ? ": " : "",
                             facts->trial.cgroup_reason ?: "");
        if (n < 0) {
                limit->reason = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

int limits_judge(const DoctorFacts *facts, const DoctorCheck *checks, size_t n_checks,
                 DoctorLimit *ret_limits) {
        Limits defaults;
        int r = 0;

        limits_init(&defaults);
        for (LimitName name = 0; r == 0 && name < _LIMIT_MAX; name++) {
                ret_limits[name] = (DoctorLimit){
                        .name = limit_to_string(name),
                        .enforced_by = enforced_by(facts, checks, n_checks, name),
                        .has_default = defaults.max[name] != LIMIT_UNLIMITED,
                };
                r = set_reason(facts, checks, n_checks, name, &ret_limits[name]);
        }
        return error_trace(r);
}
