/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "launcher/failure.h"
#include "plan/bind-roots.h"
#include "plan/plan.h"

/*
 * Carries out the tree stage: builds the template's read-only tree in the present mount namespace,
 * makes it the root and lets go of everything else. The caller sits in a mount namespace of its own
 * that still shows the host.
 */
int tree_build(PlanReader *plan, const BindRoots *roots, ProtoFailure *ret_failure);

/* Attaches something empty that nobody may open onto the path: a file or a directory. For the tree
 * and the late stage. */
int tree_hide(int root_fd, const PlanOp *op);
/* Attaches a file of the tree onto the path. For the late stage. */
int tree_cover(int root_fd, const PlanOp *op);
