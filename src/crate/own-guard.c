/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/own-guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/own-folders.h"

static bool path_holds(const char *outer, const char *inner) {
        const char *rest = string_after(inner, outer);

        return rest && (!*rest || *rest == '/' || string_equal(outer, "/"));
}

/* Links in the part that is there are followed: what is not there yet could be made by a job. */
static int real_path(const char *path, char **ret_real) {
        _cleanup_(freep) char *head = strdup(path);
        size_t n = strlen(path);
        char *real;

        if (!head)
                return error_origin(-ENOMEM);
        while (!(real = realpath(n > 0 ? head : "/", NULL)) && n > 0) {
                if (errno == ENOMEM)
                        return error_origin(-ENOMEM);
                while (n > 0 && head[n - 1] != '/')
                        n--;
                while (n > 0 && head[n - 1] == '/')
                        n--;
                head[n] = 0;
        }
        if (!real)
                return error_origin(negative_errno());
        if (asprintf(ret_real, "%s%s", string_equal(real, "/") && path[n] ? "" : real, path + n) <
            0)
                *ret_real = NULL;
        free(real);
        return *ret_real ? 0 : error_origin(-ENOMEM);
}

static int refuse(const MountEntry *entry, const char *folder, CrateError *ret_error) {
        (void) crate_error_set(ret_error, "mount", EPERM, entry->path,
                               "give a folder that has nothing of AgentCrate's own in it",
                               "%s would show a job %s, where AgentCrate's own policy, secrets or "
                               "logs are, so that it could change what it may do",
                               entry->source, folder);
        return MOUNT_TABLE_E_INVALID;
}

static int hide(MountTable *table, const char *target, CrateError *ret_error) {
        int r;

        r = mount_table_add_hidden(table, target, ret_error);
        return r != 0 ? r
                      : strv_appendf(&table->notes, "hidden: %s has AgentCrate's own files",
                                     target);
}

static int guard_entry(const MountEntry *entry, const char *folder, StrV *targets,
                       CrateError *ret_error) {
        _cleanup_(freep) char *target = NULL;
        bool holds;

        if (!entry->source || (entry->kind != MOUNT_RO && entry->kind != MOUNT_RW))
                return 0;
        holds = path_holds(entry->source, folder);
        if (!holds && !path_holds(folder, entry->source))
                return 0;
        if (!holds || entry->kind == MOUNT_RW || string_equal(entry->source, folder))
                return refuse(entry, folder, ret_error);
        if (access(folder, F_OK) < 0 && errno == ENOENT)
                return 0;
        target = mount_entry_target(entry, folder);
        return target ? error_trace(strv_append(targets, target)) : error_origin(-ENOMEM);
}

static int guard_folder(MountTable *table, const char *path, CrateError *ret_error) {
        _cleanup_(strv_done) StrV targets = STRV_NULL;
        _cleanup_(freep) char *folder = NULL;
        int r;

        r = real_path(path, &folder);
        for (size_t i = 0; i < table->n_entries && r == 0; i++)
                r = guard_entry(&table->entries[i], folder, &targets, ret_error);
        for (size_t i = 0; i < targets.n_items && r == 0; i++)
                r = hide(table, targets.items[i], ret_error);
        return r;
}

int own_folders_guard(MountTable *table, CrateError *ret_error) {
        _cleanup_(freep) char *config = NULL, *state = NULL;
        int r;

        r = own_config_folder(&config);
        if (r == 0)
                r = own_state_folder(&state);
        if (r < 0)
                return error_trace(r);
        r = guard_folder(table, SYSCONFDIR, ret_error);
        if (r == 0 && config)
                r = guard_folder(table, config, ret_error);
        if (r == 0 && state)
                r = guard_folder(table, state, ret_error);
        return r;
}
