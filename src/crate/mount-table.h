/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Everything that is mounted into a crate, as one table: from the template, from the request, and
 * what every crate has. The table is sorted by path depth, so that the order in which things were
 * written plays no part, and then says for each entry in which stage it can be mounted and what
 * serves as its mount point.
 */

#include <stdbool.h>

#include "basic/string-util.h"
#include "crate/result.h"
#include "plan/plan.h"

typedef enum MountKind {
        MOUNT_RO,
        MOUNT_RW,
        MOUNT_PRIVATE, /* a directory of the crate's tmpfs */
        MOUNT_HIDE,
        MOUNT_COVER, /* a file of the tree's, shown at another place */
} MountKind;

typedef struct MountEntry {
        MountKind kind;
        char *path;        /* in the crate, normalised, free of links */
        char *given;       /* as it was asked for; NULL: the same */
        char *source;      /* on the host, real path; NULL for private and hide */
        const char *cover; /* the file of a cover; static */
        uint32_t mode;     /* of a private directory */
        bool directory;
        bool optional;    /* a private place that is left out where the root has no folder for it */
        bool vanishing;   /* what is hidden may be gone before the crate is made: a socket */
        bool late;        /* not before the crate's own namespaces exist */
        bool forced_late; /* the workspace: differs from job to job */
        const struct MountEntry
                *below; /* the deepest entry that this one lies in, NULL: the tree's root */
        size_t order;
} MountEntry;

typedef struct MountTable {
        MountEntry *entries;
        size_t n_entries;
        size_t n_added; /* ever */
        StrV links;     /* path and target by turns: links that are made at the top of the tree */
        StrV notes;
} MountTable;

enum {
        _MOUNT_TABLE_E_SUCCESS,
        MOUNT_TABLE_E_INVALID, /* ret_error tells */
};

/* Whether every crate has a folder of its own at this top-level path, whatever the template's root
 * has there. */
bool mount_path_is_managed(const char *path);

void mount_table_done(MountTable *table);
/*
 * Adds an entry; one of the same path that was added before is replaced. source is looked up on the
 * host. Required: it must be there and be a real path, since links were resolved and permissions
 * checked before; else MOUNT_TABLE_E_INVALID. Not required: its links are followed, and missing is
 * a note; so is a missing mount point of a private place in what is the host's.
 */
int mount_table_add(MountTable *table, MountKind kind, const char *path, const char *source,
                    uint32_t mode, bool required, CrateError *ret_error);
/* Tells of a link that the tree has at its top, such as /lib: targets below it lie elsewhere. */
int mount_table_add_link(MountTable *table, const char *path, const char *target);
/* Marks the entry at path as one that differs from job to job. */
void mount_table_force_late(MountTable *table, const char *path);
/* Shows the tree's file cover at path, in the crates of jobs that need it there. Required: that it
 * cannot be, or that something else was asked for at path, is MOUNT_TABLE_E_INVALID; else it is
 * left out. cover is kept. */
int mount_table_add_cover(MountTable *table, const char *path, const char *cover, bool required,
                          CrateError *ret_error);
/* Covers what a host path leads to in the crate. It may be gone before the crate is made, and then
 * there is nothing to cover. */
int mount_table_add_hidden(MountTable *table, const char *path, CrateError *ret_error);
/* The path in the crate of a host path below the source of this entry; NULL if it shows none. Owned
 * by the caller. */
char *mount_entry_target(const MountEntry *entry, const char *host);
/* Whether something was added at that very path. */
bool mount_table_has(const MountTable *table, const char *path);
/* Sorts, resolves links in targets, decides stages, drops what cannot be hidden. */
int mount_table_arrange(MountTable *table, CrateError *ret_error);
/* Adds the operations of the table: tree stage to tree, the others to crate. */
int mount_table_plan_tree(const MountTable *table, CratePlan *tree);
int mount_table_plan_crate(const MountTable *table, CratePlan *crate);
