/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"

#define FILE_SIZE_MAX ((size_t) 1 << 20)
#define NAME_SIZE_MAX 32U

const SourceFolder source_templates = {"templates.d", "template"};
const SourceFolder source_tenants = {"tenants.d", "tenant"};
const SourceFolder source_credentials = {"credentials.d", "credential"};

bool source_name_is_valid(const char *name) {
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return n > 0 && n <= NAME_SIZE_MAX && name[n] == 0;
}

static int fault(DiagList *diags, const char *file, const char *text) {
        int r = diag_add(diags, file, 0, 0, NULL, "%s", text);

        return r < 0 ? error_trace(r) : SOURCE_E_INVALID;
}

/* Out of memory and out of files are failures of this process; all else is the file's fault. */
static int fault_errno(DiagList *diags, const char *file, int error) {
        int r;

        if (error == ENOMEM || error == EMFILE || error == ENFILE)
                return error_origin(-error);
        r = diag_add(diags, file, 0, 0, NULL, "cannot be read: %s",
                     strerrordesc_np(error) ?: "unknown error");
        return r < 0 ? error_trace(r) : SOURCE_E_INVALID;
}

/* A link to nothing is not the same as no file: its owner meant something to be there. */
static int open_failed(const char *path, int error, DiagList *diags) {
        struct stat st;

        if (error != ENOENT)
                return fault_errno(diags, path, error);
        if (lstat(path, &st) < 0)
                return SOURCE_E_MISSING;
        return fault(diags, path, "is a link to nothing");
}

static int check_trust(const char *path, const struct stat *st, SourceTrust trust,
                       DiagList *diags) {
        int r;

        if (st->st_mode & S_IWOTH)
                return fault(diags, path,
                             "can be written by everybody, so it cannot be trusted: chmod o-w it");
        if (trust == SOURCE_TRUST_USER)
                return 0;
        if (st->st_uid != 0)
                r = diag_add(diags, path, 0, 0, NULL,
                             "belongs to user %u, and a system instance trusts root's files only: "
                             "chown root it",
                             (unsigned) st->st_uid);
        else if (st->st_mode & S_IWGRP && st->st_gid != 0)
                r = diag_add(diags, path, 0, 0, NULL,
                             "can be written by group %u, and a system instance trusts root's "
                             "files only: chmod g-w it",
                             (unsigned) st->st_gid);
        else
                return 0;
        return r < 0 ? error_trace(r) : SOURCE_E_INVALID;
}

/* Opens without waiting for the writer of a FIFO. */
static int source_open(const char *path, int flags, mode_t type, SourceTrust trust, DiagList *diags,
                       int *ret_fd) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;
        int r;

        if (trust == SOURCE_TRUST_ROOT)
                flags |= O_NOFOLLOW;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
        /* O_DIRECTORY is asked first: what is no folder may be a link to one. */
        if (fd < 0 && flags & O_NOFOLLOW && (errno == ELOOP || errno == ENOTDIR) &&
            lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
                return fault(diags, path,
                             "is a symbolic link, which a system instance does not follow: put "
                             "what it names in its place");
        if (fd < 0)
                return open_failed(path, errno, diags);
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());

        if ((st.st_mode & S_IFMT) != type)
                return fault(diags, path, "is no regular file");
        r = check_trust(path, &st, trust, diags);
        if (r != 0)
                return r;

        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Up to size_max bytes; *ret_size tells how many there were. */
