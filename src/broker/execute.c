/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/execute.h"

#include <inttypes.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/string-util.h"
#include "broker/authorize.h"
#include "broker/call.h"
#include "broker/log.h"
#include "broker/result.h"
#include "broker/supervise.h"
#include "crate/build.h"
#include "mcp/exec-args.h"

#define LOST_TEXT "the job was lost: the broker was stopped before it ended"

_Static_assert(EXEC_ARGS_CAPTURE_MAX == CAPTURE_MAX, "one bound, named in two places");

typedef struct Execution {
        const Template *template;
        ExecArgs args; /* until it is started */
        char *workspace;
        bool workspace_ro;
        DestinationList egress; /* the template's, and those of the arguments */
        StrV operations;        /* the same */
        LimitsMeans means;
        StrV notes; /* on its limits, for the record */
        Supervisor supervisor;
        CrateResult unmade; /* the record of a job for which there could be no crate */
} Execution;

#define refuse(ret_text, ...) outcome_text(EXECUTOR_E_REFUSED, (ret_text), __VA_ARGS__)

static int refuse_error(const CrateError *error, char **ret_text) {
        *ret_text = result_error_text(error);
        return *ret_text ? EXECUTOR_E_REFUSED : error_origin(-ENOMEM);
}

/* The host gives no crate: that is a result like any other, with its record. */
static int end_unmade(Call *call, CrateError *error, const char *digest) {
        Execution *execution = call->execution;
        CrateResult *result = &execution->unmade;

        crate_result_init(result);
        result->template = strdup(execution->template->name);
        result->tenant = strdup(call->tenant->name);
        if (!result->template || !result->tenant)
                return error_origin(-ENOMEM);
        result->error = *error;
        *error = CRATE_ERROR_NULL;
        memcpy(result->plan_digest, digest, sizeof(result->plan_digest));
        return EXECUTOR_E_ENDED;
}

static void execution_free(Call *call) {
        Execution *execution = call->execution;

        if (!execution)
                return;

        supervisor_done(&execution->supervisor);
        crate_result_done(&execution->unmade);
        exec_args_done(&execution->args);
        free(execution->workspace);
        strv_done(&execution->notes);
        destination_list_done(&execution->egress);
        strv_done(&execution->operations);
        free(execution);
        call->execution = NULL;
}

static int refuse_template(const Manager *manager, const char *name, char **ret_text) {
        _cleanup_(strbuf_done) StrBuf list = STRBUF_NULL;
        _cleanup_(freep) char *quoted = NULL;

        for (size_t i = 0; i < manager->policy->n_templates; i++)
                if (strbuf_appendf(&list, "%s%s", i > 0 ? ", " : "",
                                   manager->policy->templates[i]->name) < 0)
                        return error_origin(-ENOMEM);

        quoted = diag_quote(name);
        if (manager->policy->n_templates == 0)
                return refuse(ret_text,
                              "there is no template %s; the templates are: none, for agentcrated "
                              "found none when it was started: " POLICY_EMPTY_REMEDY
                              ", and start it again",
                              quoted ?: name);
        return refuse(ret_text, "there is no template %s; the templates are: %s", quoted ?: name,
                      list.data);
}

/* What the job may reach, as far as its tenant may. */
static int execution_take_egress(Call *call, char **ret_text) {
        Execution *execution = call->execution;
        const DestinationList *template = &execution->template->egress;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = evaluate_egress(call->tenant, execution->template->name, template,
                            &execution->args.egress, &call->decision);
        if (r < 0)
                return error_trace(r);
        if (!call->decision.allowed)
                return EXECUTOR_E_DENIED;
        r = destination_list_merge(&execution->egress, template, &text);
        if (r == 0)
                r = destination_list_merge(&execution->egress, &execution->args.egress, &text);
        return r == DESTINATION_E_INVALID ? refuse(ret_text, "egress: %s", text) : error_trace(r);
}

/* A rule that its tenant may use may still be about what there is not. */
static int check_operation(const Policy *policy, const char *rule, char **ret_text) {
        char *items[] = {(char *) rule, NULL};
        const StrV one = {.items = items, .n_items = 1};

        for (size_t i = 0; i < policy->n_credentials; i++)
                if (credential_n_covered(policy->credentials[i], &one) > 0)
                        return 0;
        return refuse(ret_text, "operations: there is no operation %s", rule);
}

/* What the job may call, as far as its tenant may. */
static int execution_take_operations(Call *call, char **ret_text) {
        Execution *execution = call->execution;
        const StrV *template = &execution->template->operations;
        int r;

        r = evaluate_operations(call->tenant, execution->template->name, template,
                                &execution->args.operations, &call->decision);
        if (r < 0)
                return error_trace(r);
        if (!call->decision.allowed)
                return EXECUTOR_E_DENIED;
        for (size_t i = 0; i < execution->args.operations.n_items && r == 0; i++)
                r = check_operation(call->policy, execution->args.operations.items[i], ret_text);
        if (r != 0)
                return r;
        r = strv_copy(&execution->operations, template);
        if (r == 0)
                r = strv_copy(&execution->operations, &execution->args.operations);
        return error_trace(r);
}

