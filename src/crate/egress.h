/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host's end of agentcrate-egress, as far as crates need it: it is started, or connected to,
 * when there is something for it to serve, and again if it was lost. It belongs to one thread; the
 * owner polls egress_get_fd(), which stays the same all the time, for input and then calls
 * egress_dispatch().
 */

#include "crate/result.h"

typedef struct Egress Egress;

enum {
        _EGRESS_E_SUCCESS,
        EGRESS_E_FAILED, /* ret_error tells */
};

/* path is that of the service's socket, borrowed; NULL: it is started as a child. */
int egress_new(const char *path, Egress **ret_egress);
/* Ends it, if it is a child. Crates that use it must have been freed before. */
Egress *egress_free(Egress *egress);
DEFINE_CLEANUP(Egress, egress_free);

/* Starts it, or connects, unless that was done. */
int egress_start(Egress *egress, CrateError *ret_error);
int egress_get_fd(const Egress *egress);
/* Handles what has come, without blocking. If it was lost, so are the jobs that it served. */
void egress_dispatch(Egress *egress);
/* Of the child; 0: none runs, or it is none of ours. */
pid_t egress_get_pid(const Egress *egress);
