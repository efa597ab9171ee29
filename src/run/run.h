/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/options.h"

/* Runs the command and says how it ended where that must be said. argv is main's own. The exit
 * status, or a negative errno; *ret_step is then what could not be done. */
int run_command(const RunOptions *options, char **argv, const char **ret_step);
