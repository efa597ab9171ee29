/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host's end of the parent of launchers (launcher/parent.h): a child of this process, or the
 * launcher service. It begins once it is told where the cgroups are, is ready when it sits in
 * launcher/, and forks launchers from then on. The owner polls launcher_parent_get_fd() for input
 * and then calls launcher_parent_dispatch().
 */

#include "cgroup/cgroup.h"
#include "crate/launcher.h"

typedef struct LauncherParent LauncherParent;

enum {
        _LAUNCHER_PARENT_E_SUCCESS,
        LAUNCHER_PARENT_E_FAILED, /* ret_error tells, or launcher_parent_get_error() */
};

/* Starts the program; NULL: launcher_program(). */
int launcher_parent_spawn(const char *program, LauncherParent **ret_parent, CrateError *ret_error);
/* Connects to the launcher service's socket. */
int launcher_parent_connect(const char *path, LauncherParent **ret_parent, CrateError *ret_error);
/* Ends the link, and waits for a child to be gone, which waits for its launchers. */
LauncherParent *launcher_parent_free(LauncherParent *parent);
DEFINE_CLEANUP(LauncherParent, launcher_parent_free);

/* Lets it begin, in launcher/ of that tree; NULL: there is none, or the service makes it. */
int launcher_parent_begin(LauncherParent *parent, const CgroupTree *tree);
int launcher_parent_get_fd(const LauncherParent *parent);
/* Of the child; 0 with the service. */
pid_t launcher_parent_get_pid(const LauncherParent *parent);
/* Handles what has come, without blocking. LAUNCHER_PARENT_E_FAILED: it is gone, or broke the
 * protocol. */
int launcher_parent_dispatch(LauncherParent *parent);
const CrateError *launcher_parent_get_error(const LauncherParent *parent);
/* That it has said itself why it cannot begin on this host. */
bool launcher_parent_has_refused(const LauncherParent *parent);
bool launcher_parent_is_ready(const LauncherParent *parent);
/* jobs/ of the service, once it is ready; -EBADF if there is none. The caller owns it. */
int launcher_parent_take_jobs_fd(LauncherParent *parent);
/* The ids that crates may be given; false: the parent does not say. */
bool launcher_parent_get_subuids(const LauncherParent *parent, uint64_t *ret_base,
                                 uint64_t *ret_count);

/* A launcher of its own for the caller, who goes on with launcher_set_up(). To be called once the
 * parent is ready. */
int launcher_parent_fork(LauncherParent *parent, Launcher **ret_launcher, CrateError *ret_error);
