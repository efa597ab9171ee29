/* SPDX-License-Identifier: Apache-2.0 */
#include "run/prepare.h"

#include "basic/error.h"
#include "basic/host-path.h"
#include "run/egress-rules.h"
#include "run/report.h"
#include "seccomp/profile.h"

#define CAPTURE_EVIDENCE 1024U

/* What the builder borrows while it looks at the host; owned strings. */
typedef struct HostPaths {
        char *workspace;
        CrateBind *binds;
        size_t n_binds;
} HostPaths;

static void host_paths_done(HostPaths *paths) {
        free(paths->workspace);
        for (size_t i = 0; i < paths->n_binds; i++) {
                free((char *) paths->binds[i].from);
                free((char *) paths->binds[i].to);
        }
        free(paths->binds);
        *paths = (HostPaths){};
}

static int bind_add(HostPaths *paths, const RunBind *given) {
        _cleanup_(freep) char *from = NULL, *to = NULL, *text = NULL;
        int r;

        r = host_path_resolve(given->writable ? "--rw" : "--ro", given->path,
                              given->writable ? HOST_PATH_NO_LINK : 0, PLAN_PATH_MAX, &from, &to,
                              &text);
        if (r == HOST_PATH_E_INVALID)
                return report_failure("%s", text);
        if (r < 0)
                return error_trace(r);
        if (string_equal(to, "/"))
                return report_failure("--%s /: the root folder as a whole cannot be shown; name "
                                      "folders below it",
                                      given->writable ? "rw" : "ro");
        paths->binds[paths->n_binds++] = (CrateBind){
                .from = TAKE_PTR(from), .to = TAKE_PTR(to), .writable = given->writable};
        return 0;
}

static int host_paths_init(HostPaths *paths, const RunOptions *options) {
        _cleanup_(freep) char *text = NULL;
        int r = 0;

        if (options->workspace)
                r = host_path_resolve("--workspace", options->workspace,
                                      HOST_PATH_FOLDER | HOST_PATH_NO_LINK, PLAN_PATH_MAX,
                                      &paths->workspace, NULL, &text);
        if (r == HOST_PATH_E_INVALID)
                return report_failure("%s", text);
        if (r < 0)
                return error_trace(r);

        if (options->n_binds == 0)
                return 0;
        paths->binds = calloc(options->n_binds, sizeof(*paths->binds));
        if (!paths->binds)
                return error_origin(-ENOMEM);
        for (size_t i = 0; r == 0 && i < options->n_binds; i++)
                r = bind_add(paths, &options->binds[i]);
        return r;
}

static void report_diags(const DiagList *diags) {
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags->items[i]);

                report("%s", line ?: "out of memory");
        }
        if (diags->n_dropped > 0)
                report("%zu more faults were found", diags->n_dropped);
        /* An end without a word would be the worst of all faults. */
        if (diags->n_items == 0 && diags->n_dropped == 0)
                report("the configuration is not usable, and it was not said why");
}

/* The template; as root the range of uids that we share with the broker; and what holds for all
 * that is reached. */
static int load_policy(const char *name, bool allows, const StrV *operations, RunSetup *setup) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = policy_default_dirs(&dirs);
        if (r >= 0)
                r = policy_load_template(&dirs, name, &diags, &setup->template);
        if (r == 0 && (geteuid() == 0 || allows || setup->template->egress.n_items > 0 ||
                       setup->template->operations.n_items > 0))
                r = policy_load_config(&dirs, &diags, &setup->config);
        if (r == 0)
                r = strv_copy(&setup->operations, &setup->template->operations);
        if (r == 0)
                r = strv_copy(&setup->operations, operations);
        if (r == 0 && setup->operations.n_items > 0)
                r = policy_load_credentials(&dirs, &setup->operations, &diags, &setup->credentials,
                                            &setup->n_credentials);
        if (r == POLICY_E_INVALID) {
                report_diags(&diags);
                return RUN_E_REPORTED;
        }
        return error_trace(r);
}

static int check_profile(const char *name) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = NULL;
        const SeccompProfile *profiles;
        size_t n;

        if (!name || seccomp_profile_find(name))
                return 0;
        profiles = seccomp_profiles(&n);
        for (size_t i = 0; i < n; i++)
                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "", profiles[i].name) < 0)
                        return error_origin(-ENOMEM);
        quoted = diag_quote(name);
        return report_failure("--profile %s is unknown; known are %s", quoted ?: "",
                              known.data ?: "none");
}

/* A person at a shell is no agent: time and output are unlimited unless somebody asks for less.
 * With
 * --json the output is kept by us, so that one stays. */
static int merge_limits(Limits *limits, const Template *template, const RunOptions *options,
                        StrV *notes) {
        limits_init(limits);
        limits->max[LIMIT_WALL_TIME] = LIMIT_UNLIMITED;
        if (!options->json)
                limits->max[LIMIT_OUTPUT] = LIMIT_UNLIMITED;
        limits_merge(limits, &template->limits);
        crate_limits_lower(limits);
        limits_merge(limits, &options->limits);
        return error_trace(limits_fit_disk(limits, notes));
}

/* The template's, and those of the command line. */
static int merge_egress(RunSetup *setup, const RunOptions *options) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = destination_list_merge(&setup->egress, &setup->template->egress, &text);
        if (r == 0)
                r = destination_list_merge(&setup->egress, &options->allow, &text);
        return r == DESTINATION_E_INVALID ? report_failure("--allow: %s", text) : error_trace(r);
}

