/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sockets of host programs that lie in what a crate is shown. A read-only mount does not keep a job
 * from connecting to one, and the program behind it takes the job for its user: an agent with keys,
 * a container engine, a debugger. They are covered like anything hidden. One that appears later in
 * a shown folder is not seen here; agentcrate-run(1) says so.
 */

#include "crate/mount-table.h"

/* Hides the sockets that are bound now. 0, MOUNT_TABLE_E_INVALID (ret_error tells) or a negative
 * errno. */
int host_sockets_hide(MountTable *table, CrateError *ret_error);
