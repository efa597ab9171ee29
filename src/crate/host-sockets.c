/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/host-sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

/* More than these in one folder is no workspace but a folder of sockets. */
#define SOCKETS_MAX 64U

/* Folders of programs and settings, in which no program has sockets. */
static bool entry_may_hold_sockets(const MountEntry *entry) {
        static const char *const quiet[] = {"/usr", "/etc", "/bin", "/sbin", "/lib"};

        if (!entry->source || !entry->directory)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(quiet); i++) {
                const char *rest = string_after(entry->source, quiet[i]);

                if (rest && (!*rest || *rest == '/'))
                        return false;
        }
        return true;
}

static int collect_targets(const MountTable *table, const char *host, StrV *targets) {
        struct stat st;
        int r;

        /* What we cannot look at, a job of the same user cannot reach; root looks at everything. */
        if (lstat(host, &st) < 0 || !S_ISSOCK(st.st_mode))
                return 0;
        for (size_t i = 0; i < table->n_entries; i++) {
                _cleanup_(freep) char *target = NULL;

                if (!entry_may_hold_sockets(&table->entries[i]))
                        continue;
                target = mount_entry_target(&table->entries[i], host);
                if (!target)
                        continue;
                r = strv_append(targets, target);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* The path is what follows the seventh column of /proc/net/unix; many sockets have none. */
static const char *line_path(char *line) {
        char *p = line;

        p[strcspn(p, "\n")] = 0;
        for (unsigned i = 0; i < 7; i++) {
                p += strspn(p, " ");
                p += strcspn(p, " ");
        }
        return *p == ' ' && p[1] == '/' ? p + 1 : NULL;
}

static bool table_may_hold_sockets(const MountTable *table) {
        for (size_t i = 0; i < table->n_entries; i++)
                if (entry_may_hold_sockets(&table->entries[i]))
                        return true;
        return false;
}

static int read_sockets(const MountTable *table, StrV *targets) {
        _cleanup_(freep) char *line = NULL;
        size_t size = 0;
        FILE *file;
        int r = 0;

        file = fopen("/proc/net/unix", "re");
        if (!file)
                return error_origin(negative_errno());
        while (r == 0 && getline(&line, &size, file) >= 0) {
                const char *path = line_path(line);

                if (path)
                        r = collect_targets(table, path, targets);
        }
        if (r == 0 && ferror(file))
                r = error_origin(-EIO);
        (void) fclose(file);
        return r;
}

static int hide_socket(MountTable *table, const char *target, CrateError *ret_error) {
        int r;

        r = mount_table_add_hidden(table, target, ret_error);
        return r != 0 ? r
                      : strv_appendf(&table->notes, "hidden: %s is a socket of a host program",
                                     target);
}

int host_sockets_hide(MountTable *table, CrateError *ret_error) {
        _cleanup_(strv_done) StrV targets = STRV_NULL;
        int r;

        if (!table_may_hold_sockets(table))
                return 0;
        r = read_sockets(table, &targets);
        if (r < 0)
                return error_trace(r);
        if (targets.n_items > SOCKETS_MAX) {
                (void) crate_error_set(ret_error, "mount", EINVAL, targets.items[0],
                                       "show a folder below it that has none",
                                       "a folder that is to be shown holds %zu sockets of host "
                                       "programs, through which a "
                                       "job could reach them (%s is one)",
                                       targets.n_items, targets.items[0]);
                return MOUNT_TABLE_E_INVALID;
        }
        for (size_t i = 0; i < targets.n_items; i++) {
                r = hide_socket(table, targets.items[i], ret_error);
                if (r != 0)
                        return r;
        }
        return 0;
}
