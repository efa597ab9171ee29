/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What of a crate's root is made and not mounted: top-level links, /dev, a minimal /etc. And what a
 * root folder brings. */

#include "crate/mount-table.h"
#include "policy/template.h"

enum {
        _BUILD_ROOT_E_SUCCESS,
        BUILD_ROOT_E_INVALID, /* ret_error tells */
};

/*
 * Adds what the template's root has at its top: for the host the merged-/usr links, for a folder
 * all of its entries but those that every crate has for itself. A folder in which one of those is a
 * link or no folder is refused.
 */
int build_root(const Template *template, MountTable *table, CratePlan *tree, CrateError *ret_error);
/* /dev without its private parts, the covers of hidden paths, the whole /proc that the kernel asks
 * for. */
int build_skeleton(CratePlan *tree);
int build_etc(const Template *template, CratePlan *tree);
/* Files of the tree which are shown in an /etc that is not the crate's own, where names are looked
 * up. Only in a tree whose table has such. */
int build_covers(const Template *template, const MountTable *table, CratePlan *tree);
/* The same to the table of a job that reaches names. */
int build_cover_mounts(const Template *template, MountTable *table, CrateError *ret_error);
