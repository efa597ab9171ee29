/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The proof: a crate that runs /usr/bin/true, made in the same way as those of agentcrate-run, with
 * the cgroup that it would have. Only root without a service manager goes without that: there it
 * would lie in a cgroup that is the host's, whose controllers would have to be changed for it.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "crate/build.h"
#include "crate/crate.h"
#include "crate/limits-means.h"
#include "crate/run-cgroups.h"
#include "doctor/check.h"
#include "policy/policy.h"

#define TRIAL_USEC (20 * USEC_PER_SEC)
#define TRIAL_WALL_USEC (10 * USEC_PER_SEC)
#define TRIAL_DEAD_MSEC 5000

typedef struct Trial {
        const DoctorFacts *facts;
        uint64_t deadline_usec;
        Template *template;
        CratePlans plans;
        CrateJob job;
        LimitsMeans means;
        Launcher *launcher;
        bool launcher_gone;
        RunCgroups cgroups;
        CgroupCrate *cgroup;
        Crate *crate;
        bool is_ended;
} Trial;

enum {
        _TRIAL_E_SUCCESS,
        TRIAL_E_FAILED, /* ret_error tells */
};

static void trial_done(Trial *trial) {
        if (trial->crate) {
                if (trial->is_ended)
                        crate_wait_dead(trial->crate, TRIAL_DEAD_MSEC);
                trial->crate = crate_free(trial->crate);
        }
        if (trial->launcher)
                trial->launcher = launcher_free(trial->launcher);
        trial->cgroup = cgroup_crate_free(trial->cgroup);
        run_cgroups_done(&trial->cgroups);
        /* The launcher ends before its crate, so init has become our child. */
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        if (trial->template)
                trial->template = template_free(trial->template);
        crate_plans_done(&trial->plans);
        crate_job_done(&trial->job);
}

static void on_end(Crate *crate _unused_, void *userdata) {
        Trial *trial = userdata;

        trial->is_ended = true;
}

/* --- waiting --- */

/* Waits for what launcher and crate say, and hears it. False once the time is over. */
static bool trial_step(Trial *trial) {
        struct pollfd polls[] = {
                {.fd = trial->crate ? crate_get_fd(trial->crate) : -1, .events = POLLIN},
                {.fd = trial->launcher_gone ? -1 : launcher_get_fd(trial->launcher),
                 .events = POLLIN},
        };
        uint64_t now = now_usec();

        if (now >= trial->deadline_usec)
                return false;
        if (poll(polls, ELEMENTSOF(polls),
                 (int) ((trial->deadline_usec - now) / USEC_PER_MSEC) + 1) < 0)
                return true;
        if (polls[1].revents && launcher_dispatch(trial->launcher) != 0)
                trial->launcher_gone = true;
        if (polls[0].revents && !trial->is_ended)
                (void) crate_dispatch(trial->crate);
        return true;
}

static int too_late(CrateError *ret_error) {
        (void) crate_error_set(ret_error, "trial", ETIMEDOUT, NULL, NULL,
                               "the crate was not through within %llu s: something on this host "
                               "holds it up",
                               (unsigned long long) (TRIAL_USEC / USEC_PER_SEC));
        return TRIAL_E_FAILED;
}

static int copy_error(const CrateError *error, CrateError *ret_error) {
        (void) crate_error_set(ret_error, error->step ?: "launcher", error->error, error->path,
                               error->remedy, "%s", error->text ?: "the launcher has ended");
        return TRIAL_E_FAILED;
}

/* --- its parts, in their order --- */

static int trial_launch(Trial *trial, CrateError *ret_error) {
        bool is_hosts = host_is_root(&trial->facts->host) && !trial->facts->cgroup.systemd;
        int r;

        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        r = launcher_spawn(NULL, &trial->launcher, ret_error);
        if (r != 0)
                return r < 0 ? error_trace(r) : TRIAL_E_FAILED;
        if (!is_hosts)
                r = run_cgroups_begin(&trial->cgroups, launcher_get_pid(trial->launcher));
        return error_trace(r);
}

static int trial_template(Trial *trial, CrateError *ret_error) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = policy_default_dirs(&dirs);
        if (r >= 0)
                r = policy_load_template(&dirs, "host", &diags, &trial->template);
        if (r != POLICY_E_INVALID)
                return error_trace(r);
        (void) crate_error_set(ret_error, "configuration", 0, NULL, "see the check configuration",
                               "the template host cannot be used");
        return TRIAL_E_FAILED;
}

static int trial_plan(Trial *trial, CrateError *ret_error) {
        CrateJob *job = &trial->job;
        CrateRequest request;
        int r;

        r = trial_template(trial, ret_error);
        if (r != 0)
                return r;
        limits_init(&job->limits);
        limits_merge(&job->limits, &trial->template->limits);
        job->limits.max[LIMIT_WALL_TIME] = TRIAL_WALL_USEC;
        crate_limits_lower(&job->limits);
        request = (CrateRequest){.template = trial->template, .limits = &job->limits};
        r = crate_build_plans(&request, &trial->plans, ret_error);
        if (r != 0)
                return r < 0 ? error_trace(r) : TRIAL_E_FAILED;
        r = strv_append(&job->argv, "/usr/bin/true");
        if (r >= 0)
                r = crate_build_env(trial->template, NULL, &job->env);
        return error_trace(r);
}

