/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/build-root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "crate/egress-plan.h"

static const char *const merged_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const char passwd_text[] = "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                                  "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
                                  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group_text[] = "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n";
/* The host's name has a domain, without which git knows no address of an author. */
static const char hosts_text[] = "127.0.0.1 localhost\n127.0.1.1 crate.internal crate\n"
                                 "::1 localhost ip6-localhost ip6-loopback\n";
static const char nsswitch_text[] =
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
        "protocols: files\nservices: files\nethers: files\nrpc: files\n";
/* Of a name in hosts all addresses, not those of its first line. */
static const char host_conf_text[] = "multi on\n";
static const char hostname_text[] = "crate\n";
static const char shells_text[] = "/bin/sh\n/bin/bash\n";
/* No search list. Where a crate reaches nothing, nobody serves that address, and names that are not
 * in hosts fail at once. */
static const char resolv_text[] = "nameserver " EGRESS_STUB4 "\noptions timeout:3 attempts:1\n";

static int add_file(CratePlan *tree, const char *path, const char *text) {
        return plan_add(tree, &(PlanOp){.type = PLAN_OP_FILE,
                                        .path = path,
                                        .mode = 0644,
                                        .data = text,
                                        .data_size = strlen(text)});
}

static int add_symlink(CratePlan *tree, const char *path, const char *target) {
        return plan_add(tree, &(PlanOp){.type = PLAN_OP_SYMLINK, .path = path, .source = target});
}

/* A link at the top of the root. */
static int add_root_link(MountTable *table, CratePlan *tree, const char *path, const char *target) {
        int r;

        r = add_symlink(tree, path, target);
        return r < 0 ? error_trace(r) : mount_table_add_link(table, path, target);
}

static int add_directory(CratePlan *tree, const char *path, uint32_t mode) {
        return plan_add(tree, &(PlanOp){.type = PLAN_OP_DIR, .path = path, .mode = mode});
}

int build_skeleton(CratePlan *tree) {
        static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                              "/dev/random", "/dev/urandom", "/dev/tty"};
        static const struct {
                const char *path, *target;
        } links[] = {
                {"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
                {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
                {"/dev/ptmx", "pts/ptmx"},
        };
        int r;

        r = add_directory(tree, "/proc", 0755);
        if (r == 0)
                r = add_directory(tree, "/dev/pts", 0755);
        if (r == 0)
                r = add_directory(tree, "/dev/mqueue", 0755);
        if (r == 0)
                r = add_directory(tree, PLAN_HIDDEN_DIR, 0);
        if (r == 0)
                r = plan_add(tree, &(PlanOp){.type = PLAN_OP_FILE, .path = PLAN_HIDDEN_FILE});
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(devices); i++)
                r = plan_add(tree, &(PlanOp){.type = PLAN_OP_DEVICE, .path = devices[i]});
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(links); i++)
                r = add_symlink(tree, links[i].path, links[i].target);
        if (r == 0)
                r = plan_add(tree, &(PlanOp){.type = PLAN_OP_HOST_PROC, .path = "/proc"});
        return r < 0 ? error_trace(r) : 0;
}

int build_etc(const Template *template, CratePlan *tree) {
        static const struct {
                const char *path, *text;
        } files[] = {
                {"/etc/passwd", passwd_text},
                {"/etc/group", group_text},
                {"/etc/hosts", hosts_text},
                {"/etc/host.conf", host_conf_text},
                {"/etc/nsswitch.conf", nsswitch_text},
                {"/etc/hostname", hostname_text},
                {"/etc/shells", shells_text},
                {"/etc/resolv.conf", resolv_text},
        };
        int r = 0;

        if (!template->etc_minimal)
                return 0;
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(files); i++)
                r = add_file(tree, files[i].path, files[i].text);
        if (r == 0)
                r = add_symlink(tree, "/etc/os-release", "../usr/lib/os-release");
        if (r == 0)
                r = add_symlink(tree, "/etc/mtab", "../proc/self/mounts");
        return r < 0 ? error_trace(r) : 0;
}

/* Whether anything but what build_etc() made can be at /etc. */
static bool etc_is_foreign(const Template *template, const MountTable *table) {
        return !template->etc_minimal || mount_table_has(table, "/etc");
}

int build_covers(const Template *template, const MountTable *table, CratePlan *tree) {
        int r;

        if (!etc_is_foreign(template, table))
                return 0;
        r = add_file(tree, PLAN_RESOLV_FILE, resolv_text);
        return r < 0 ? error_trace(r) : add_file(tree, PLAN_NSSWITCH_FILE, nsswitch_text);
}

/* Without an nsswitch.conf names are looked up as ours says. */
int build_cover_mounts(const Template *template, MountTable *table, CrateError *ret_error) {
        int r;

        if (!etc_is_foreign(template, table) && !mount_table_has(table, "/etc/resolv.conf"))
                return 0;
        r = mount_table_add_cover(table, "/etc/resolv.conf", PLAN_RESOLV_FILE, true, ret_error);
        return r != 0 ? r
                      : mount_table_add_cover(table, "/etc/nsswitch.conf", PLAN_NSSWITCH_FILE,
                                              false, ret_error);
}

