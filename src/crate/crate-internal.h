/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What Launcher and Crate know of each other, and of no one else. */

#include "crate/crate.h"
#include "crate/egress.h"
#include "crate/launcher.h"
#include "ipc/proto.h"

/*
 * Asks for a crate. control_fd and plan_fd are borrowed, cgroup_fd may be -EBADF. The crate is told
 * of what follows by the crate_on_…() below until it calls launcher_forget().
 */
int launcher_make(Launcher *launcher, Crate *crate, int control_fd, int plan_fd, int cgroup_fd,
                  uint32_t *ret_id, CrateError *ret_error);
/* The crate is freed: nothing is reported to it any more. Its sub-uid stays held until it is gone.
 */
void launcher_forget(Launcher *launcher, uint32_t id);

/* pid_fd is consumed. */
void crate_on_made(Crate *crate, int pid_fd);
void crate_on_failed(Crate *crate, const ProtoFailure *failure);
/* Reaped by the launcher, or never cloned. */
void crate_on_gone(Crate *crate);
/* The launcher itself has ended or failed. */
void crate_on_launcher_lost(Crate *crate, const CrateError *error);

/* Sockets of the plan's listen operations, before crate_on_made(). They are taken. 0 or a negative
 * errno if they are not what the plan asks for. */
int crate_on_sockets(Crate *crate, size_t first, int *fds, size_t n_fds);

/* A failure as a sentence with its cause and remedy, as far as this host's settings tell. */
int crate_explain_failure(const ProtoFailure *failure, CrateError *ret_error);
