/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The launcher of one template: forked by its parent (launcher/parent.h), or by agentcrate-run,
 * since one exec costs as much as a whole crate.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "plan/bind-roots.h"

/* What a launcher is told by its parent. */
typedef struct LauncherContext {
        bool has_entered; /* outer_enter() and the cgroup namespace are behind it */
        uint32_t mode;    /* LAUNCHER_MODE_X, if so */
        uint32_t subuid_base, subuid_count; /* what crates may be given; 0: any above the host's */
        const BindRoots *roots;             /* NULL: any host path */
        dev_t jobs_device;                  /* crates live below that cgroup; inode 0: anywhere */
        ino_t jobs_inode;
} LauncherContext;

/*
 * Makes crates for the host at the other end of link_fd until that end is closed. The calling
 * process must have nothing else open but 0 to 2, be single-threaded, and end after this: it is in
 * other namespaces then. 0, or a negative errno if the link broke. A one-shot launcher does not
 * come back, it ends the process.
 */
int launcher_run_in(const LauncherContext *context, int link_fd);
/* The same without a parent: any host path, any id that is none of the host's users. */
int launcher_run(int link_fd);
