/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * What the broker gives up at its start. As a plain user it has nothing. As root it is the parent
 * of the launchers, which need the capabilities that make namespaces, mounts and id maps, and a
 * child can have no more than its parent's bounding set; so in this version root's broker keeps
 * those, and gives up all others, for itself and for all that it starts.
 */

int privileges_reduce(void);

/* What this process holds of jobs, such as their output, gets into no core dump, and with
 * even_to_owner, cannot be read by other processes of its user either. */
int privileges_close(bool even_to_owner);
