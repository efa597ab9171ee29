/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths of a command line, and what is said when they are wrong.
 */

#include <stdbool.h>
#include <stddef.h>

enum {
        _HOST_PATH_E_SUCCESS,
        HOST_PATH_E_INVALID, /* ret_text tells, in one sentence; owned by the caller */
};

enum {
        HOST_PATH_FOLDER = 1U << 0, /* nothing but a folder will do */
        /*
         * The last component must not be a link. For what a job may write to: an earlier job may
         * have put a link where it was given a folder, and the next one would be given what that
         * leads to.
         */
        HOST_PATH_NO_LINK = 1U << 1,
};

/*
 * Looks a path up once and through a file descriptor: *ret_source is where the file really lies,
 * without links; *ret_target is the path by which the user knows it, absolute and without "." and
 * ".." (ret_target may be NULL). Both are owned by the caller. what is the option, for the text.
 *
 * 0, HOST_PATH_E_INVALID (missing, unreadable, a loop of links, no folder although one is wanted, a
 * link, longer than size_max …), or a negative errno.
 */
int host_path_resolve(const char *what, const char *path, unsigned flags, size_t size_max,
                      char **ret_source, char **ret_target, char **ret_text);

/* Splits "DIR[:ro]". 0, HOST_PATH_E_INVALID or a negative errno. */
int host_path_parse_workspace(const char *value, char **ret_path, bool *ret_readonly,
                              char **ret_text);
