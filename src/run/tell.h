/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the user is told at the end of a command. */

#include "crate/result.h"
#include "policy/destination.h"
#include "run/options.h"

/* How it ended and what it missed, on the terminal, and the record on standard output as far as the
 * options ask for it. egress is what was allowed. 0, RUN_E_REPORTED or a negative errno. */
int tell_end(const RunOptions *options, const DestinationList *egress, const CrateResult *result);