static int read_all(int fd, char *text, size_t size_max, size_t *ret_size) {
        size_t size = 0;

        while (size < size_max) {
                ssize_t n = read(fd, text + size, size_max - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return negative_errno();
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        *ret_size = size;
        return 0;
}

int source_read(const char *file, SourceTrust trust, DiagList *diags, char **ret_text,
                size_t *ret_size) {
        _cleanup_(fd_closep) int fd = -EBADF;
        _cleanup_(freep) char *text = NULL;
        struct stat st;
        size_t size, room;
        int r;

        r = source_open(file, 0, S_IFREG, trust, diags, &fd);
        if (r != 0)
                return r;
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        if ((uint64_t) st.st_size > FILE_SIZE_MAX)
                return fault(diags, file, "is larger than 1 MiB");

        /* One byte more than it has, to see the end, or that it has grown meanwhile. */
        room = (size_t) st.st_size + 1;
        text = malloc(room);
        if (!text)
                return error_origin(-ENOMEM);
        r = read_all(fd, text, room, &size);
        if (r < 0)
                return fault_errno(diags, file, -r);
        if (size == room)
                return fault(diags, file, "was changed while it was read");

        text[size] = 0;
        *ret_text = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}

/* --- folders --- */

static bool ends_with(const char *s, const char *end) {
        size_t n = strlen(s), m = strlen(end);

        return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_leftover(const char *name) {
        static const char *const ends[] = {
                "~",        ".dpkg-new", ".dpkg-old", ".dpkg-dist", ".dpkg-tmp", ".ucf-dist",
                ".ucf-new", ".ucf-old",  ".rpmnew",   ".rpmsave",   ".rpmorig",
        };

        if (name[0] == '.')
                return true;
        for (size_t i = 0; i < ELEMENTSOF(ends); i++)
                if (ends_with(name, ends[i]))
                        return true;
        return false;
}

/* The entry without ".json" if it can be a file's of such a folder, else NULL: *ret_name is owned
 * by the caller. */
static int entry_name(const char *entry, char **ret_name) {
        _cleanup_(freep) char *name = NULL;

        *ret_name = NULL;
        if (!ends_with(entry, ".json"))
                return 0;
        name = strndup(entry, strlen(entry) - strlen(".json"));
        if (!name)
                return error_origin(-ENOMEM);
        if (source_name_is_valid(name))
                *ret_name = TAKE_PTR(name);
        return 0;
}

static int add_entry(const char *path, const SourceFolder *folder, const char *entry,
                     DiagList *diags, StrV *names) {
        _cleanup_(freep) char *name = NULL, *file = NULL;
        int r;

        if (is_leftover(entry))
                return 0;
        r = entry_name(entry, &name);
        if (r < 0)
                return error_trace(r);
        if (name)
                return error_trace(strv_append(names, name));

        if (asprintf(&file, "%s/%s", path, entry) < 0) {
                file = NULL;
                return error_origin(-ENOMEM);
        }
        return error_trace(diag_add(
                diags, file, 0, 0, NULL,
                "is no %s's name: give NAME.json with 1 to 32 of a-z, 0-9 and -", folder->kind));
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* All names first, then sorted: faults shall not come in the order of the disk. */
static int read_entries(DIR *d, StrV *entries) {
        const struct dirent *e;
        int r;

        for (errno = 0; (e = readdir(d)); errno = 0) {
                r = strv_append(entries, e->d_name);
                if (r < 0)
                        return error_trace(r);
        }
        if (errno > 0)
                return error_origin(negative_errno());
        if (entries->n_items > 0)
                qsort(entries->items, entries->n_items, sizeof(char *), compare_names);
        return 0;
}

int source_list(const char *dir, const SourceFolder *folder, SourceTrust trust, DiagList *diags,
                StrV *names) {
        _cleanup_(strv_done) StrV entries = STRV_NULL;
        _cleanup_(freep) char *path = NULL;
        int fd = -EBADF, r;
        DIR *d;

        if (asprintf(&path, "%s/%s", dir, folder->name) < 0) {
                path = NULL;
                return error_origin(-ENOMEM);
        }
        r = source_open(path, O_DIRECTORY, S_IFDIR, trust, diags, &fd);
        if (r != 0)
                return r;
        d = fdopendir(fd);
        if (!d) {
                r = negative_errno();
                (void) fd_close(fd);
                return error_origin(r);
        }

        r = read_entries(d, &entries);
        (void) closedir(d);
        for (size_t i = 0; i < entries.n_items && r == 0; i++)
                r = add_entry(path, folder, entries.items[i], diags, names);
        return error_trace(r);
}
