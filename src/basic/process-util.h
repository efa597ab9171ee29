/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/* The two places that start our processes. Each child has /dev/null as standard streams, link_fd
 * (borrowed) as its fd number at_fd, nothing else open, no signal blocked, no environment. */

/*
 * Starts a program of ours, with that name as its only argument. 0 or a negative errno, also that
 * of the exec.
 */
int process_spawn_with_link(const char *program, const char *name, int link_fd, int at_fd,
                            pid_t *ret_pid);

/* The same, with these variables of our environment, as far as they are set; names ends with
 * NULL. */
int process_spawn_with_link_env(const char *program, const char *name, int link_fd, int at_fd,
                                const char *const *names, pid_t *ret_pid);

/*
 * The same without a program: the child is a copy of this process, which must be single-threaded,
 * and ends with what run(at_fd) returns as its exit status. argv is the one that main was given:
 * what the kernel shows of the child's arguments and environment is overwritten, with that name as
 * the only argument. Signal handlers stay as they are.
 */
int process_fork_with_link(const char *name, char **argv, int link_fd, int at_fd,
                           int (*run)(int link_fd), pid_t *ret_pid);

/* As fork, of a process of one thread: without what libc would do for threads and locks, or fork
 * itself where a filter around us says that there is no clone3. */
pid_t process_fork(void);

/* Waits for a child that is about to end by itself, kills it if that takes longer, and reaps it. */
void process_end(pid_t pid, int msec);
