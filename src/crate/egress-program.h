/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reaching agentcrate-egress: as a child of one's own, or by the socket of its service. */

#include <sys/types.h>

#include "crate/result.h"

#define EGRESS_NAME "agentcrate-egress"

enum {
        _EGRESS_PROGRAM_E_SUCCESS,
        EGRESS_PROGRAM_E_FAILED, /* ret_error tells */
};

/* The program to start: $AGENTCRATE_LIBEXEC_DIR/agentcrate-egress, else the installed one. Owned by
 * the caller, NULL if out of memory. */
char *egress_program(void);
/* path is that of the service's socket; NULL: a child is started, and *ret_pid is its pid, else 0.
 * The link's fd never blocks. A child has no environment; with_secrets: but what says where secrets
 * lie. */
int egress_program_open(const char *path, bool with_secrets, int *ret_fd, pid_t *ret_pid,
                        CrateError *ret_error);
/* Ends the child that *pid is, if it is one: it ends with its link, which is closed before, and has
 * nothing to lose if it is killed instead. */
void egress_program_end(pid_t *pid);
