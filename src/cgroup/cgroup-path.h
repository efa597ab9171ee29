/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where this process is in the cgroup2 hierarchy, from the kernel's two texts about it. No side
 * effects. */

#include <stddef.h>

enum {
        _CGROUP_PATH_E_SUCCESS,
        CGROUP_PATH_E_NONE, /* there is no cgroup2, or not where we can reach our own place in it */
};

/*
 * From /proc/self/cgroup and /proc/self/mountinfo: the directory of the process's own cgroup. Lines
 * of v1 hierarchies are passed over. Both texts are NUL-terminated; *ret_path is owned by the
 * caller.
 */
int cgroup_path_find(const char *cgroup, const char *mountinfo, char **ret_path);