static int build_plans(RunSetup *setup, const RunOptions *options) {
        _cleanup_(host_paths_done) HostPaths paths = {};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        CrateRequest request;
        int r;

        r = host_paths_init(&paths, options);
        if (r != 0)
                return r;
        request = (CrateRequest){
                .template = setup->template,
                .profile = options->profile,
                .workspace = paths.workspace,
                .workspace_ro = options->workspace_ro,
                .binds = paths.binds,
                .n_binds = paths.n_binds,
                .limits = &setup->limits,
                .egress = &setup->egress,
                .grants = {.credentials = setup->credentials,
                           .n_credentials = setup->n_credentials,
                           .rules = &setup->operations},
                .egress_settings = egress_settings(&setup->config.egress),
        };
        r = crate_build_plans(&request, &setup->plans, &error);
        if (r == CRATE_BUILD_E_INVALID)
                return report_crate_error(&error);
        return error_trace(r);
}

/* What was given on the command line wins. */
static int build_env(const RunSetup *setup, const RunOptions *options, StrV *ret_env) {
        _cleanup_(strv_done) StrV extra = STRV_NULL;
        int r = 0;

        for (size_t i = 0; i < setup->n_credentials && r == 0; i++)
                r = strv_copy(&extra, &setup->credentials[i]->env);
        if (r == 0)
                r = strv_copy(&extra, &options->env);
        return r < 0 ? error_trace(r) : crate_build_env(setup->template, &extra, ret_env);
}

static int fill_job(RunSetup *setup, const RunOptions *options) {
        CrateJob *job = &setup->job;
        int r;

        job->limits = setup->limits;
        job->on_hit = options->on_hit_given ? options->on_hit : setup->template->on_hit;
        /* Without --json what is kept is for the evidence alone. */
        job->capture = options->json ? options->capture : CAPTURE_EVIDENCE;
        job->tty = options->tty;
        r = strv_copy(&job->argv, &options->argv);
        if (r >= 0)
                r = build_env(setup, options, &job->env);
        if (r < 0)
                return error_trace(r);
        if (options->cwd) {
                job->cwd = strdup(options->cwd);
                if (!job->cwd)
                        return error_origin(-ENOMEM);
        }
        return 0;
}

int run_setup_init(RunSetup *setup, const RunOptions *options) {
        _cleanup_(run_setup_done) RunSetup fresh = {};
        int r;

        config_init(&fresh.config);
        crate_job_init(&fresh.job);
        r = load_policy(options->template ?: "host",
                        options->allow.n_items > 0 || options->operations.n_items > 0,
                        &options->operations, &fresh);
        if (r == 0)
                r = check_profile(options->profile);
        if (r != 0)
                return r;
        r = merge_limits(&fresh.limits, fresh.template, options, &fresh.notes);
        if (r == 0)
                r = merge_egress(&fresh, options);
        if (r == 0)
                r = build_plans(&fresh, options);
        if (r == 0)
                r = fill_job(&fresh, options);
        if (r != 0)
                return r;

        *setup = fresh;
        fresh = (RunSetup){};
        return 0;
}

static int make_cgroup(const RunSetup *setup, CgroupTree *tree, CgroupCrate **ret_cgroup) {
        const CgroupLimits crate = limits_of_crate(&setup->limits, &setup->means);
        const CgroupLimits job = limits_of_job(&setup->limits, &setup->means);
        const CgroupCrateSpec spec = {.crate_limits = &crate, .job_limits = &job};
        _cleanup_(freep) char *text = NULL;
        CgroupFailure failure;
        int r;

        r = cgroup_crate_make(tree, &spec, ret_cgroup, &failure);
        if (r != CGROUP_E_FAILED)
                return error_trace(r);
        text = cgroup_failure_format(&failure);
        return report_failure("%s", text ?: "the cgroup of the crate could not be made");
}

int run_setup_enforce(RunSetup *setup, Enforce enforce, CgroupTree *tree, const char *reason,
                      CgroupCrate **ret_cgroup) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        const LimitsHost host = {
                .cgroups = tree,
                .reason = reason,
                .can_sample = true,
                .enforce = enforce,
        };
        int r;

        r = limits_means_decide(&host, &setup->limits, &setup->means, &setup->notes, &error);
        if (r == LIMITS_MEANS_E_REFUSED)
                return report_crate_error(&error);
        if (r < 0 || !tree)
                return error_trace(r);
        return make_cgroup(setup, tree, ret_cgroup);
}

void run_setup_done(RunSetup *setup) {
        if (setup->template)
                setup->template = template_free(setup->template);
        config_done(&setup->config);
        crate_plans_done(&setup->plans);
        crate_job_done(&setup->job);
        destination_list_done(&setup->egress);
        for (size_t i = 0; i < setup->n_credentials; i++)
                (void) credential_free(setup->credentials[i]);
        free(setup->credentials);
        strv_done(&setup->operations);
        strv_done(&setup->notes);
}

int run_setup_print(const RunSetup *setup, const DestinationList *allowed) {
        int r;

        printf("tree plan (once per template)\n");
        r = plan_print(setup->plans.tree, stdout);
        if (r >= 0) {
                printf("crate plan\n");
                r = plan_print(setup->plans.crate, stdout);
        }
        if (r < 0)
                return error_trace(r);
        egress_rules_print(setup, allowed);
        for (size_t i = 0; i < setup->plans.notes.n_items; i++)
                printf("note: %s\n", setup->plans.notes.items[i]);
        printf("digest %s\n", setup->plans.digest);
        if (fflush(stdout) != 0 || ferror(stdout))
                return report_failure("cannot write standard output: %s", strerror(errno));
        return 0;
}

int report_crate_error(const CrateError *error) {
        const char *name = error->error > 0 ? strerrorname_np(error->error) : NULL;

        return report_failure("%s%s%s%s%s%s", error->text ?: "the crate could not be made",
                              name ? " (" : "", name ?: "", name ? ")" : "",
                              error->remedy ? "; " : "", error->remedy ?: "");
}
