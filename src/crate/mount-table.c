/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/mount-table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

#define LINKS_MAX 40U

static void mount_entry_done(MountEntry *entry) {
        free(entry->path);
        free(entry->source);
        *entry = (MountEntry){};
}

void mount_table_done(MountTable *table) {
        for (size_t i = 0; i < table->n_entries; i++)
                mount_entry_done(&table->entries[i]);
        free(table->entries);
        strv_done(&table->notes);
        *table = (MountTable){};
}

static MountEntry *mount_table_find(const MountTable *table, const char *path) {
        for (size_t i = 0; i < table->n_entries; i++)
                if (string_equal(table->entries[i].path, path))
                        return &table->entries[i];
        return NULL;
}

/* The part of path below folder, beginning with "/"; NULL if it lies elsewhere or is the folder
 * itself. */
static const char *path_below(const char *path, const char *folder) {
        const char *rest = string_after(path, folder);

        return rest && *rest == '/' && rest[1] ? rest : NULL;
}

static int source_fault(const char *source, int error, CrateError *ret_error) {
        const char *remedy = error == ENOENT  ? "make it or give another path"
                             : error == ELOOP ? "its links lead in a circle: give the real path"
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

        entry->order = table->n_entries;
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

int mount_table_add(MountTable *table, MountKind kind, const char *path, const char *source,
                    uint32_t mode, bool required, CrateError *ret_error) {
        MountEntry entry = {.kind = kind, .mode = mode, .directory = true};
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
        }
        entry.path = strdup(path);
        r = entry.path ? mount_table_push(table, &entry) : error_origin(-ENOMEM);
        if (r < 0)
                mount_entry_done(&entry);
        return r;
}

void mount_table_force_late(MountTable *table, const char *path) {
        MountEntry *entry = mount_table_find(table, path);

        if (entry)
                entry->forced_late = true;
}

static size_t path_depth(const char *path) {
        size_t n = 0;

        for (; *path; path++)
                n += *path == '/' && path[1] != 0;
        return n;
}

static int compare_entries(const void *a, const void *b) {
        const MountEntry *x = a, *y = b;
        size_t dx = path_depth(x->path), dy = path_depth(y->path);

        if (dx != dy)
                return dx < dy ? -1 : 1;
        return strcmp(x->path, y->path);
}

/* The deepest entry before i that contains path. Entries are sorted, so all candidates come
 * earlier. */
static const MountEntry *mount_table_container(const MountTable *table, size_t n,
                                               const char *path) {
        const MountEntry *found = NULL;

        for (size_t i = 0; i < n; i++)
                if (path_below(path, table->entries[i].path))
                        found = &table->entries[i];
        return found;
}

bool mount_path_is_managed(const char *path) {
        static const char *const managed[] = {"/dev", "/proc", "/sys",       "/tmp",
                                              "/run", "/home", "/workspace", "/etc"};

        for (size_t i = 0; i < ELEMENTSOF(managed); i++)
                if (string_equal(path, managed[i]))
                        return true;
        return false;
}

/* Where on the host the content of a path in the crate comes from; NULL if it is not the host's.
 * Owned by the caller. */
static char *host_path_of(const MountTable *table, const char *path) {
        const MountEntry *container = mount_table_container(table, table->n_entries, path);
        char *host = NULL;

        if (container && container->source) {
                if (asprintf(&host, "%s%s", container->source, path_below(path, container->path)) <
                    0)
                        return NULL;
                return host;
        }
        /* Top-level links of the root, such as /lib, are shown as they are. */
        if (!container && path_depth(path) == 1 && !mount_path_is_managed(path) &&
            asprintf(&host, "%s%s", table->root ?: "", path) < 0)
                return NULL;
        return host;
}

/* If path is a link in the crate's tree, what it points to, as an absolute path. */
static char *link_target(const MountTable *table, const char *path) {
        _cleanup_(freep) char *host = host_path_of(table, path);
        char target[PATH_MAX], *result = NULL;
        const char *slash;
        ssize_t n;

        if (!host)
                return NULL;
        n = readlink(host, target, sizeof(target) - 1);
        if (n <= 0)
                return NULL;
        target[n] = 0;
        if (target[0] == '/')
                return strdup(target);
        slash = strrchr(path, '/');
        if (asprintf(&result, "%.*s/%s", (int) (slash - path), path, target) < 0)
                return NULL;
        return result;
}

