/* SPDX-License-Identifier: Apache-2.0 */

#include "plan/bind-roots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "plan/plan.h"

void bind_roots_done(BindRoots *roots) {
        free(roots->text);
        *roots = BIND_ROOTS_NULL;
}

/* Absolute, with neither an empty component nor "." nor "..": what openat2 takes as it is. */
static bool path_is_plain(const char *path) {
        if (path[0] != '/' || strlen(path) > PLAN_PATH_MAX)
                return false;
        if (!path[1])
                return true;
        while (*path == '/') {
                size_t n = strcspn(++path, "/");

                if (n == 0 || (n <= 2 && strncmp(path, "..", n) == 0))
                        return false;
                path += n;
        }
        return true;
}

/* One line, which ends with a NUL. Returns what is wrong with it, NULL if nothing is. */
static const char *take_line(const char *line, BindRoots *roots) {
        bool writable;

        if (!line[0] || line[0] == '#')
                return NULL;
        writable = strncmp(line, "rw ", 3) == 0;
        if (!writable && strncmp(line, "ro ", 3) != 0)
                return "it begins neither with \"ro \" nor with \"rw \"";
        if (!path_is_plain(line + 3))
                return "the path is not absolute, or not in its shortest form, or too long";
        if (roots->n_roots == BIND_ROOTS_MAX)
                return "there are too many lines";
        roots->roots[roots->n_roots++] = (BindRoot){.path = line + 3, .writable = writable};
        return NULL;
}

int bind_roots_parse(const char *text, size_t size, BindRoots *ret_roots, size_t *ret_line,
                     const char **ret_fault) {
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t n_line = 0;

        roots.text = malloc(size + 1);
        if (!roots.text)
                return error_origin(-ENOMEM);
        memcpy(roots.text, text, size);
        roots.text[size] = 0;

        for (char *line = roots.text, *end = roots.text + size; !fault && line < end;) {
                char *next = memchr(line, '\n', (size_t) (end - line)) ?: end;

                n_line++;
                *next = 0;
                fault = line + strlen(line) < next ? "it holds a NUL byte"
                                                   : take_line(line, &roots);
                line = next + 1;
        }
        if (fault) {
                *ret_line = n_line;
                *ret_fault = fault;
                return BIND_ROOTS_E_INVALID;
        }
        *ret_roots = roots;
        roots = BIND_ROOTS_NULL;
        return 0;
}

int bind_roots_read(const char *path, BindRoots *ret_roots, size_t *ret_line,
                    const char **ret_fault) {
        _cleanup_(fd_closep) int fd = -EBADF;
        _cleanup_(freep) char *text = NULL;
        struct stat st;
        ssize_t n;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        *ret_line = 0;
        if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH)) {
                *ret_fault = "it must be a file of root's that nobody else may write to";
                return BIND_ROOTS_E_INVALID;
        }
        text = malloc(BIND_ROOTS_FILE_MAX + 1);
        if (!text)
                return error_origin(-ENOMEM);
        n = read(fd, text, BIND_ROOTS_FILE_MAX + 1);
        if (n < 0)
                return error_origin(negative_errno());
        if (n > (ssize_t) BIND_ROOTS_FILE_MAX) {
                *ret_fault = "it is too long";
                return BIND_ROOTS_E_INVALID;
        }
        return bind_roots_parse(text, (size_t) n, ret_roots, ret_line, ret_fault);
}

/* What of path lies below root: "" for root itself, NULL if it is elsewhere. */
static const char *path_below(const char *root, const char *path) {
        size_t n = strlen(root);

        if (!root[1])
                return path + 1;
        if (strncmp(path, root, n) != 0)
                return NULL;
        return path[n] == '/' ? path + n + 1 : path[n] ? NULL : path + n;
}

const BindRoot *bind_roots_find(const BindRoots *roots, const char *path, bool writable,
                                const char **ret_rest) {
        if (!path_is_plain(path))
                return NULL;
        for (size_t i = 0; i < roots->n_roots; i++) {
                const BindRoot *root = &roots->roots[i];
                const char *rest = path_below(root->path, path);

                if (!rest || (writable && !root->writable))
                        continue;
                *ret_rest = rest;
                return root;
        }
        return NULL;
}
