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
} MountKind;

typedef struct MountEntry {
        MountKind kind;
        char *path;    /* in the crate, normalised, free of links */
        char *source;  /* on the host, real path; NULL for private and hide */
        uint32_t mode; /* of a private directory */
        bool directory;
        bool late;        /* not before the crate's own namespaces exist */
        bool forced_late; /* the workspace: differs from job to job */
        const struct MountEntry
                *below; /* the deepest entry that this one lies in, NULL: the tree's root */
        size_t order;
} MountEntry;

typedef struct MountTable {
        MountEntry *entries;
        size_t n_entries;
        const char *root; /* of the template, NULL: the host's */
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
 * host: missing is MOUNT_TABLE_E_INVALID if required, else a note.
 */
int mount_table_add(MountTable *table, MountKind kind, const char *path, const char *source,
                    uint32_t mode, bool required, CrateError *ret_error);
/* Marks the entry at path as one that differs from job to job. */
void mount_table_force_late(MountTable *table, const char *path);
/* Sorts, resolves links in targets, decides stages, drops what cannot be hidden. */
int mount_table_arrange(MountTable *table, CrateError *ret_error);
/* Adds the operations of the table: tree stage to tree, the others to crate. */
int mount_table_plan_tree(const MountTable *table, CratePlan *tree);
int mount_table_plan_crate(const MountTable *table, CratePlan *crate);
