/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The broker's start until it can serve: the parent of its launchers, the cgroups of its jobs, and
 * then the launchers. Cgroups may have to be asked for, so this goes on in the event loop; whoever
 * connects meanwhile waits in the socket's queue.
 */

#include "broker/manager.h"
#include "crate/launcher-parent.h"

typedef struct Parent Parent;

/* Called once, when launchers can be forked and limits are decided. */
typedef int (*ParentCallback)(Manager *manager);

enum {
        _PARENT_E_SUCCESS,
        PARENT_E_FAILED, /* it was logged why */
};

/* launcher_path: the socket of the launcher service; NULL: the parent is a child of this process.
 */
int parent_start(Manager *manager, const char *launcher_path, ParentCallback on_ready,
                 Parent **ret_parent);
/* All launchers must have been freed. */
Parent *parent_free(Parent *parent);
DEFINE_CLEANUP(Parent, parent_free);

/* As launcher_parent_fork(). */
int parent_fork(Parent *parent, Launcher **ret_launcher, CrateError *ret_error);
/* The ids for crates: what the launcher service was given, else what the configuration says. */
void parent_get_subuids(const Parent *parent, uint64_t *ret_base, uint64_t *ret_count);
