/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Steps that several probes take first. For the child of a probe only. Each names itself and
 * returns false when it failed; the step names are those of the launcher. */

#include "doctor/probe.h"

/* What the launcher does first: as a plain user a user namespace, then a mount namespace whose
 * mounts do not reach the host. */
bool try_outer(Probe *probe);
/* The same, and in it the user and mount namespace of a crate. */
bool try_crate(Probe *probe);
/* A file system of that type, detached; options as pairs, ended by two NULL. -EBADF on failure. */
int try_mount(Probe *probe, const char *type, const char *const *options);
/* An fd of a user namespace in which one id of the host is mapped. Root only. -EBADF on failure. */
int try_idmap(Probe *probe, uint32_t inside, uint32_t outside);
