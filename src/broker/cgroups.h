/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the broker's cgroups come from, in this order:
 *
 *   1. the own unit, if it is delegated: cgroup_tree_new_own(), before there are children;
 *   2. a transient scope of the service manager, with the launchers' parent in it;
 *   3. where there is no service manager, a child of the own cgroup.
 *
 * 2 and 3 are here, since a scope must be waited for, and takes a process to put into it. After
 * either the parent enters launcher/, and then cgroup_tree_enable() can be called.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "cgroup/cgroup.h"

typedef struct CgroupsAsk CgroupsAsk;

/* Called once, from the event loop. tree (owned by the callee from here on) or, if it is NULL,
 * reason (borrowed): one clause, for those who ask why. cgroups_ask_free() is allowed in it. */
typedef void (*CgroupsCallback)(CgroupTree *tree, const char *reason, void *userdata);

/* Begins to ask; the answer comes within SCOPE_TIMEOUT_USEC. pid is that of the launchers' parent,
 * a child of ours. */
int cgroups_ask(sd_event *event, pid_t pid, CgroupsCallback callback, void *userdata,
                CgroupsAsk **ret_ask);
/* Before the callback: there will be none. */
CgroupsAsk *cgroups_ask_free(CgroupsAsk *ask);
DEFINE_CLEANUP(CgroupsAsk, cgroups_ask_free);