/* With a tree of cgroups the launcher must have left its root before any limit can be written. */
static int trial_set_up(Trial *trial, CrateError *ret_error) {
        const Config *config = &trial->facts->install.config;
        LauncherConfig launcher = {
                .tree = trial->plans.tree,
                .subuid_base = config->subuid_base,
                .subuid_count = config->subuid_count,
                .cgroups = trial->cgroups.tree,
                .one_shot = true,
                .no_late = !plan_has_stage(trial->plans.crate, PLAN_STAGE_LATE),
        };
        CgroupFailure failure;
        int r;

        r = launcher_set_up(trial->launcher, &launcher, ret_error);
        if (r != 0)
                return r < 0 ? error_trace(r) : TRIAL_E_FAILED;
        while (!launcher_is_ready(trial->launcher)) {
                if (!trial_step(trial))
                        return too_late(ret_error);
                if (trial->launcher_gone)
                        return copy_error(launcher_get_error(trial->launcher), ret_error);
        }
        r = trial->cgroups.tree ? cgroup_tree_enable(trial->cgroups.tree, NULL, &failure) : 0;
        return r < 0 ? error_trace(r) : 0;
}

/* As an error of the step, whose file and values it names. */
static int cgroup_failed(const CgroupFailure *failure, CrateError *ret_error) {
        _cleanup_(freep) char *text = cgroup_failure_format(failure);

        (void) crate_error_set(ret_error, "cgroup", failure->error, failure->file, NULL, "%s",
                               text ?: "a limit did not take");
        return TRIAL_E_FAILED;
}

static int trial_enforce(Trial *trial, CrateError *ret_error) {
        const LimitsHost host = {
                .cgroups = trial->cgroups.tree,
                .reason = trial->cgroups.reason,
                .can_sample = true,
                .enforce = ENFORCE_SAMPLED,
        };
        CgroupLimits job, crate;
        CgroupFailure failure;
        CgroupCrateSpec spec = {.crate_limits = &crate, .job_limits = &job};
        int r;

        r = limits_means_decide(&host, &trial->job.limits, &trial->means, NULL, ret_error);
        if (r != 0)
                return r < 0 ? error_trace(r) : TRIAL_E_FAILED;
        if (!trial->cgroups.tree)
                return 0;
        job = limits_of_job(&trial->job.limits, &trial->means);
        crate = limits_of_crate(&trial->job.limits, &trial->means);
        r = cgroup_crate_make(trial->cgroups.tree, &spec, &trial->cgroup, &failure);
        return r == CGROUP_E_FAILED ? cgroup_failed(&failure, ret_error) : error_trace(r);
}

static int trial_run(Trial *trial, CrateError *ret_error) {
        const CrateCallbacks callbacks = {.on_end = on_end};
        CrateSpec spec = {
                .plan = trial->plans.crate,
                .template = trial->template->name,
                .cgroup = trial->cgroup,
                .means = &trial->means,
        };
        int r;

        memcpy(spec.plan_digest, trial->plans.digest, sizeof(spec.plan_digest));
        r = crate_new(trial->launcher, &spec, &trial->job, &callbacks, trial, &trial->crate,
                      ret_error);
        if (r != 0)
                return r > 0 || ret_error->text ? TRIAL_E_FAILED : error_trace(r);
        while (!trial->is_ended)
                if (!trial_step(trial))
                        return too_late(ret_error);
        return 0;
}

/* --- what comes of it --- */

static int take_error(TrialFacts *facts, const CrateError *error) {
        (void) snprintf(facts->step, sizeof(facts->step), "%s", error->step ?: "");
        facts->error = error->error;
        facts->text = strdup(error->text ?: "the crate could not be made");
        facts->remedy = error->remedy ? strdup(error->remedy) : NULL;
        return !facts->text || (error->remedy && !facts->remedy) ? error_origin(-ENOMEM) : 0;
}

static int take_result(TrialFacts *facts, const CrateResult *result) {
        facts->passed = result->outcome == CRATE_EXITED && result->exit_code == 0;
        if (facts->passed)
                return 0;
        if (result->error.text)
                return take_error(facts, &result->error);
        facts->text = crate_result_verdict(result) ?: strdup("the job did not succeed");
        return facts->text ? 0 : error_origin(-ENOMEM);
}

int trial_gather(DoctorFacts *facts) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        _cleanup_(trial_done) Trial trial = {.facts = facts,
                                             .cgroups = RUN_CGROUPS_NULL,
                                             .deadline_usec = now_usec() + TRIAL_USEC};
        int r, q;

        crate_job_init(&trial.job);
        r = trial_launch(&trial, &error);
        if (r == 0)
                r = trial_plan(&trial, &error);
        if (r == 0)
                r = run_cgroups_wait(&trial.cgroups);
        if (r == 0)
                r = trial_set_up(&trial, &error);
        q = limits_gather(facts, trial.cgroups.tree, trial.cgroups.reason);
        if (r == 0)
                r = trial_enforce(&trial, &error);
        if (r == 0)
                r = trial_run(&trial, &error);
        if (r < 0 || q < 0)
                return error_trace(r < 0 ? r : q);
        return r == TRIAL_E_FAILED ? take_error(&facts->trial, &error)
                                   : take_result(&facts->trial, crate_get_result(trial.crate));
}

int judge_trial(DoctorCheck *check, const DoctorFacts *facts) {
        const TrialFacts *trial = &facts->trial;

        if (trial->passed)
                return 0;
        memcpy(check->step, trial->step, sizeof(check->step));
        check->error = trial->error;
        return check_answer(check, DOCTOR_NO,
                            trial->remedy ?: "see the other checks that are answered by no", "%s",
                            trial->text ?: "it was not tried");
}
