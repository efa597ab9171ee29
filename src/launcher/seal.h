/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The seal: after it, init can do no more than the job that it will start, but for clone3 and
 * seccomp where it may need them: the job's own process then closes these before its exec. There is
 * no way back.
 */

#include "launcher/failure.h"
#include "plan/plan.h"

/* The ABI of Landlock that this kernel has; 0 for none. */
uint32_t landlock_abi(void);
/* is_closed: without clone3 and seccomp. ret_landlock_abi is the ABI of the domain that init is in
 * now, 0 if the plan asks for none or the kernel has none. */
int seal(const PlanReader *plan, uint32_t abi, bool is_closed, uint32_t *ret_landlock_abi,
         ProtoFailure *ret_failure);
