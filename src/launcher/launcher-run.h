/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The launcher of one template: agentcrate-launcher is this and a main of a few lines, and
 * agentcrate-run forks it instead of executing that program, since one exec costs as much as a
 * whole crate.
 */

/*
 * Makes crates for the host at the other end of link_fd until that end is closed. The calling
 * process must have nothing else open but 0 to 2, be single-threaded, and end after this: it is in
 * other namespaces then. 0, or a negative errno if the link broke. A one-shot launcher does not
 * come back, it ends the process.
 */
int launcher_run(int link_fd);
