/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The check from inside: after the seal init reads back what it is and compares that with the plan.
 * A crate that is weaker than its plan is never handed out.
 */

#include "launcher/failure.h"
#include "plan/plan.h"

int verify(const PlanReader *plan, bool has_cgroup, InitReport *ret_report,
           ProtoFailure *ret_failure);
