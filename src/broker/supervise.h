/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Glue: a crate's descriptor in the event loop, and what it tells to its call. */

#include "broker/call.h"
#include "broker/launchers.h"
#include "broker/sharers.h"
#include "crate/crate.h"

struct Supervisor {
        LIST_ENTRY(Supervisor) entry;
        Call *call;
        LauncherRun *run; /* which made the crate */
        Crate *crate;
        CgroupCrate *cgroup;
        sd_event_source *source;
        Sharer *sharer;       /* its tenant */
        Shared used;          /* its part of the sums */
        const char *template; /* the call's policy has it */
        MetricsState state;
        uint64_t start_nsec;
};

enum {
        _SUPERVISOR_E_SUCCESS,
        SUPERVISOR_E_FAILED, /* ret_error tells */
};

/* Makes a crate and runs the job in it; call_finish() comes when it has ended. run is consumed,
 * also on failure. */
int supervisor_start(Supervisor *supervisor, Call *call, LauncherRun *run, const CrateSpec *spec,
                     const CrateJob *job, CrateError *ret_error);
void supervisor_done(Supervisor *supervisor);
void supervisor_stop(Supervisor *supervisor, bool grace);
void supervisor_pause(Supervisor *supervisor, bool pause);
/* The policy has changed: so do the ceilings that jobs share. */
void supervisors_reload(Manager *manager);
