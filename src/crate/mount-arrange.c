/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The finished table: where each entry really lies, once the links of the tree are followed, in
 * what it lies, whether it can lie there, and in which stage it is mounted.
 */

#include "crate/mount-internal.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

#define LINKS_MAX 40U

/* The part of path below folder, beginning with "/"; NULL if it lies elsewhere or is the folder
 * itself. */
static const char *path_below(const char *path, const char *folder) {
        const char *rest = string_after(path, folder);

        return rest && *rest == '/' && rest[1] ? rest : NULL;
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

/* The deepest of the first n entries that contains path. The longest path, not the last in order:
 * while links are being resolved the table is not sorted. */
static const MountEntry *mount_table_container(const MountTable *table, size_t n,
                                               const char *path) {
        const MountEntry *found = NULL;

        for (size_t i = 0; i < n; i++) {
                const MountEntry *entry = &table->entries[i];

                if (path_below(path, entry->path) &&
                    (!found || strlen(entry->path) > strlen(found->path)))
                        found = entry;
        }
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

static const char *mount_table_find_link(const MountTable *table, const char *path) {
        for (size_t i = 0; i + 1 < table->links.n_items; i += 2)
                if (string_equal(table->links.items[i], path))
                        return table->links.items[i + 1];
        return NULL;
}

/* What the host's file behind that path of the crate says if it is a link; else NULL. Owned by the
 * caller. */
static char *host_link_target(const MountTable *table, const char *path) {
        const MountEntry *container = mount_table_container(table, table->n_entries, path);
        _cleanup_(freep) char *host = NULL;
        char target[PATH_MAX];
        ssize_t n;

        if (!container || !container->source)
                return NULL;
        if (asprintf(&host, "%s%s", container->source, path_below(path, container->path)) < 0)
                return NULL;
        n = readlink(host, target, sizeof(target) - 1);
        return n > 0 ? strndup(target, (size_t) n) : NULL;
}

/* If path is a link in the crate's tree, what it points to, as an absolute path. */
static char *link_target(const MountTable *table, const char *path) {
        const char *shown = mount_table_find_link(table, path);
        _cleanup_(freep) char *target = NULL;
        char *result = NULL;

        target = shown ? strdup(shown) : host_link_target(table, path);
        if (!target || target[0] == '/')
                return TAKE_PTR(target);
        if (asprintf(&result, "%.*s/%s", (int) (strrchr(path, '/') - path), path, target) < 0)
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

enum {
        _RESOLVE_E_SUCCESS,
        RESOLVE_E_LOOP, /* *ret_path is the link at which the search was given up */
};

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

                        if (++links > LINKS_MAX) {
                                *ret_path = strbuf_steal(&done);
                                return *ret_path ? RESOLVE_E_LOOP : error_origin(-ENOMEM);
                        }
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

static int _printf_(5, 6) entry_fault(const MountEntry *entry, int error, const char *remedy,
                                      CrateError *ret_error, const char *format, ...) {
        _cleanup_(freep) char *why = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&why, format, ap);
        va_end(ap);
        if (n < 0) {
                why = NULL;
                return error_origin(-ENOMEM);
        }
        (void) crate_error_set(ret_error, "mount", error, entry->given ?: entry->path, remedy,
                               "nothing can be mounted at %s%s%s: %s", entry->given ?: entry->path,
                               entry->given ? ", from where links lead to " : "",
                               entry->given ? entry->path : "", why);
        return MOUNT_TABLE_E_INVALID;
}

static int entry_resolve(MountTable *table, MountEntry *entry, CrateError *ret_error) {
        _cleanup_(freep) char *resolved = NULL, *target = NULL;
        int r;

        r = path_resolve(table, entry->path, &resolved);
        if (r == RESOLVE_E_LOOP) {
                target = link_target(table, resolved);
                return entry_fault(entry, ELOOP, "choose another path in the crate", ret_error,
                                   "the link %s to %s leads in a circle", resolved, target ?: "");
        }
        if (r < 0)
                return error_trace(r);
        if (string_equal(resolved, entry->path))
                return 0;
        if (strlen(resolved) > PLAN_PATH_MAX)
                return entry_fault(entry, ENAMETOOLONG, "choose another path in the crate",
                                   ret_error, "the links on it lead to a path that is too long");
        free(entry->given);
        entry->given = entry->path;
        entry->path = TAKE_PTR(resolved);
        return 0;
}

static int mount_table_resolve_targets(MountTable *table, CrateError *ret_error) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < table->n_entries; i++)
                r = entry_resolve(table, &table->entries[i], ret_error);
        return r;
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

/* Where the host has the place that the entry lies at; NULL if that is nothing of the host's, or
 * out of memory. */
static char *entry_host_path(const MountEntry *entry) {
        char *host = NULL;

        if (!entry->below || !entry->below->source)
                return NULL;
        if (asprintf(&host, "%s%s", entry->below->source,
                     path_below(entry->path, entry->below->path)) < 0)
                return NULL;
        return host;
}

/* Whether a mount point exists in what the entry lies in, when that is the host's. What is hidden
 * may be either: a folder or a file. */
static bool entry_has_point(MountEntry *entry) {
        _cleanup_(freep) char *host = NULL;
        struct stat st;

        if (!entry->below || !entry->below->source)
                return true;
        host = entry_host_path(entry);
        if (!host || stat(host, &st) < 0)
                return false;
        if (entry->kind == MOUNT_HIDE)
                entry->directory = S_ISDIR(st.st_mode);
        return S_ISDIR(st.st_mode) == entry->directory;
}

/* Whether the crate is right without this entry: hiding what is not there is no fault, and a
 * private place, the bare tree and what is hidden as a whole have nothing of the host's to hide. */
static bool entry_is_idle(MountEntry *entry) {
        if (entry->kind == MOUNT_HIDE)
                return !entry->below || !entry->below->source || !entry_has_point(entry);
        return entry->kind == MOUNT_PRIVATE && entry->optional && !entry_has_point(entry);
}

/* Whether the tree's file has a place there. */
static bool entry_can_cover(MountEntry *entry) {
        const MountEntry *below = entry->below;

        return below && below->kind != MOUNT_HIDE &&
               (below->kind != MOUNT_PRIVATE || !below->late) && entry_has_point(entry);
}

static int refuse_cover(const MountEntry *entry, CrateError *ret_error) {
        _cleanup_(freep) char *host = entry_host_path(entry);

        return entry_fault(entry, ENOENT, "make an empty file there", ret_error,
                           "%s is no file, so a job that reaches names could not find them",
                           host ?: entry->path);
}

static int entry_note_idle(const MountEntry *entry, StrV *notes) {
        return strv_appendf(notes,
                            entry->kind == MOUNT_HIDE
                                    ? "skipped: nothing of the host's is at %s, so there is "
                                      "nothing to hide"
                                    : "skipped: the root has no folder %s, so nothing private can "
                                      "be there",
                            entry->path);
}

/* What a crate is made of has its own form in each crate. The one private place in there is ours.
 */
static bool entry_is_reserved(const MountEntry *entry) {
        static const char *const reserved[] = {"/proc",           "/dev",          "/sys",
                                               PLAN_HIDDEN_FILE,  PLAN_HIDDEN_DIR, PLAN_RESOLV_FILE,
                                               PLAN_NSSWITCH_FILE};

        if (entry->kind == MOUNT_PRIVATE && string_equal(entry->path, "/dev/shm"))
                return false;
        for (size_t i = 0; i < ELEMENTSOF(reserved); i++)
                if (string_equal(entry->path, reserved[i]) || path_below(entry->path, reserved[i]))
                        return true;
        return string_equal(entry->path, "/");
}

static int entry_check(MountEntry *entry, CrateError *ret_error) {
        _cleanup_(freep) char *host = NULL;
        int error;

        if (entry_is_reserved(entry))
                return entry_fault(entry, EINVAL, "mount it elsewhere", ret_error,
                                   "each crate has a form of its own there");
        if (entry->below && entry->below->kind == MOUNT_HIDE)
                return entry_fault(entry, EINVAL, "mount it elsewhere", ret_error,
                                   "it lies in %s, which is hidden", entry->below->path);
        if (entry->below && entry->below->kind == MOUNT_PRIVATE && entry->below->late)
                return entry_fault(entry, EINVAL, "mount it elsewhere", ret_error,
                                   "it lies in %s, a private folder in what is mounted last",
                                   entry->below->path);
        if (entry_has_point(entry))
                return 0;
        host = entry_host_path(entry);
        error = !host || access(host, F_OK) < 0 ? ENOENT : entry->directory ? ENOTDIR : EISDIR;
        return entry_fault(entry, error, "make it on the host first: nothing is ever made there",
                           ret_error, "%s is not there as a %s", host ?: "its mount point",
                           entry->directory ? "folder" : "file");
}

/* Late is what needs the crate's ids, what differs from job to job, and what lies in such or in a
 * place that only this crate has. */
static bool entry_is_late(const MountEntry *entry) {
        if (entry->forced_late || entry->kind == MOUNT_RW)
                return true;
        if (!entry->below)
                return false;
        return entry->below->late ||
               (entry->below->kind == MOUNT_PRIVATE && entry->kind != MOUNT_PRIVATE);
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
                if (entry_is_idle(entry)) {
                        r = entry_note_idle(entry, &table->notes);
                        if (r < 0)
                                return error_trace(r);
                        mount_table_remove(table, i);
                        continue;
                }
                if (entry->kind == MOUNT_COVER && !entry_can_cover(entry)) {
                        if (!entry->optional)
                                return refuse_cover(entry, ret_error);
                        mount_table_remove(table, i);
                        continue;
                }
                r = entry_check(entry, ret_error);
                if (r != 0)
                        return r;
                entry->late = entry_is_late(entry);
                i++;
        }
        return 0;
}
