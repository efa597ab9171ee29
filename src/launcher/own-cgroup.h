/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cgroups of the launcher service, which is delegated its own: launcher/ for itself, jobs/ for
 * the broker, which is another user and may make crates there, but not raise what holds them all.
 */

#include <errno.h>
#include <sys/types.h>

#include "launcher/failure.h"

typedef struct OwnCgroup {
        int root_fd, launcher_fd, jobs_fd; /* -EBADF, all three, without cgroup2 */
} OwnCgroup;

#define OWN_CGROUP_NULL ((OwnCgroup){.root_fd = -EBADF, .launcher_fd = -EBADF, .jobs_fd = -EBADF})

void own_cgroup_done(OwnCgroup *own);
/* Makes launcher/ and jobs/ in the cgroup of this process. A host without cgroup2 is no failure. */
int own_cgroup_make(OwnCgroup *own, ProtoFailure *ret_failure);
/*
 * Once this process sits in launcher/: enables what controllers there are, and gives jobs/ away,
 * the directory with all files that a ceiling or a crate below needs.
 */
int own_cgroup_give(const OwnCgroup *own, uid_t uid, gid_t gid, ProtoFailure *ret_failure);
