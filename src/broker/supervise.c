/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/supervise.h"

#include <sys/epoll.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/call-trace.h"
#include "broker/log.h"

/* --- what jobs have together, where no cgroup counts it --- */

static void account(Supervisor *supervisor, uint64_t memory, uint64_t pids) {
        const Shared used = {.memory = memory, .pids = pids};

        shared_move(&supervisor->call->manager->used, &supervisor->used, &used);
        shared_move(&supervisor->sharer->used, &supervisor->used, &used);
        supervisor->used = used;
}

/* The job that has most of it ends: it is the one whose end helps, and the others did not ask for
 * this. Of a tenant's ceiling it is one of that tenant; sharer NULL: of anybody. */
static void end_largest(Manager *manager, const Sharer *sharer, const CrateBreach *breach) {
        Supervisor *supervisor, *largest = NULL;

        LIST_FOREACH (supervisor, &manager->supervisors, entry) {
                if (sharer && supervisor->sharer != sharer)
                        continue;
                if (!largest || shared_get(&supervisor->used, breach->name) >
                                        shared_get(&largest->used, breach->name))
                        largest = supervisor;
        }
        if (!largest || !largest->crate)
                return;
        crate_end_for(largest->crate, breach);
        /* It counts no more: its end is on its way. */
        account(largest, 0, 0);
}

static void hold(Manager *manager, const Sharer *sharer, const Limits *ceilings) {
        static const LimitName names[] = {LIMIT_MEMORY, LIMIT_PIDS};
        const Shared *used = sharer ? &sharer->used : &manager->used;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const CrateBreach breach = {
                        .name = names[i],
                        .max = ceilings->max[names[i]],
                        .observed = shared_get(used, names[i]),
                        .level = sharer ? CRATE_LEVEL_TENANT : CRATE_LEVEL_INSTANCE,
                        .enforced_by = "sampler",
                };

                if (breach.observed > breach.max)
                        end_largest(manager, sharer, &breach);
        }
}

static const Tenant *find_tenant(const Policy *policy, const Sharer *sharer) {
        const Tenant *tenant = policy_find_tenant(policy, sharer->name);

        return tenant && sharer_is(sharer, tenant) ? tenant : NULL;
}

/* The ceilings of now; of a tenant that is one no more, those that the job began under. */
static const Limits *ceilings_of(const Supervisor *supervisor) {
        const Call *call = supervisor->call;
        const Tenant *tenant = find_tenant(call->manager->policy, supervisor->sharer);

        return tenant ? &tenant->ceilings.limits : &call->tenant->ceilings.limits;
}

static void on_usage(Crate *crate _unused_, uint64_t memory, uint64_t pids, void *userdata) {
        Supervisor *supervisor = userdata;
        Manager *manager = supervisor->call->manager;

        account(supervisor, memory, pids);
        hold(manager, supervisor->sharer, ceilings_of(supervisor));
        hold(manager, NULL, &manager->policy->config.instance.limits);
}

static bool has_neighbours(void *userdata) {
        const Supervisor *supervisor = userdata;

        return supervisor->call->manager->n_crates > 1;
}

/* --- the crate --- */

static int on_crate(sd_event_source *source _unused_, int fd _unused_, uint32_t events _unused_,
                    void *userdata) {
        Supervisor *supervisor = userdata;
        int r;

        /* The call, and with it the supervisor, may be gone behind this. */
        r = crate_dispatch(supervisor->crate);
        if (r < 0)
                (void) log_errno(r, "a crate was lost");
        return 0;
}

static void on_output(Crate *crate _unused_, CrateStream stream, const void *data, size_t size,
                      void *userdata) {
        Supervisor *supervisor = userdata;

        call_add_output(supervisor->call, stream, data, size);
}

static void on_started(Crate *crate _unused_, void *userdata) {
        Supervisor *supervisor = userdata;

        supervisor->state = METRICS_RUNNING;
        metrics_count_start(supervisor->call->manager->metrics, supervisor->template, METRICS_COLD,
                            now_nsec() - supervisor->start_nsec);
        call_trace_started(&supervisor->call->trace);
}

/* The one that ended the job counts once at least: a ceiling of several jobs is none of its own
 * hits. */
static void count_limits(const Supervisor *supervisor) {
        const CrateResult *result = crate_get_result(supervisor->crate);

        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                uint64_t hits = result->limits[name].hits;

                if (hits == 0 && result->outcome == CRATE_LIMIT && result->limit.name == name)
                        hits = 1;
                metrics_count_limit(supervisor->call->manager->metrics, limit_to_string(name),
                                    hits);
        }
}

static void on_crate_end(Crate *crate, void *userdata) {
        Supervisor *supervisor = userdata;
        const CrateEgressUse *use = &crate_get_result(crate)->egress;

        call_trace_ended(&supervisor->call->trace, crate_get_result(crate)->wall_usec);
        supervisor->state = METRICS_ENDED;
        count_limits(supervisor);
        metrics_count_egress(supervisor->call->manager->metrics, use->connections, use->n_denied,
                             use->bytes_in, use->bytes_out);
        call_record_egress(supervisor->call, crate_get_result(crate));
        call_finish(supervisor->call);
}

static bool on_operation(Crate *crate _unused_, const EgressOperation *operation, void *userdata) {
        Supervisor *supervisor = userdata;

        return call_record_operation(supervisor->call, operation);
}

