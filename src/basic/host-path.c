/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/host-path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/macros.h"
#include "basic/string-util.h"

#define invalid(ret_text, ...) outcome_text(HOST_PATH_E_INVALID, (ret_text), __VA_ARGS__)

static const char *open_remedy(int error) {
        switch (error) {
        case ENOENT:
                return "make it first, or give another path";
        case EACCES:
                return "give a path that you may read";
        case ELOOP:
                return "its links lead in a circle; give the file itself";
        case ENOTDIR:
                return "give a folder";
        case ENAMETOOLONG:
                return "give a shorter path";
        default:
                return "give another path";
        }
}

static int path_invalid(char **ret_text, const char *what, const char *path, int error) {
        _cleanup_(freep) char *quoted = diag_quote_path(path);

        return invalid(ret_text, "%s %s: %s (%s); %s", what, quoted ?: "", strerror(error),
                       strerrorname_np(error) ?: "?", open_remedy(error));
}

/* The path of what the fd stands for, as the kernel knows it, and only if that path still leads
 * there. */
static int fd_get_path(int fd, char **ret_path) {
        char link[40], path[PATH_MAX];
        struct stat by_fd, by_path;
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path));
        if (n < 0)
                return error_origin(negative_errno());
        if ((size_t) n >= sizeof(path))
                return error_origin(-ENAMETOOLONG);
        path[n] = 0;
        if (fstat(fd, &by_fd) < 0 || lstat(path, &by_path) < 0)
                return error_origin(negative_errno());
        if (by_fd.st_dev != by_path.st_dev || by_fd.st_ino != by_path.st_ino)
                return error_origin(-ENOENT);
        *ret_path = strdup(path);
        return *ret_path ? 0 : error_origin(-ENOMEM);
}

/* Joins the components of path to the folder base. *ret is left NULL where a ".." stands in the
 * path, for only the kernel knows where that leads. */
static int path_join(const char *base, const char *path, char **ret) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        int r = path[0] == '/' || string_equal(base, "/") ? 0 : strbuf_append_string(&buf, base);

        for (const char *part = path; r >= 0 && *part; part += strspn(part, "/")) {
                size_t size = strcspn(part, "/");

                if (size == 2 && memcmp(part, "..", 2) == 0)
                        return 0;
                if (size > 0 && !(size == 1 && part[0] == '.'))
                        r = strbuf_appendf(&buf, "/%.*s", (int) size, part);
                part += size;
        }
        if (r >= 0 && buf.size == 0)
                r = strbuf_append_byte(&buf, '/');
        if (r < 0)
                return error_trace(r);
        *ret = strbuf_steal(&buf);
        return *ret ? 0 : error_origin(-ENOMEM);
}

static int target_from_path(const char *path, const char *source, char **ret_target) {
        _cleanup_(freep) char *cwd = NULL, *target = NULL;
        int r;

        cwd = getcwd(NULL, 0);
        if (!cwd)
                return error_origin(negative_errno());
        r = path_join(cwd, path, &target);
        if (r < 0)
                return error_trace(r);
        if (!target)
                target = strdup(source);
        if (!target)
                return error_origin(-ENOMEM);
        *ret_target = TAKE_PTR(target);
        return 0;
}

/* A slash behind a link would follow it: it is looked at without. */
static int refuse_link(const char *what, const char *path, char **ret_text) {
        _cleanup_(freep) char *bare = NULL, *target = NULL, *quoted = NULL;
        size_t n = strlen(path);
        struct stat st;

        while (n > 1 && path[n - 1] == '/')
                n--;
        bare = strndup(path, n);
        if (!bare)
                return error_origin(-ENOMEM);
        if (lstat(bare, &st) < 0 || !S_ISLNK(st.st_mode))
                return 0;
        target = realpath(bare, NULL);
        if (!target)
                return path_invalid(ret_text, what, path, errno);
        quoted = diag_quote_path(path);
        return invalid(ret_text,
                       "%s %s: is a link, which a job may have put there; if you mean what it "
                       "leads to, give %s",
                       what, quoted ?: "", target);
}

int host_path_resolve(const char *what, const char *path, unsigned flags, size_t size_max,
                      char **ret_source, char **ret_target, char **ret_text) {
        _cleanup_(freep) char *source = NULL, *target = NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;
        size_t size;
        int r;

        if (flags & HOST_PATH_NO_LINK) {
                r = refuse_link(what, path, ret_text);
                if (r != 0)
                        return r;
        }
        fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
                return path_invalid(ret_text, what, path, errno);
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        if ((flags & HOST_PATH_FOLDER) && !S_ISDIR(st.st_mode))
                return path_invalid(ret_text, what, path, ENOTDIR);
        if (faccessat(fd, "", S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK,
                      AT_EMPTY_PATH | AT_EACCESS) < 0)
                return path_invalid(ret_text, what, path, errno);

        r = fd_get_path(fd, &source);
        if (r >= 0 && ret_target)
                r = target_from_path(path, source, &target);
        if (r < 0)
                return path_invalid(ret_text, what, path, -r);
        size = strlen(source);
        if (target && strlen(target) > size)
                size = strlen(target);
        if (size > size_max)
                return invalid(ret_text,
                               "%s: the path is %zu bytes long, the limit is %zu; give a shorter "
                               "one",
                               what, size, size_max);

        *ret_source = TAKE_PTR(source);
        if (ret_target)
                *ret_target = TAKE_PTR(target);
        return 0;
}

/* Whether it is a folder's name and something that was meant as a mode. */
static bool is_unknown_mode(const char *value, const char *mode) {
        _cleanup_(freep) char *folder = strndup(value, (size_t) (mode - value));
        struct stat st;

        return folder && lstat(value, &st) < 0 && stat(folder, &st) >= 0 && S_ISDIR(st.st_mode);
}

int host_path_parse_workspace(const char *value, char **ret_path, bool *ret_readonly,
                              char **ret_text) {
        const char *mode = strrchr(value, ':');
        bool readonly = mode && string_equal(mode, ":ro");
        char *path;

        if (mode && string_equal(mode, ":cow"))
                return invalid(ret_text, "--workspace: the mode cow is not built yet; use DIR, "
                                         "which is writable, or DIR:ro");
        if (readonly ? mode == value : string_empty(value))
                return invalid(ret_text, "--workspace has an empty path; give a folder");
        if (mode && !readonly && is_unknown_mode(value, mode)) {
                _cleanup_(freep) char *quoted = diag_quote_path(value);

                return invalid(ret_text,
                               "--workspace %s: only :ro may follow the folder, which is writable "
                               "without it",
                               quoted ?: "");
        }
        path = readonly ? strndup(value, (size_t) (mode - value)) : strdup(value);
        if (!path)
                return error_origin(-ENOMEM);
        *ret_path = path;
        *ret_readonly = readonly;
        return 0;
}
