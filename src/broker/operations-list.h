/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "broker/route.h"

/* operations_list: what its caller's jobs may call with a credential, as the policy judges it. */
extern const Executor execute_operations_list;