static const CrateCallbacks callbacks = {
        .on_operation = on_operation,
        .on_started = on_started,
        .on_output = on_output,
        .on_usage = on_usage,
        .has_neighbours = has_neighbours,
        .on_end = on_crate_end,
};

static int supervisor_make_cgroup(Supervisor *supervisor, const CrateSpec *spec,
                                  const CrateJob *job, CrateError *ret_error) {
        Manager *manager = supervisor->call->manager;
        const CgroupLimits crate = limits_of_crate(&job->limits, spec->means);
        const CgroupLimits own = limits_of_job(&job->limits, spec->means);
        const CgroupLimits tenant = limits_of_ceilings(ceilings_of(supervisor),
                                                       cgroup_tree_controllers(manager->cgroups));
        const CgroupCrateSpec cgroup = {
                .tenant = supervisor->sharer->number,
                .tenant_limits = &tenant,
                .crate_limits = &crate,
                .job_limits = &own,
        };
        _cleanup_(freep) char *text = NULL;
        CgroupFailure failure;
        int r;

        r = cgroup_crate_make(manager->cgroups, &cgroup, &supervisor->cgroup, &failure);
        if (r != CGROUP_E_FAILED)
                return error_trace(r);
        text = cgroup_failure_format(&failure);
        r = crate_error_set(ret_error, "cgroup", failure.error, failure.file, NULL, "%s",
                            text ?: "the cgroup of the crate could not be made");
        return r < 0 ? error_trace(r) : SUPERVISOR_E_FAILED;
}

static int supervisor_make(Supervisor *supervisor, const CrateSpec *spec, const CrateJob *job,
                           CrateError *ret_error) {
        CrateSpec own = *spec;
        int r;

        if (supervisor->call->manager->cgroups) {
                r = supervisor_make_cgroup(supervisor, spec, job, ret_error);
                if (r != 0)
                        return r;
                own.cgroup = supervisor->cgroup;
        }
        r = crate_new(launcher_run_launcher(supervisor->run), &own, job, &callbacks, supervisor,
                      &supervisor->crate, ret_error);
        if (r > 0 || (r < 0 && ret_error->text))
                return SUPERVISOR_E_FAILED;
        if (r < 0)
                return error_trace(r);

        return error_trace(sd_event_add_io(supervisor->call->manager->event, &supervisor->source,
                                           crate_get_fd(supervisor->crate), EPOLLIN, on_crate,
                                           supervisor));
}

int supervisor_start(Supervisor *supervisor, Call *call, LauncherRun *run, const CrateSpec *spec,
                     const CrateJob *job, CrateError *ret_error) {
        int r;

        *supervisor = (Supervisor){
                .call = call, .run = run, .template = spec->template, .start_nsec = now_nsec()};
        r = sharers_get(&call->manager->sharers, call->tenant, &supervisor->sharer);
        if (r < 0) {
                launcher_run_unref(run);
                *supervisor = (Supervisor){};
                return error_trace(r);
        }
        LIST_INSERT_HEAD(&call->manager->supervisors, supervisor, entry);
        call->manager->n_crates++;
        budget_charge_crate(&call->manager->budget);
        trace_step_begin(&call->trace, TRACE_CREATE);
        r = supervisor_make(supervisor, spec, job, ret_error);
        if (r != 0)
                supervisor_done(supervisor);
        return r;
}

void supervisor_done(Supervisor *supervisor) {
        if (!supervisor->run)
                return;

        account(supervisor, 0, 0);
        LIST_REMOVE(supervisor, entry);
        sd_event_source_disable_unref(supervisor->source);
        crate_free(supervisor->crate);
        cgroup_crate_free(supervisor->cgroup);
        launcher_run_unref(supervisor->run);
        budget_release_crate(&supervisor->call->manager->budget);
        supervisor->call->manager->n_crates--;
        *supervisor = (Supervisor){};
}

void supervisor_stop(Supervisor *supervisor, bool grace) {
        if (supervisor->crate)
                crate_cancel(supervisor->crate, SIGTERM, grace);
}

void supervisor_pause(Supervisor *supervisor, bool pause) {
        if (!supervisor->crate)
                return;

        (void) crate_pause_output(supervisor->crate, CRATE_STDOUT, pause);
        (void) crate_pause_output(supervisor->crate, CRATE_STDERR, pause);
}

/* The next crate tries again, and is not made if that fails. */
static void log_not_taken(const CgroupFailure *failure) {
        _cleanup_(freep) char *text = cgroup_failure_format(failure);

        log_error("a ceiling has changed and cannot be set, nothing is run below it until it can: "
                  "%s",
                  text ?: "out of memory");
}

void supervisors_reload(Manager *manager) {
        const Policy *policy = manager->policy;
        CgroupFailure failure;
        CgroupLimits limits;
        const Sharer *sharer;
        unsigned controllers;

        controllers = manager->cgroups ? cgroup_tree_controllers(manager->cgroups) : 0;
        if (controllers == 0)
                return;
        limits = limits_of_ceilings(&policy->config.instance.limits, controllers);
        if (cgroup_tree_set_limits(manager->cgroups, &limits, &failure) != 0)
                log_not_taken(&failure);
        LIST_FOREACH (sharer, &manager->sharers.list, entry) {
                const Tenant *tenant = find_tenant(policy, sharer);

                if (!tenant)
                        continue;
                limits = limits_of_ceilings(&tenant->ceilings.limits, controllers);
                if (cgroup_tenant_set_limits(manager->cgroups, sharer->number, &limits, &failure) !=
                    0)
                        log_not_taken(&failure);
        }
}
