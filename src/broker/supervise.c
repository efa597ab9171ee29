/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/supervise.h"

#include <sys/epoll.h>

#include "basic/error.h"
#include "broker/log.h"

/* --- what all jobs have together, where no cgroup counts it --- */

static void account(Supervisor *supervisor, uint64_t memory, uint64_t pids) {
        Manager *manager = supervisor->call->manager;

        manager->memory_used += memory - supervisor->memory_used;
        manager->pids_used += pids - supervisor->pids_used;
        supervisor->memory_used = memory;
        supervisor->pids_used = pids;
}

static uint64_t used_of(const Supervisor *supervisor, LimitName name) {
        return name == LIMIT_MEMORY ? supervisor->memory_used : supervisor->pids_used;
}

/* The job that has most of it ends: it is the one whose end helps, and the others did not ask for
 * this. */
static void end_largest(Manager *manager, LimitName name, uint64_t max, uint64_t used) {
        const CrateBreach breach = {
                .name = name,
                .max = max,
                .observed = used,
                .level = CRATE_LEVEL_TENANT,
                .enforced_by = "sampler",
        };
        Supervisor *supervisor, *largest = NULL;

        LIST_FOREACH (supervisor, &manager->supervisors, entry)
                if (!largest || used_of(supervisor, name) > used_of(largest, name))
                        largest = supervisor;
        if (!largest)
                return;
        crate_end_for(largest->crate, &breach);
        /* It counts no more: its end is on its way. */
        account(largest, 0, 0);
}

/* The owner is the one tenant, with the instance's figures. */
static void on_usage(Crate *crate _unused_, uint64_t memory, uint64_t pids, void *userdata) {
        Supervisor *supervisor = userdata;
        Manager *manager = supervisor->call->manager;
        const Limits *ceilings = &manager->policy->config.instance.limits;

        account(supervisor, memory, pids);
        if (manager->memory_used > ceilings->max[LIMIT_MEMORY])
                end_largest(manager, LIMIT_MEMORY, ceilings->max[LIMIT_MEMORY],
                            manager->memory_used);
        if (manager->pids_used > ceilings->max[LIMIT_PIDS])
                end_largest(manager, LIMIT_PIDS, ceilings->max[LIMIT_PIDS], manager->pids_used);
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

static void on_crate_end(Crate *crate _unused_, void *userdata) {
        Supervisor *supervisor = userdata;

        call_finish(supervisor->call);
}

static const CrateCallbacks callbacks = {
        .on_output = on_output,
        .on_usage = on_usage,
        .on_end = on_crate_end,
};

static int supervisor_make_cgroup(Supervisor *supervisor, const CrateSpec *spec,
                                  const CrateJob *job, CrateError *ret_error) {
        Manager *manager = supervisor->call->manager;
        const CgroupLimits crate = limits_of_crate(&job->limits, spec->means);
        const CgroupLimits own = limits_of_job(&job->limits, spec->means);
        const CgroupLimits tenant = limits_of_ceilings(&manager->policy->config.instance.limits,
                                                       cgroup_tree_controllers(manager->cgroups));
        const CgroupCrateSpec cgroup = {
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

        *supervisor = (Supervisor){.call = call, .run = run};
        LIST_INSERT_HEAD(&call->manager->supervisors, supervisor, entry);
        call->manager->n_crates++;
        budget_charge_crate(&call->manager->budget);
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
