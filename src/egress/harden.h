/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives away all that a program with the network does not need: environment, capabilities, core
 * dumps, and, where the kernel has Landlock, every file but those that name services and trust are
 * read from. 0 or a negative errno. */
int harden(void);
