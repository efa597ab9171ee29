/* SPDX-License-Identifier: Apache-2.0 */

#include "seccomp/load.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"

static int read_text(int dir_fd, const char *name, StrBuf *text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_origin(negative_errno());

        for (;;) {
                ssize_t n;

                r = strbuf_reserve(text, 4096);
                if (r < 0)
                        return error_trace(r);
                n = read(fd, text->data + text->size, 4096);
                if (n < 0)
                        return error_origin(negative_errno());
                if (n == 0)
                        return 0;
                text->size += (size_t) n;
                text->data[text->size] = 0;
        }
}

static int load_include(void *userdata, const char *name, char **ret_file, char **ret_text,
                        size_t *ret_size) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(freep) char *file = NULL;
        const int *dir_fd = userdata;
        size_t size;
        int r;

        if (strchr(name, '/'))
                return error_origin(-EINVAL);
        if (asprintf(&file, "%s.profile", name) < 0)
                return error_origin(-ENOMEM);
        r = read_text(*dir_fd, file, &text);
        if (r < 0)
                return error_trace(r);

        size = text.size;
        *ret_text = strbuf_steal(&text);
        if (!*ret_text)
                return error_origin(-ENOMEM);
        *ret_size = size;
        *ret_file = TAKE_PTR(file);
        return 0;
}

int seccomp_load(const char *path, DiagList *diags, SeccompSource **ret_source) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(fd_closep) int dir_fd = -EBADF;
        _cleanup_(freep) char *dir = NULL;
        const char *slash = strrchr(path, '/');
        const char *file = slash ? slash + 1 : path;
        int r;

        dir = slash ? strndup(path, (size_t) (slash + 1 - path)) : strdup(".");
        if (!dir)
                return error_origin(-ENOMEM);
        dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return error_origin(negative_errno());
        r = read_text(dir_fd, file, &text);
        if (r < 0)
                return error_trace(r);

        /* The outcomes are the same as this function's. */
        return seccomp_parse(file, text.data, text.size, load_include, &dir_fd, diags, ret_source);
}
