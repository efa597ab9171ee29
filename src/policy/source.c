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
#include "policy/template.h"

#define FILE_SIZE_MAX ((size_t) 1 << 20)

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

/* Opens without waiting for the writer of a FIFO. */
static int source_open(const char *path, int flags, mode_t type, DiagList *diags, int *ret_fd) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
        if (fd < 0)
                return open_failed(path, errno, diags);
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());

        if ((st.st_mode & S_IFMT) != type)
                return fault(diags, path, "is no regular file");
        if (st.st_mode & S_IWOTH)
                return fault(diags, path,
                             "can be written by everybody, so it cannot be trusted: chmod o-w it");

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

int source_read(const char *file, DiagList *diags, char **ret_text, size_t *ret_size) {
        _cleanup_(fd_closep) int fd = -EBADF;
        _cleanup_(freep) char *text = NULL;
        struct stat st;
        size_t size, room;
        int r;

        r = source_open(file, 0, S_IFREG, diags, &fd);
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

/* The entry without ".json" if it can be a template's, else NULL: *ret_name is owned by the caller.
 */
static int template_entry(const char *entry, char **ret_name) {
        _cleanup_(freep) char *name = NULL;

        *ret_name = NULL;
        if (!ends_with(entry, ".json"))
                return 0;
        name = strndup(entry, strlen(entry) - strlen(".json"));
        if (!name)
                return error_origin(-ENOMEM);
        if (template_name_is_valid(name))
                *ret_name = TAKE_PTR(name);
        return 0;
}

static int add_entry(const char *folder, const char *entry, DiagList *diags, StrV *names) {
        _cleanup_(freep) char *name = NULL, *file = NULL;
        int r;

        if (is_leftover(entry))
                return 0;
        r = template_entry(entry, &name);
        if (r < 0)
                return error_trace(r);
        if (name)
                return error_trace(strv_append(names, name));

        if (asprintf(&file, "%s/%s", folder, entry) < 0) {
                file = NULL;
                return error_origin(-ENOMEM);
        }
        r = fault(diags, file,
                  "is no template's name: give NAME.json with 1 to 32 of a-z, 0-9 and -");
        return r < 0 ? error_trace(r) : 0;
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

int source_list_templates(const char *dir, DiagList *diags, StrV *names) {
        _cleanup_(strv_done) StrV entries = STRV_NULL;
        _cleanup_(freep) char *folder = NULL;
        int fd = -EBADF, r;
        DIR *d;

        if (asprintf(&folder, "%s/templates.d", dir) < 0) {
                folder = NULL;
                return error_origin(-ENOMEM);
        }
        r = source_open(folder, O_DIRECTORY, S_IFDIR, diags, &fd);
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
                r = add_entry(folder, entries.items[i], diags, names);
        return error_trace(r);
}
