/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The launcher's own namespaces: the outer user namespace (user mode only), MH, the mount namespace
 * that shows the host, and M0, the one that shows the template's tree and in which the launcher
 * lives.
 */

#include "launcher/failure.h"
#include "plan/bind-roots.h"
#include "plan/plan.h"

typedef struct Outer {
        uint32_t mode; /* LAUNCHER_MODE_X */
        int host_mnt_fd, tree_mnt_fd;
        const BindRoots *roots; /* borrowed; NULL: a plan may name any host path */
} Outer;

#define OUTER_NULL ((Outer){.host_mnt_fd = -EBADF, .tree_mnt_fd = -EBADF})

/*
 * Leaves what the caller's rights were behind: in user mode by a user namespace with the caller's
 * own ids, in which it may mount and make namespaces; in root mode by dropping groups and all
 * capabilities but those that making a crate takes. Tells which mode that is.
 */
int outer_enter(uint32_t *ret_mode, ProtoFailure *ret_failure);
/* Leaves the host's mount namespace, which needs no plan: the host may still be building one. */
int outer_prepare(ProtoFailure *ret_failure);
/* Keeps the namespace that shows the host as MH, for late stages, and goes on in a second one. */
int outer_keep_host(Outer *outer, ProtoFailure *ret_failure);
/*
 * One cgroup namespace for all crates, so that they see no more of the host's tree than their own
 * part: rooted at the delegated subtree, whose launcher/ is cgroup_fd, or at where the launcher is
 * if there is none (-EBADF). A namespace per crate would be rooted at init/, from where a job's
 * leaf cannot be reached where nsdelegate is in force.
 */
int outer_enter_cgroup(int cgroup_fd, ProtoFailure *ret_failure);
/* Makes the namespace that the launcher sits in M0: builds the tree; afterwards "/" is the
 * template's. */
int outer_enter_tree(Outer *outer, PlanReader *tree, ProtoFailure *ret_failure);
/* Enters MH: host paths are opened only here. */
int outer_to_host(const Outer *outer, ProtoFailure *ret_failure);
/* Back to M0. */
int outer_to_tree(const Outer *outer, ProtoFailure *ret_failure);
void outer_done(Outer *outer);

/* Writes setgroups, uid_map and gid_map of a process: inside to outside, one id each. */
int idmap_write(pid_t pid, uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid,
                uint32_t outside_gid, ProtoFailure *ret_failure);
/* A user namespace with only that map, for an id-mapped mount. Returns its fd. */
int idmap_userns(uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid,
                 uint32_t outside_gid, ProtoFailure *ret_failure);
