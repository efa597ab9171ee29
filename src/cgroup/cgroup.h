/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the cgroup2 hierarchy that was delegated to this process, and the leaves that crates
 * live in:
 *
 *   (delegated)/
 *     broker/            this process
 *     launcher/          its launchers
 *     jobs/
 *       <crate id>/
 *         init/          pid 1 of the crate
 *         exec-1/        its job
 *
 * Nothing is ever written to a cgroup that was not made here. Without delegation there is no tree,
 * and everything works without.
 */

#include "basic/macros.h"

typedef struct CgroupTree CgroupTree;
typedef struct CgroupCrate CgroupCrate;

enum {
        _CGROUP_E_SUCCESS,
        CGROUP_E_UNAVAILABLE, /* ret_reason: one clause, for those who ask why */
};

/*
 * Looks for the delegated subtree, makes what is missing of the tree, removes what earlier runs
 * have left in it, and moves this process to broker/. To be called while this process has no
 * children.
 */
int cgroup_tree_open(CgroupTree **ret_tree, char **ret_reason);
/* Waits a little for crates that are still dying. */
CgroupTree *cgroup_tree_free(CgroupTree *tree);
DEFINE_CLEANUP(CgroupTree, cgroup_tree_free);
/* O_PATH of launcher/, for the launcher to be moved to. Borrowed. */
int cgroup_tree_launcher_fd(const CgroupTree *tree);
/* Tries once more to remove what could not be removed at once. Returns how many are left. */
size_t cgroup_tree_sweep(CgroupTree *tree);

int cgroup_crate_new(CgroupTree *tree, CgroupCrate **ret_crate);
/* Kills what lives in it and removes it, at once or by a later sweep. */
CgroupCrate *cgroup_crate_free(CgroupCrate *crate);
DEFINE_CLEANUP(CgroupCrate, cgroup_crate_free);
/* O_PATH of init/ and exec-1/, for cloning into. Borrowed. */
int cgroup_crate_init_fd(const CgroupCrate *crate);
int cgroup_crate_exec_fd(const CgroupCrate *crate);
/* Kills all in it at once, whatever they have done to their signals and sessions. */
int cgroup_crate_kill(CgroupCrate *crate);
