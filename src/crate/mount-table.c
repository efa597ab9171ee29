/* SPDX-License-Identifier: Apache-2.0 */

/* What is mounted into a crate, as it is asked for. */

#include "crate/mount-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

void mount_entry_done(MountEntry *entry) {
        free(entry->path);
        free(entry->given);
        free(entry->source);
        *entry = (MountEntry){};
}

void mount_table_done(MountTable *table) {
        for (size_t i = 0; i < table->n_entries; i++)
                mount_entry_done(&table->entries[i]);
        free(table->entries);
        strv_done(&table->links);
        strv_done(&table->notes);
        *table = (MountTable){};
}

static MountEntry *mount_table_find(const MountTable *table, const char *path) {
        for (size_t i = 0; i < table->n_entries; i++)
                if (string_equal(table->entries[i].path, path))
                        return &table->entries[i];
        return NULL;
}

static int source_fault(const char *source, int error, CrateError *ret_error) {
        const char *remedy = error == ENOENT  ? "make it or give another path"
                             : error == ELOOP ? "its links lead in a circle, or it has become one: "
                                                "give the real path"
                             : error == EACCES
                                     ? "give the user of this program the right to reach it"
                                     : "give a path that exists";

        (void) crate_error_set(ret_error, "mount", error, source, remedy,
                               "%s cannot be mounted into a crate: %s", source, strerror(error));
        return MOUNT_TABLE_E_INVALID;
}

enum {
        _SOURCE_E_SUCCESS,
        SOURCE_E_MISSING,
        SOURCE_E_INVALID,
};

/* The real path of a source and whether it is a folder. Sockets, devices and pipes of the host
 * never go into a crate. */
static int source_resolve(const char *source, char **ret_real, bool *ret_directory,
                          CrateError *ret_error) {
        _cleanup_(freep) char *real = NULL;
        struct stat st;

        real = realpath(source, NULL);
        if (!real || stat(real, &st) < 0) {
                int error = errno;

                if (error == ENOENT || error == ENOTDIR)
                        return SOURCE_E_MISSING;
                (void) source_fault(source, error, ret_error);
                return SOURCE_E_INVALID;
        }
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
                (void) crate_error_set(ret_error, "mount", EINVAL, source,
                                       "give a folder or a regular file",
                                       "%s cannot be mounted into a crate: it is neither a folder "
                                       "nor a regular file",
                                       source);
                return SOURCE_E_INVALID;
        }
        *ret_directory = S_ISDIR(st.st_mode);
        *ret_real = TAKE_PTR(real);
        return 0;
}

static int mount_table_push(MountTable *table, MountEntry *entry) {
        MountEntry *old = mount_table_find(table, entry->path), *entries;

        entry->order = table->n_added++;
        if (old) {
                mount_entry_done(old);
                *old = *entry;
                return 0;
        }
        entries = reallocarray(table->entries, table->n_entries + 1, sizeof(*entries));
        if (!entries)
                return error_origin(-ENOMEM);
        table->entries = entries;
        table->entries[table->n_entries++] = *entry;
        return 0;
}

/* Takes what the entry holds, whatever comes of it. */
static int push_at(MountTable *table, const char *path, MountEntry *entry) {
        int r;

        entry->path = strdup(path);
        r = entry->path ? mount_table_push(table, entry) : error_origin(-ENOMEM);
        if (r < 0)
                mount_entry_done(entry);
        return r;
}

int mount_table_add(MountTable *table, MountKind kind, const char *path, const char *source,
                    uint32_t mode, bool required, CrateError *ret_error) {
        MountEntry entry = {.kind = kind, .mode = mode, .directory = true, .optional = !required};
        int r;

        if (source) {
                r = source_resolve(source, &entry.source, &entry.directory, ret_error);
                if (r == SOURCE_E_MISSING && !required)
                        return strv_appendf(&table->notes,
                                            "skipped: %s does not exist on this host", source);
                if (r == SOURCE_E_MISSING)
                        return source_fault(source, ENOENT, ret_error);
                if (r != 0)
                        return MOUNT_TABLE_E_INVALID;
                /* Whoever may use only what lies below some folder was checked by this path. */
                if (required && !string_equal(source, entry.source)) {
                        (void) source_fault(source, ELOOP, ret_error);
                        mount_entry_done(&entry);
                        return MOUNT_TABLE_E_INVALID;
                }
        }
        return push_at(table, path, &entry);
}

char *mount_entry_target(const MountEntry *entry, const char *host) {
        const char *rest = string_after(host, entry->source);
        char *target = NULL;

        /* The root folder ends in the slash that others are followed by. */
        if (rest && string_equal(entry->source, "/"))
                rest = host;
        if (!rest || *rest != '/' || !rest[1])
                return NULL;
        return asprintf(&target, "%s%s", entry->path, rest) < 0 ? NULL : target;
}

int mount_table_add_hidden(MountTable *table, const char *path, CrateError *ret_error) {
        int r;

        r = mount_table_add(table, MOUNT_HIDE, path, NULL, 0, false, ret_error);
        if (r != 0)
                return r;
        for (size_t i = 0; i < table->n_entries; i++)
                if (string_equal(table->entries[i].path, path))
                        table->entries[i].vanishing = true;
        return 0;
}

bool mount_table_has(const MountTable *table, const char *path) {
        return mount_table_find(table, path) != NULL;
}

int mount_table_add_cover(MountTable *table, const char *path, const char *cover, bool required,
                          CrateError *ret_error) {
        MountEntry entry = {
                .kind = MOUNT_COVER, .cover = cover, .optional = !required, .forced_late = true};

        if (mount_table_has(table, path)) {
                if (!required)
                        return 0;
                (void) crate_error_set(ret_error, "mount", EBUSY, path,
                                       "do not mount anything there",
                                       "something is mounted at %s, where a job that reaches names "
                                       "has the crate's own",
                                       path);
                return MOUNT_TABLE_E_INVALID;
        }
        return push_at(table, path, &entry);
}

int mount_table_add_link(MountTable *table, const char *path, const char *target) {
        int r;

        r = strv_append(&table->links, path);
        if (r == 0)
                r = strv_append(&table->links, target);
        return r < 0 ? error_trace(r) : 0;
}

void mount_table_force_late(MountTable *table, const char *path) {
        MountEntry *entry = mount_table_find(table, path);

        if (entry)
                entry->forced_late = true;
}
