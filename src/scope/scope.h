/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A transient scope with a delegated subtree, asked of the service manager on an sd-event loop. In
 * a folder of its own, since it alone needs libsystemd.
 *
 * The scope has a unique name, is collected when it ends however it ended, and is asked for with
 * the processes that shall sit in it, so that it is never empty. It counts as had only once the
 * manager's job is "done" and the kernel says that each process is in it.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "cgroup/manager-socket.h"

#define SCOPE_PIDS_MAX 8U
/* All in all, from the connection to the last check. */
#define SCOPE_TIMEOUT_USEC (5 * 1000000ULL)

typedef struct Scope Scope;

enum {
        _SCOPE_E_SUCCESS,
        SCOPE_E_FAILED, /* scope_get_reason() tells */
};

/* Called once, from the loop, never from within scope_new(). result is 0, SCOPE_E_FAILED or a
 * negative errno. scope_free() is allowed in it. */
typedef void (*ScopeCallback)(Scope *scope, int result, void *userdata);

/*
 * Begins to ask. The processes must be ours and unreaped until the callback has come. Whoever needs
 * no scope any more frees it, also before the callback; a scope that was made all the same ends
 * with its processes, if they live until the manager has moved them. Else see scope_withdraw().
 */
int scope_new(sd_event *event, const ManagerSocket *manager, const pid_t *pids, size_t n_pids,
              ScopeCallback callback, void *userdata, Scope **ret_scope);
Scope *scope_free(Scope *scope);
DEFINE_CLEANUP(Scope, scope_free);

/*
 * Whether there may be a scope, now or later: it was asked for, and the manager has not said that
 * it came to nothing. A manager that is late may move a process that is just ending; the scope is
 * then never populated, and the manager, who waits to hear that it is no more, keeps it for ever.
 * So whoever ends such processes withdraws the scope afterwards, before it is freed: the manager is
 * asked to stop it, and the callback comes when it has answered, or has not for long.
 */
bool scope_is_loose(const Scope *scope);
int scope_withdraw(Scope *scope, ScopeCallback callback, void *userdata);

/* After success: the scope's directory, for cgroup_tree_new_scope(). The caller owns it. */
int scope_take_fd(Scope *scope);
/* "agentcrate-….scope". Borrowed. */
const char *scope_get_name(const Scope *scope);
/* After SCOPE_E_FAILED: one clause with the cause and, where there is one, the remedy. Borrowed. */
const char *scope_get_reason(const Scope *scope);
