/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * Starts a program of ours: with that name as its only argument, an empty environment, no signal
 * blocked, /dev/null as standard streams, link_fd (borrowed) as its fd number at_fd, and nothing
 * else open. 0 or a negative errno, also that of the exec. The one place that starts our processes.
 */
int process_spawn_with_link(const char *program, const char *name, int link_fd, int at_fd,
                            pid_t *ret_pid);
