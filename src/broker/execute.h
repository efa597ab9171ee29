/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "broker/route.h"

/* sandbox_exec: one job in a fresh crate. */
extern const Executor execute_sandbox_exec;
