/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "seccomp/profile.h"

/* agentcrate-egress as a system service: a listening socket is passed in, and every broker that
 * connects is served. profile is its own. Returns the exit status. */
int service_main(int argc, char *argv[], const SeccompProfile *profile);
