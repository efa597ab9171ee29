/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Init, pid 1 of one crate: a child of the launcher that never execs. It carries out the crate
 * stage of the plan, seals itself, reads back from inside what it is, and then waits for one job.
 * It holds one socket to the host and nothing else of it.
 */

#include "launcher/failure.h"
#include "plan/plan.h"

/* Ids inside of every crate. */
#define INIT_UID 1000U
#define INIT_GID 1000U

/* On the channel between launcher and init, one byte each; end of file means abort, never go. Only
 * an heir waits for it, after "go". */
enum {
        SETUP_GO = 'g',        /* launcher: the id maps are written */
        SETUP_TREE = 't',      /* init: the crate stage is done, the late stage may come */
        SETUP_LATE_DONE = 'l', /* launcher: the late stage is done */
};

typedef struct InitContext {
        int control_fd; /* to the host */
        int setup_fd;   /* to the launcher */
        int subuid_fd; /* the lock on this crate's uid lasts as long as init; -EBADF in user mode */
        PlanReader plan;
        bool has_late;
        bool has_listens; /* something is served in its network */
        bool has_cgroup;  /* was cloned into one */
        bool is_heir;     /* shares the launcher's memory until that one ends */
        uint32_t landlock_abi;
} InitContext;

_noreturn_ void init_run(InitContext *context);
