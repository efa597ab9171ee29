/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The launchers that the broker keeps, one for each template. When one ends, its crates end; the
 * next is started at once, or, after failures in a row, when somebody needs it but not before a
 * pause that grows: a host on which nothing can work is not kept busy.
 */

#include "broker/manager.h"
#include "crate/launcher.h"

/* One launcher process, from its start until the last of its crates is freed. */
typedef struct LauncherRun LauncherRun;

enum {
        _LAUNCHERS_E_SUCCESS,
        LAUNCHERS_E_UNAVAILABLE, /* ret_error tells */
};

/* Starts one for each template. What cannot be started is logged, and told to those who ask. */
int launchers_start(Manager *manager);
/*
 * To be called when another policy has taken the place of the one before. A template that is new
 * gets a launcher, one that is gone loses it, and one that shows something else gets a new one when
 * it is asked for; crates keep the launcher that they have.
 */
int launchers_reload(Manager *manager);
/* All crates must have been freed. */
void launchers_stop(Manager *manager);

/*
 * The launcher that serves this template now, with a reference for one crate. tree is the tree that
 * the crate's plan was built with: if the host has changed so that the launcher's is another one, a
 * new launcher takes over, and the old one ends with its last crate.
 */
int launchers_get(Manager *manager, const Template *template, const CratePlan *tree,
                  LauncherRun **ret_run, CrateError *ret_error);
Launcher *launcher_run_launcher(LauncherRun *run);
/* The crate was freed, or not made. Returns NULL. */
LauncherRun *launcher_run_unref(LauncherRun *run);