/* bin, lib and so on: as the host has them, a link into /usr or a folder of their own. */
static int build_host_root(MountTable *table, CratePlan *tree, CrateError *ret_error) {
        int r;

        for (size_t i = 0; i < ELEMENTSOF(merged_links); i++) {
                char path[16], target[PATH_MAX];
                ssize_t n;

                (void) snprintf(path, sizeof(path), "/%s", merged_links[i]);
                n = readlink(path, target, sizeof(target) - 1);
                if (n > 0) {
                        target[n] = 0;
                        r = add_root_link(table, tree, path, target);
                } else if (access(path, F_OK) == 0)
                        r = mount_table_add(table, MOUNT_RO, path, path, 0, false, ret_error);
                else
                        r = 0;
                if (r != 0)
                        return r < 0 ? error_trace(r) : BUILD_ROOT_E_INVALID;
        }
        return 0;
}

static int refuse_entry(const Template *template, const char *path, CrateError *ret_error) {
        (void) crate_error_set(ret_error, "root", ELOOP, template->root,
                               "make it a plain folder or take it away",
                               "the root %s of template %s cannot be used: its %s is not what "
                               "every crate has there (a link "
                               "or no folder)",
                               template->root, template->name, path);
        return BUILD_ROOT_E_INVALID;
}

/* What every crate mounts for itself must not be a trap: a link there would lead the mount
 * elsewhere. */
static int check_managed(const Template *template, int root_fd, const char *name,
                         CrateError *ret_error) {
        static const char *const devices[] = {"dev/null",    "dev/zero", "dev/full", "dev/random",
                                              "dev/urandom", "dev/tty",  "dev/pts",  "dev/shm"};
        struct stat st;

        if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
                return refuse_entry(template, name, ret_error);
        if (!string_equal(name, "dev"))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(devices); i++)
                if (fstatat(root_fd, devices[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISLNK(st.st_mode))
                        return refuse_entry(template, devices[i], ret_error);
        return 0;
}

static int build_root_entry(const Template *template, int root_fd, const char *name,
                            MountTable *table, CratePlan *tree, CrateError *ret_error) {
        _cleanup_(freep) char *path = NULL, *source = NULL;
        char target[PATH_MAX];
        struct stat st;
        ssize_t n;

        if (asprintf(&path, "/%s", name) < 0 ||
            asprintf(&source, "%s/%s", template->root, name) < 0)
                return error_origin(-ENOMEM);
        if (mount_path_is_managed(path) && !(string_equal(path, "/etc") && !template->etc_minimal))
                return string_equal(path, "/etc")
                               ? 0
                               : check_managed(template, root_fd, name, ret_error);
        if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;

        if (S_ISLNK(st.st_mode)) {
                n = readlinkat(root_fd, name, target, sizeof(target) - 1);
                if (n <= 0)
                        return error_origin(negative_errno());
                target[n] = 0;
                if ((size_t) n > PLAN_PATH_MAX)
                        return strv_appendf(&table->notes,
                                            "skipped: %s is a link to a path that is too long",
                                            source);
                return add_root_link(table, tree, path, target);
        }
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return strv_appendf(&table->notes,
                                    "skipped: %s is neither a folder nor a regular file", source);
        return mount_table_add(table, MOUNT_RO, path, source, 0, false, ret_error);
}

static int entry_is_named(const struct dirent *entry) {
        return !string_equal(entry->d_name, ".") && !string_equal(entry->d_name, "..");
}

/* By bytes: the plan, and with it its digest, is the same whatever the order on disk or the locale.
 */
static int compare_names(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int build_folder_root(const Template *template, MountTable *table, CratePlan *tree,
                             CrateError *ret_error) {
        _cleanup_(fd_closep) int root_fd = -EBADF;
        struct dirent **entries = NULL;
        int n, r = 0;

        root_fd = open(template->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        n = root_fd < 0 ? -1 : scandirat(root_fd, ".", &entries, entry_is_named, compare_names);
        if (n < 0) {
                (void) crate_error_set(ret_error, "root", errno, template->root,
                                       "make the folder or change the template",
                                       "the root %s of template %s cannot be opened: %s",
                                       template->root, template->name, strerror(errno));
                return BUILD_ROOT_E_INVALID;
        }
        for (int i = 0; i < n; i++) {
                if (r == 0)
                        r = build_root_entry(template, root_fd, entries[i]->d_name, table, tree,
                                             ret_error);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int build_root(const Template *template, MountTable *table, CratePlan *tree,
               CrateError *ret_error) {
        return template->root ? build_folder_root(template, table, tree, ret_error)
                              : build_host_root(table, tree, ret_error);
}
