/* SPDX-License-Identifier: Apache-2.0 */

/* An arranged table as operations of plans. */

#include "basic/error.h"
#include "crate/mount-table.h"

/* A mount point for an entry that lies in nothing of the host: made in the tree. */
static int plan_tree_point(const MountEntry *entry, CratePlan *tree) {
        if (entry->below || string_equal(entry->path, "/"))
                return 0;
        return plan_add(tree, &(PlanOp){.type = entry->directory ? PLAN_OP_DIR : PLAN_OP_FILE,
                                        .path = entry->path,
                                        .mode = entry->directory ? 0755 : 0644});
}

int mount_table_plan_tree(const MountTable *table, CratePlan *tree) {
        int r;

        for (size_t i = 0; i < table->n_entries; i++) {
                const MountEntry *entry = &table->entries[i];
                PlanOp op = {.path = entry->path, .source = entry->source};

                r = plan_tree_point(entry, tree);
                if (r < 0)
                        return error_trace(r);
                if (entry->late || entry->kind == MOUNT_PRIVATE)
                        continue;
                if (entry->kind == MOUNT_HIDE) {
                        op.type = PLAN_OP_HIDE;
                        op.flags = (entry->directory ? PLAN_DIRECTORY : 0U) |
                                   (entry->vanishing ? PLAN_OPTIONAL : 0U);
                } else {
                        op.type = PLAN_OP_BIND;
                        op.flags = PLAN_RDONLY |
                                   (entry->directory ? PLAN_DIRECTORY | PLAN_RECURSIVE : 0);
                }
                r = plan_add(tree, &op);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int plan_private(const MountEntry *entry, uint64_t index, CratePlan *crate) {
        PlanOp op = {
                .type = entry->late ? PLAN_OP_LATE_PRIVATE : PLAN_OP_PRIVATE,
                .path = entry->path,
                .mode = entry->mode,
                .a = index,
        };

        return plan_add(crate, &op);
}

/* What lies below a private place needs a mount point that only this crate has. */
static int plan_point(const MountEntry *entry, CratePlan *crate) {
        if (!entry->below || entry->below->kind != MOUNT_PRIVATE)
                return 0;
        return plan_add(crate, &(PlanOp){.type = PLAN_OP_MOUNTPOINT,
                                         .path = entry->path,
                                         .flags = entry->directory ? PLAN_DIRECTORY : 0});
}

static int plan_late(const MountEntry *entry, CratePlan *crate) {
        PlanOp op = {.path = entry->path, .source = entry->source};

        if (!entry->late || entry->kind == MOUNT_PRIVATE)
                return 0;
        if (entry->kind == MOUNT_COVER)
                return plan_add(crate, &(PlanOp){.type = PLAN_OP_LATE_COVER,
                                                 .path = entry->path,
                                                 .source = entry->cover});
        op.type = entry->kind == MOUNT_HIDE ? PLAN_OP_LATE_HIDE : PLAN_OP_LATE_BIND;
        op.flags =
                (entry->directory ? PLAN_DIRECTORY : 0U) | (entry->vanishing ? PLAN_OPTIONAL : 0U);
        if (op.type == PLAN_OP_LATE_BIND)
                op.flags |= (entry->directory ? PLAN_RECURSIVE : 0U) |
                            (entry->kind == MOUNT_RO ? PLAN_RDONLY : 0U);
        return plan_add(crate, &op);
}

int mount_table_plan_crate(const MountTable *table, CratePlan *crate) {
        uint64_t index = 0;
        int r;

        for (size_t i = 0; i < table->n_entries; i++) {
                const MountEntry *entry = &table->entries[i];

                r = plan_point(entry, crate);
                if (r == 0 && entry->kind == MOUNT_PRIVATE)
                        r = plan_private(entry, index++, crate);
                if (r < 0)
                        return error_trace(r);
        }
        for (size_t i = 0; i < table->n_entries; i++) {
                r = plan_late(&table->entries[i], crate);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}
