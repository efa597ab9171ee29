/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "policy/policy.h"

/* agentcrate policy check: what has no fault and can hardly be meant is told on standard error, a
 * line for each; then a line on standard output says that there are no faults, and of how much. 0
 * or -ENOMEM. */
int policy_check_print(const Policy *policy);