/* Appends one component to an absolute path; ".." goes up, never above "/". */
static int path_push(StrBuf *path, const char *component, size_t n) {
        int r;

        if (n == 0 || (n == 1 && component[0] == '.'))
                return 0;
        if (n == 2 && component[0] == '.' && component[1] == '.') {
                while (path->size > 0 && path->data[path->size - 1] != '/')
                        path->size--;
                if (path->size > 0)
                        path->size--;
                return 0;
        }
        r = strbuf_append_byte(path, '/');
        return r < 0 ? error_trace(r) : strbuf_append(path, component, n);
}

/* The path that the kernel will reach, as far as links of the tree lead elsewhere. All lookups stay
 * inside of the root. */
static int path_resolve(const MountTable *table, const char *path, char **ret_path) {
        _cleanup_(strbuf_done) StrBuf done = STRBUF_NULL;
        _cleanup_(freep) char *todo = NULL;
        unsigned links = 0;
        char *p;
        int r;

        todo = strdup(path);
        if (!todo)
                return error_origin(-ENOMEM);
        for (p = todo; *p;) {
                _cleanup_(freep) char *target = NULL;
                size_t n = strcspn(p, "/");

                r = path_push(&done, p, n);
                if (r < 0)
                        return error_trace(r);
                r = strbuf_append(&done, "", 0);
                if (r < 0)
                        return error_trace(r);
                p += n + (p[n] == '/');

                target = n > 0 && done.size > 0 ? link_target(table, done.data) : NULL;
                if (target) {
                        char *rest = NULL;

                        if (++links > LINKS_MAX)
                                return error_origin(-ELOOP);
                        if (asprintf(&rest, "%s/%s", target, p) < 0)
                                return error_origin(-ENOMEM);
                        free(todo);
                        todo = rest;
                        p = todo;
                        strbuf_done(&done);
                }
        }
        *ret_path = done.size > 0 ? strbuf_steal(&done) : strdup("/");
        return *ret_path ? 0 : error_origin(-ENOMEM);
}

static int mount_table_resolve_targets(MountTable *table, CrateError *ret_error) {
        for (size_t i = 0; i < table->n_entries; i++) {
                MountEntry *entry = &table->entries[i];
                char *resolved = NULL;
                int r;

                r = path_resolve(table, entry->path, &resolved);
                if (r == -ELOOP) {
                        (void) crate_error_set(
                                ret_error, "mount", ELOOP, entry->path,
                                "choose another path in the crate",
                                "nothing can be mounted at %s: its links lead in a circle",
                                entry->path);
                        return MOUNT_TABLE_E_INVALID;
                }
                if (r < 0)
                        return error_trace(r);
                free(entry->path);
                entry->path = resolved;
        }
        return 0;
}

/* After links were resolved two entries may be one place: the one that was added later stays. */
static void mount_table_remove_doubles(MountTable *table) {
        for (size_t i = 0; i + 1 < table->n_entries;) {
                MountEntry *a = &table->entries[i], *b = &table->entries[i + 1];

                if (!string_equal(a->path, b->path)) {
                        i++;
                        continue;
                }
                if (a->order > b->order) {
                        MountEntry swap = *a;

                        *a = *b;
                        *b = swap;
                }
                mount_entry_done(a);
                memmove(a, b, (table->n_entries - i - 1) * sizeof(*a));
                table->n_entries--;
        }
}

static void mount_table_remove(MountTable *table, size_t i) {
        mount_entry_done(&table->entries[i]);
        memmove(&table->entries[i], &table->entries[i + 1],
                (table->n_entries - i - 1) * sizeof(MountEntry));
        table->n_entries--;
}

