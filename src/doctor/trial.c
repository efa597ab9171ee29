/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The proof: a crate that runs /usr/bin/true, made in the same way as those of agentcrate-run.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "crate/build.h"
#include "crate/crate.h"
#include "doctor/check.h"
#include "policy/policy.h"

#define TRIAL_USEC (20 * USEC_PER_SEC)
#define TRIAL_WALL_USEC (10 * USEC_PER_SEC)
#define TRIAL_DEAD_MSEC 5000

typedef struct Trial {
        Launcher *launcher;
        Crate *crate;
        Template *template;
        CratePlans plans;
        CrateJob job;
        bool is_ended, launcher_gone;
} Trial;

static void trial_done(Trial *trial) {
        if (trial->crate) {
                if (trial->is_ended)
                        crate_wait_dead(trial->crate, TRIAL_DEAD_MSEC);
                trial->crate = crate_free(trial->crate);
        }
        if (trial->launcher)
                trial->launcher = launcher_free(trial->launcher);
        if (trial->template)
                trial->template = template_free(trial->template);
        crate_plans_done(&trial->plans);
        crate_job_done(&trial->job);
}

static void on_end(Crate *crate _unused_, void *userdata) {
        Trial *trial = userdata;

        trial->is_ended = true;
}

/* Waits for the end at most that long; false if it did not come. */
static bool trial_wait(Trial *trial) {
        uint64_t deadline = now_usec() + TRIAL_USEC, now;

        while (!trial->is_ended && (now = now_usec()) < deadline) {
                struct pollfd polls[] = {
                        {.fd = crate_get_fd(trial->crate), .events = POLLIN},
                        {.fd = trial->launcher_gone ? -1 : launcher_get_fd(trial->launcher),
                         .events = POLLIN},
                };

                if (poll(polls, ELEMENTSOF(polls), (int) ((deadline - now) / USEC_PER_MSEC) + 1) <
                    0)
                        continue;
                if (polls[1].revents && launcher_dispatch(trial->launcher) != 0)
                        trial->launcher_gone = true;
                if (polls[0].revents && !trial->is_ended)
                        (void) crate_dispatch(trial->crate);
        }
        return trial->is_ended;
}

/* Moves what the error says into the facts. */
static int take_error(TrialFacts *facts, const CrateError *error) {
        (void) snprintf(facts->step, sizeof(facts->step), "%s", error->step ?: "");
        facts->error = error->error;
        facts->text = strdup(error->text ?: "the crate could not be made");
        facts->remedy = error->remedy ? strdup(error->remedy) : NULL;
        return !facts->text || (error->remedy && !facts->remedy) ? error_origin(-ENOMEM) : 0;
}

static int take_text(TrialFacts *facts, char *text) {
        facts->text = text;
        return text ? 0 : error_origin(-ENOMEM);
}

static int take_result(TrialFacts *facts, const CrateResult *result) {
        if (result->outcome == CRATE_EXITED && result->exit_code == 0) {
                facts->passed = true;
                return 0;
        }
        if (result->error.text)
                return take_error(facts, &result->error);
        return take_text(facts, crate_result_verdict(result) ?: strdup("the job did not succeed"));
}

static int trial_plan(Trial *trial, const Config *config _unused_, CrateError *ret_error) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        CrateRequest request;
        int r;

        r = policy_default_dirs(&dirs);
        if (r >= 0)
                r = policy_load_template(&dirs, "host", &diags, &trial->template);
        if (r == POLICY_E_INVALID) {
                (void) crate_error_set(ret_error, "configuration", 0, NULL,
                                       "see the check configuration",
                                       "the template host cannot be used");
                return CRATE_BUILD_E_INVALID;
        }
        if (r < 0)
                return error_trace(r);
        limits_init(&trial->job.limits);
        limits_merge(&trial->job.limits, &trial->template->limits);
        trial->job.limits.max[LIMIT_WALL_TIME] = TRIAL_WALL_USEC;
        crate_limits_lower(&trial->job.limits);
        request = (CrateRequest){.template = trial->template, .limits = &trial->job.limits};
        r = crate_build_plans(&request, &trial->plans, ret_error);
        if (r != 0)
                return r;
        r = strv_append(&trial->job.argv, "/usr/bin/true");
        if (r >= 0)
                r = crate_build_env(trial->template, NULL, &trial->job.env);
        return error_trace(r);
}

static int trial_start(Trial *trial, const Config *config, CrateError *ret_error) {
        const CrateCallbacks callbacks = {.on_end = on_end};
        LauncherConfig launcher = {
                .net_stock = 1,
                .subuid_base = config->subuid_base,
                .subuid_count = config->subuid_count,
                .one_shot = true,
        };
        CrateSpec spec = {};
        int r;

        r = trial_plan(trial, config, ret_error);
        if (r != 0)
                return r;
        launcher.tree = trial->plans.tree;
        r = launcher_start(&launcher, &trial->launcher, ret_error);
        if (r != 0)
                return r;
        spec.plan = trial->plans.crate;
        spec.template = trial->template->name;
        memcpy(spec.plan_digest, trial->plans.digest, sizeof(spec.plan_digest));
        return crate_new(trial->launcher, &spec, &trial->job, &callbacks, trial, &trial->crate,
                         ret_error);
}

int trial_gather(DoctorFacts *facts) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        _cleanup_(trial_done) Trial trial = {};
        int r;

        crate_job_init(&trial.job);
        r = trial_start(&trial, &facts->install.config, &error);
        if (r > 0 || (r < 0 && error.text))
                return take_error(&facts->trial, &error);
        if (r < 0)
                return error_trace(r);
        if (!trial_wait(&trial))
                return take_text(&facts->trial,
                                 strdup("the crate did not end within 20 s; something on this host "
                                        "holds it up"));
        return take_result(&facts->trial, crate_get_result(trial.crate));
}

int judge_trial(DoctorCheck *check, const DoctorFacts *facts) {
        const TrialFacts *trial = &facts->trial;

        if (trial->passed)
                return 0;
        memcpy(check->step, trial->step, sizeof(check->step));
        check->error = trial->error;
        return check_answer(check, DOCTOR_NO,
                            trial->remedy ?: "see the checks above that are answered by no", "%s",
                            trial->text ?: "it was not tried");
}
