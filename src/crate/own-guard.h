/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * AgentCrate's own folders, with its policy, secrets and logs, in what a crate is shown of the
 * host. A job that could change them would say itself what it may do next time, so a writable
 * folder that holds one, or lies in one, is refused. In a read-only one they are covered.
 */

#include "crate/mount-table.h"

/* 0, MOUNT_TABLE_E_INVALID (ret_error tells) or a negative errno. */
int own_folders_guard(MountTable *table, CrateError *ret_error);