/* Whether a mount point exists in what the entry lies in, when that is the host's. */
static int entry_check_point(MountEntry *entry, CrateError *ret_error) {
        _cleanup_(freep) char *host = NULL;
        struct stat st;

        if (!entry->below || !entry->below->source)
                return 0;
        if (asprintf(&host, "%s%s", entry->below->source,
                     path_below(entry->path, entry->below->path)) < 0)
                return error_origin(-ENOMEM);
        if (stat(host, &st) == 0 &&
            (entry->kind == MOUNT_HIDE || S_ISDIR(st.st_mode) == entry->directory)) {
                entry->directory = S_ISDIR(st.st_mode);
                return 0;
        }
        (void) crate_error_set(ret_error, "mount", errno, entry->path,
                               "make it on the host first: nothing is ever made there",
                               "nothing can be mounted at %s: %s is not there as a %s", entry->path,
                               host, entry->directory ? "folder" : "file");
        return MOUNT_TABLE_E_INVALID;
}

/* Hiding what is not there is no fault; a private place or the bare tree has nothing to hide. */
static bool entry_is_idle_hide(const MountEntry *entry) {
        _cleanup_(freep) char *host = NULL;

        if (entry->kind != MOUNT_HIDE)
                return false;
        if (!entry->below || !entry->below->source)
                return true;
        if (asprintf(&host, "%s%s", entry->below->source,
                     path_below(entry->path, entry->below->path)) < 0)
                return false;
        return access(host, F_OK) < 0;
}

int mount_table_arrange(MountTable *table, CrateError *ret_error) {
        int r;

        qsort(table->entries, table->n_entries, sizeof(MountEntry), compare_entries);
        r = mount_table_resolve_targets(table, ret_error);
        if (r != 0)
                return r;
        qsort(table->entries, table->n_entries, sizeof(MountEntry), compare_entries);
        mount_table_remove_doubles(table);

        for (size_t i = 0; i < table->n_entries;) {
                MountEntry *entry = &table->entries[i];

                entry->below = mount_table_container(table, i, entry->path);
                if (entry_is_idle_hide(entry)) {
                        r = strv_appendf(
                                &table->notes,
                                "skipped: %s is not in the crate, so there is nothing to hide",
                                entry->path);
                        if (r < 0)
                                return error_trace(r);
                        mount_table_remove(table, i);
                        continue;
                }
                r = entry_check_point(entry, ret_error);
                if (r != 0)
                        return r;
                entry->late = entry->forced_late || entry->kind == MOUNT_RW ||
                              (entry->below &&
                               (entry->below->late || entry->below->kind == MOUNT_PRIVATE) &&
                               entry->kind != MOUNT_PRIVATE) ||
                              (entry->kind == MOUNT_PRIVATE && entry->below && entry->below->late);
                if (entry->below && entry->below->kind == MOUNT_PRIVATE && entry->below->late) {
                        (void) crate_error_set(ret_error, "mount", EINVAL, entry->path,
                                               "mount it elsewhere",
                                               "nothing can be mounted at %s, below a private "
                                               "folder in a writable one",
                                               entry->path);
                        return MOUNT_TABLE_E_INVALID;
                }
                i++;
        }
        return 0;
}

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
                        op.flags = entry->directory ? PLAN_DIRECTORY : 0;
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

/* A late bind below a private place needs a mount point that only this crate has. */
static int plan_point(const MountEntry *entry, CratePlan *crate) {
        if (!entry->late || !entry->below || entry->below->kind != MOUNT_PRIVATE)
                return 0;
        return plan_add(crate, &(PlanOp){.type = PLAN_OP_MOUNTPOINT,
                                         .path = entry->path,
                                         .flags = entry->directory ? PLAN_DIRECTORY : 0});
}

static int plan_late(const MountEntry *entry, CratePlan *crate) {
        PlanOp op = {.path = entry->path, .source = entry->source};

        if (!entry->late || entry->kind == MOUNT_PRIVATE)
                return 0;
        op.type = entry->kind == MOUNT_HIDE ? PLAN_OP_LATE_HIDE : PLAN_OP_LATE_BIND;
        op.flags = entry->directory ? PLAN_DIRECTORY : 0;
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

                r = entry->kind == MOUNT_PRIVATE ? plan_private(entry, index++, crate)
                                                 : plan_point(entry, crate);
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
