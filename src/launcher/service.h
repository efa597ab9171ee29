/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * agentcrate-launcher as agentcrate-launcher.service: the parent of the launchers of the system's
 * broker, which is another user and reaches it by a socket. Everything that the broker may ask for
 * is bounded by the command line, which is the unit's, and by the bind roots.
 */

/* The exit status. */
int service_main(int argc, char *argv[]);
