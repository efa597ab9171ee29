/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/supervise.h"

#include <sys/epoll.h>

#include "basic/error.h"
#include "broker/log.h"

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
        .on_end = on_crate_end,
};

static int supervisor_make(Supervisor *supervisor, const CrateSpec *spec, const CrateJob *job,
                           CrateError *ret_error) {
        CgroupTree *cgroups = supervisor->call->manager->cgroups;
        CrateSpec own = *spec;
        int r;

        if (cgroups) {
                r = cgroup_crate_new(cgroups, &supervisor->cgroup);
                if (r < 0)
                        return error_trace(r);
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
