/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/options.h"

/* Runs the command and says how it ended where that must be said. The exit status, or a negative
 * errno. */
int run_command(const RunOptions *options);