/* The variables of the credentials that it may use, before those of the call. */
static int execution_env(const Call *call, StrV *ret_env) {
        const Execution *execution = call->execution;
        int r = 0;

        for (size_t i = 0; i < call->policy->n_credentials && r == 0; i++)
                if (credential_n_covered(call->policy->credentials[i], &execution->operations) > 0)
                        r = strv_copy(ret_env, &call->policy->credentials[i]->env);
        return r < 0 ? error_trace(r) : error_trace(strv_copy(ret_env, &execution->args.env));
}

static int execution_prepare(Call *call, const JsonDoc *doc, const JsonNode *arguments,
                             char **ret_text) {
        Execution *execution;
        const char *template;
        int r;

        execution = call->execution = calloc(1, sizeof(Execution));
        if (!execution)
                return error_origin(-ENOMEM);

        r = exec_args_parse(doc, arguments, &execution->args, ret_text);
        if (r != 0)
                return r == EXEC_ARGS_E_INVALID ? EXECUTOR_E_REFUSED : error_fold(r);

        template = execution->args.template ?: TOOL_TEMPLATE_DEFAULT;
        execution->template = policy_find_template(call->policy, template);
        if (!execution->template)
                return refuse_template(call->manager, template, ret_text);
        trace_set(call->trace.facts.template, execution->template->name);

        r = authorize_workspace(call->tenant, &call->client->workspace, &execution->args,
                                &execution->workspace, &execution->workspace_ro, &call->decision);
        if (r != 0)
                return r == AUTHORIZE_E_DENIED ? EXECUTOR_E_DENIED : error_fold(r);
        r = execution_take_egress(call, ret_text);
        return r == 0 ? execution_take_operations(call, ret_text) : r;
}

/* Template, then arguments. */
static int job_set_limits(CrateJob *job, Execution *execution, const Call *call, char **ret_text) {
        const Ceilings *instance = &call->manager->policy->config.instance;
        int r;

        limits_init(&job->limits);
        limits_merge(&job->limits, &execution->template->limits);
        crate_limits_lower(&job->limits);
        limits_merge(&job->limits, &execution->args.limits);
        r = ceilings_apply(&call->tenant->ceilings, "ceilings", &execution->args.limits,
                           &job->limits, &execution->notes, ret_text);
        if (r == 0)
                r = ceilings_apply(instance, "instance", &execution->args.limits, &job->limits,
                                   &execution->notes, ret_text);
        if (r != 0)
                return r == CEILINGS_E_EXCESS ? EXECUTOR_E_REFUSED : error_fold(r);

        r = limits_fit_disk(&job->limits, &execution->notes);
        if (r < 0)
                return error_trace(r);
        job->on_hit =
                execution->args.on_hit_given ? execution->args.on_hit : execution->template->on_hit;
        job->capture = execution->args.capture_given ? execution->args.capture : CAPTURE_DEFAULT;
        return 0;
}

/* Moves what the arguments hold into the job. */
static int job_fill(CrateJob *job, Execution *execution, const Call *call, char **ret_text) {
        _cleanup_(strv_done) StrV env = STRV_NULL;
        ExecArgs *args = &execution->args;
        int r;

        r = execution_env(call, &env);
        if (r == 0)
                r = crate_build_env(execution->template, &env, &job->env);
        if (r < 0)
                return error_trace(r);

        r = job_set_limits(job, execution, call, ret_text);
        if (r != 0)
                return r;

        job->argv = args->argv;
        args->argv = STRV_NULL;
        job->command = TAKE_PTR(args->command);
        job->command_size = args->command_size;
        job->cwd = TAKE_PTR(args->cwd);
        if (args->stdin_data) {
                job->stdin_mode = CRATE_STDIN_DATA;
                job->stdin_data = TAKE_PTR(args->stdin_data);
                job->stdin_size = args->stdin_size;
        }
        return 0;
}

/* Before anything is made: what cannot be enforced is refused. */
static int execution_enforce(Call *call, const Limits *limits, char **ret_text) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        const LimitsHost *host = &call->manager->limits_host;
        const Ceilings *instance = &call->manager->policy->config.instance;
        Execution *execution = call->execution;
        int r;

        r = limits_means_decide(host, limits, &execution->means, &execution->notes, &error);
        if (r == 0)
                r = limits_means_check_ceilings(host, &execution->means,
                                                &call->tenant->ceilings.limits, "ceilings", &error);
        if (r == 0)
                r = limits_means_check_ceilings(host, &execution->means, &instance->limits,
                                                "instance", &error);
        return r == LIMITS_MEANS_E_REFUSED ? refuse_error(&error, ret_text) : error_fold(r);
}

