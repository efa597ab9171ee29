/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files of a cgroup, by its directory. Their names come from us and are never followed as links. */

#include <stddef.h>

#include "basic/string-util.h"
#include "cgroup/cgroup.h"

/* More than any file but io.max and io.stat has. */
#define CGROUP_FILE_SIZE 4096U

/* The file's text, NUL-terminated, cut at size. 0 or a negative errno. */
int cgroup_file_read(int dir, const char *name, char *buffer, size_t size);
/* The same from its beginning, of a file that is held open; this is what takes an event off it. */
int cgroup_file_reread(int fd, char *buffer, size_t size);
/* A file of any size. dir may be AT_FDCWD. */
int cgroup_file_read_all(int dir, const char *name, StrBuf *text);
int cgroup_file_write(int dir, const char *name, const char *text);
int cgroup_dir_open(int dir, const char *name, int flags, int *ret_fd);
/* Makes it unless it is there. */
int cgroup_dir_make(int dir, const char *name, int flags, int *ret_fd);

/* Fills *ret_failure; wanted and got may be NULL. Returns CGROUP_E_FAILED. */
int cgroup_fail(CgroupFailure *ret_failure, int error, const char *path, const char *file,
                const char *wanted, const char *got);

/*
 * Writes a limit and reads it back. 0, or CGROUP_E_FAILED if it could not be written or is another
 * one now; path is that of dir, for the failure.
 */
int cgroup_file_set(int dir, const char *path, const char *name, const char *wanted,
                    CgroupFailure *ret_failure);
