/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * A path of the command line, looked up once and through a file descriptor: *ret_source is where
 * the file really lies, without links; *ret_target is the path by which the user knows it, absolute
 * and without "." and ".." (NULL if the caller does not ask for it). Both are owned by the caller.
 *
 * 0, RUN_E_REPORTED (missing, unreadable, a loop of links, no folder although one is wanted, too
 * long …), or a negative errno.
 */
int host_path_resolve(const char *option, const char *path, bool want_folder, char **ret_source,
                      char **ret_target);
