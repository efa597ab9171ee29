/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host's end of a launcher: starts or takes over one, hands it the template's plan, asks it for
 * crates. One Launcher is one template. It belongs to one thread; the owner polls
 * launcher_get_fd() for input and then calls launcher_dispatch().
 */

#include "cgroup/cgroup.h"
#include "crate/result.h"
#include "ipc/link.h"
#include "plan/plan.h"

typedef struct Launcher Launcher;
typedef struct Crate Crate;

typedef struct LauncherConfig {
        const CratePlan *tree;              /* borrowed; the tree stage */
        size_t net_stock;                   /* net namespaces to keep ready */
        uint64_t subuid_base, subuid_count; /* root mode only */
        const CgroupTree *cgroups;          /* NULL: crates stay in the launcher's cgroup */
        bool one_shot; /* for one crate: the launcher ends as soon as that is sealed */
        bool no_late;  /* no crate's plan has a late stage: the host's view need not be kept */
} LauncherConfig;

enum {
        _LAUNCHER_E_SUCCESS,
        LAUNCHER_E_FAILED, /* ret_error tells */
};

/*
 * Starts one as a copy of this process, see process_fork_with_link(); run is launcher_run(). It
 * makes its namespaces while the caller still builds the plan.
 */
int launcher_fork(char **argv, int (*run)(int link_fd), Launcher **ret_launcher);
/* The same with one that runs already, in that LAUNCHER_MODE_X. Takes link_fd, also on failure. pid
 * is 0 if it is no child of ours. */
int launcher_adopt(pid_t pid, uint32_t mode, int link_fd, Launcher **ret_launcher);
/* The same by the program; NULL: launcher_program(). It begins with the set-up. */
int launcher_spawn(const char *program, Launcher **ret_launcher, CrateError *ret_error);
/* Hands over the tree, without waiting: crates may be asked for at once, requests queue on the
 * socket. */
int launcher_set_up(Launcher *launcher, const LauncherConfig *config, CrateError *ret_error);
/* launcher_spawn() and that. */
int launcher_start(const LauncherConfig *config, Launcher **ret_launcher, CrateError *ret_error);
/* Ends the link; the launcher ends with it. Crates that live must have been freed before. Waits for
 * the process. */
Launcher *launcher_free(Launcher *launcher);
DEFINE_CLEANUP(Launcher, launcher_free);

int launcher_get_fd(const Launcher *launcher);
/* Of the process, which stays unreaped until launcher_free(). */
pid_t launcher_get_pid(const Launcher *launcher);
/* Handles what has come, without blocking. LAUNCHER_E_FAILED: it is gone or broke the protocol, all
 * its unmade crates have failed. */
int launcher_dispatch(Launcher *launcher);
/* Why it failed; valid after LAUNCHER_E_FAILED. */
const CrateError *launcher_get_error(const Launcher *launcher);
/* True once the tree stands. */
bool launcher_is_ready(const Launcher *launcher);
/* The program to start: $AGENTCRATE_LIBEXEC_DIR/agentcrate-launcher, else the installed one. Owned
 * by the caller. */
char *launcher_program(void);
