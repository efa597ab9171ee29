/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "launcher/failure.h"
#include "plan/plan.h"

/* The mounts and names of the crate stage. ret_private_fd is an O_PATH fd of the private tmpfs,
 * -EBADF if the plan has none. */
int init_tree(const PlanReader *plan, int *ret_private_fd, ProtoFailure *ret_failure);
/* What of the late stage is init's: private places below a late bind. */
int init_late(const PlanReader *plan, int private_fd, ProtoFailure *ret_failure);
