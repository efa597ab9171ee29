/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What --print-plan tells of egress beside the sockets of the plan: which rule decides over each
 * destination and each address, and where it stands. */

#include "run/prepare.h"

/* allowed: those of the command line. Nothing is printed where nothing is reached. */
void egress_rules_print(const RunSetup *setup, const DestinationList *allowed);
