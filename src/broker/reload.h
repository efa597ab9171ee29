/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading the policy, and reading it again while the broker runs: on SIGHUP, and for a user's own
 * broker when a file has changed. The new policy is built completely before it takes the place of
 * the old one; one with faults never does. Calls that run keep theirs.
 */

#include "broker/manager.h"

typedef struct Reload Reload;

enum {
        _RELOAD_E_SUCCESS,
        RELOAD_E_INVALID, /* it was logged why */
};

/* Reads the policy of an instance, and logs its faults and warnings. */
int reload_read(PolicyInstance instance, Policy **ret_policy);

/* Whether they differ in what was set up at the start and stays. */
bool reload_needs_restart(const Config *a, const Config *b);
/* To be called once, before anything is read again. */
int reload_prepare(Manager *manager);
/* Reads it again beside the event loop, and uses it if it is good. What fails is logged. */
void reload_policy(Manager *manager);

/* Watches the folders of the policy from now on. */
int reload_watch(Manager *manager, Reload **ret_reload);
Reload *reload_free(Reload *reload);
DEFINE_CLEANUP(Reload, reload_free);
