/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a command missed of the network, in sentences for who ran it: each says what it was, and
 * what to type so that it is allowed the next time.
 */

#include "crate/result.h"
#include "policy/destination.h"

#define REFUSALS_LINES_MAX 10U

/*
 * Appends the lines. egress is what was allowed; failed: the command did not end well, so what may
 * be its own way of trying is worth a line too. 0 or -ENOMEM.
 */
int refusals_describe(const CrateResult *result, const DestinationList *egress, bool failed,
                      StrV *lines);