static int execution_launch(Call *call, CrateJob *job, char **ret_text) {
        Execution *execution = call->execution;
        _cleanup_(crate_plans_done) CratePlans plans = {};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        CrateRequest request = {
                .template = execution->template,
                .workspace = execution->workspace,
                .workspace_ro = execution->workspace_ro,
                .limits = &job->limits,
                .egress = &execution->egress,
                .grants = {.credentials = call->policy->credentials,
                           .n_credentials = call->policy->n_credentials,
                           .rules = &execution->operations,
                           .tenant = call->tenant->name},
                .egress_settings = egress_settings(&call->policy->config.egress),
        };
        CrateSpec spec = {.template = execution->template->name, .tenant = call->tenant->name};
        LauncherRun *run;
        int r;

        r = crate_build_plans(&request, &plans, &error);
        if (r == CRATE_BUILD_E_INVALID)
                return refuse_error(&error, ret_text);
        if (r != 0)
                return error_fold(r);

        r = execution_enforce(call, &job->limits, ret_text);
        if (r != 0)
                return r;

        r = launchers_get(call->manager, execution->template, plans.tree, &run, &error);
        if (r == LAUNCHERS_E_UNAVAILABLE)
                return end_unmade(call, &error, plans.digest);
        if (r != 0)
                return error_fold(r);

        spec.plan = plans.crate;
        spec.egress_plan = &plans.egress;
        spec.egress = call->manager->egress;
        spec.workspace_rw = plans.workspace_rw;
        spec.means = &execution->means;
        spec.notes = &execution->notes;
        memcpy(spec.plan_digest, plans.digest, sizeof(spec.plan_digest));
        r = supervisor_start(&execution->supervisor, call, run, &spec, job, &error);
        return r == SUPERVISOR_E_FAILED ? end_unmade(call, &error, plans.digest) : error_fold(r);
}

/* How many jobs of the call's tenant run. */
static size_t count_jobs(const Call *call) {
        const Call *other;
        size_t n = 0;

        LIST_FOREACH (other, &call->manager->calls, in_manager)
                if (other != call && other->executor == call->executor && other->execution &&
                    other->tenant && string_equal(other->tenant->name, call->tenant->name))
                        n++;
        return n;
}

static int execution_start(Call *call, char **ret_text) {
        const Manager *manager = call->manager;
        _cleanup_(crate_job_done) CrateJob job = {};
        int r;

        if (manager->n_crates >= manager->policy->config.crates_max)
                return refuse(ret_text,
                              "the broker runs %zu jobs, which is its limit (instance.crates): try "
                              "again when one has ended",
                              manager->n_crates);
        if (!budget_has_crate(&manager->budget))
                return refuse(ret_text,
                              "the broker runs %zu jobs and its limit of %zu open files allows no "
                              "more: try again when one has ended, or raise the limit",
                              manager->n_crates, manager->budget.max);

        if (call->tenant->sandboxes_max != SIZE_MAX &&
            count_jobs(call) >= call->tenant->sandboxes_max)
                return refuse(ret_text,
                              "tenant %s runs %zu jobs, which is its limit (ceilings.sandboxes): "
                              "try again when one has ended",
                              call->tenant->name, call->tenant->sandboxes_max);

        crate_job_init(&job);
        r = job_fill(&job, call->execution, call, ret_text);
        if (r != 0)
                return r;
        return execution_launch(call, &job, ret_text);
}

static void execution_stop(Call *call, bool grace) {
        Execution *execution = call->execution;

        supervisor_stop(&execution->supervisor, grace);
}

static void execution_pause(Call *call, bool pause) {
        Execution *execution = call->execution;

        supervisor_pause(&execution->supervisor, pause);
}

static int execution_finish(Call *call, ExecutorResult *ret_result) {
        Execution *execution = call->execution;

        const CrateResult *result = execution->supervisor.crate
                                            ? crate_get_result(execution->supervisor.crate)
                                            : &execution->unmade;

        return error_trace(result_to_answer(result, call->lost ? LOST_TEXT : NULL, ret_result));
}

static void execution_describe(const Call *call, AuditEnd *end) {
        const Execution *execution = call->execution;

        result_to_audit(execution->supervisor.crate ? crate_get_result(execution->supervisor.crate)
                                                    : &execution->unmade,
                        call->lost, end);
}

const Executor execute_sandbox_exec = {
        .tool = TOOL_SANDBOX_EXEC,
        .prepare = execution_prepare,
        .start = execution_start,
        .stop = execution_stop,
        .pause = execution_pause,
        .finish = execution_finish,
        .describe = execution_describe,
        .free = execution_free,
};
