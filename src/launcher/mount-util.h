/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mounts by file descriptor: a source is opened without following links, cloned while detached,
 * given its attributes before anybody can see it, and moved onto a target that is looked up inside
 * of the new root. No path is ever used twice. All return a file descriptor or 0, or a negative
 * errno.
 */

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

/* Opens a host path (normalised, absolute) as O_PATH. A link anywhere in it is refused with ELOOP:
 * the host side has resolved it. */
int host_open(const char *path);

/* Opens a path of a tree whose root is at root_fd as O_PATH: links are followed, but never out of
 * that root. */
int tree_open(int root_fd, const char *path);
/* A tree under construction: its root, and the folder that was worked in last, since most entries
 * come in rows. */
typedef struct TreeRoot {
        int fd; /* borrowed */
        int parent_fd;
        char parent[PLAN_PATH_MAX + 1];
} TreeRoot;

void tree_root_init(TreeRoot *root, int fd);
void tree_root_done(TreeRoot *root);

/* Makes a directory (with its parents), an empty file, or a link in the tree. An existing directory
 * or file is fine for the first two. */
int tree_make_directory(TreeRoot *root, const char *path, uint32_t mode);
int tree_make_file(TreeRoot *root, const char *path, uint32_t mode, const void *data, size_t size);
int tree_make_symlink(TreeRoot *root, const char *path, const char *target);

/* A detached copy of what fd stands for. */
int mount_clone(int fd, bool recursive);
/* Adds mount attributes (MOUNT_ATTR_X). userns_fd: id-map it, else -EBADF. */
int mount_set_attributes(int mount_fd, bool recursive, uint64_t attributes, int userns_fd);
/* Attaches a detached mount on the file or directory that target_fd stands for. */
int mount_attach(int mount_fd, int target_fd);
int mount_attach_at(int mount_fd, int root_fd, const char *path);

/*
 * The same two by path, for init: its root is the crate's own, read-only and made by us, so that a
 * path cannot lead elsewhere; and every system call here is paid by every crate.
 */
int mount_attach_here(int mount_fd, const char *path);
int mount_clone_here(int directory_fd, const char *path);

/*
 * A new detached file system. options is NULL-terminated: key, value, key, value …; a value of NULL
 * makes it a flag.
 */
int mount_new(const char *type, const char *const *options, uint64_t attributes);
