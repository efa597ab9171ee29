/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parent of launchers: one process for each broker. A launcher can only get a cgroup namespace
 * that begins at the root of our subtree while it sits in that root, and nobody may enter the root
 * once controllers are enabled below it. So this one process does, once, and forks a launcher
 * whenever the broker wants one. It reads nothing of what its launchers are told: each has a link
 * of its own to the broker.
 */

#include "launcher/launcher-run.h"

typedef struct ParentConfig {
        LauncherContext context; /* for its launchers; the parent fills in what it becomes */
        bool is_service;         /* makes the cgroups itself, and gives jobs/ to these ids */
        uid_t uid;
        gid_t gid;
        int listen_fd; /* further connections are refused; -EBADF: there is no such socket */
} ParentConfig;

/*
 * Serves the host at the other end of link_fd until that end is closed, then waits for its
 * launchers, which end by themselves, and ends those that do not. 0 or a negative errno.
 */
int parent_run(const ParentConfig *config, int link_fd);
