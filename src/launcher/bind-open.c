/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/bind-open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "launcher/mount-util.h"

static int open_below(int root_fd, const char *path) {
        struct open_how how = {
                .flags = O_PATH | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        long fd;

        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        return fd < 0 ? negative_errno() : (int) fd;
}

int bind_open(const BindRoots *roots, const char *path, bool writable) {
        _cleanup_(fd_closep) int root_fd = -EBADF;
        const BindRoot *root;
        const char *rest;

        if (!roots)
                return host_open(path);
        root = bind_roots_find(roots, path, writable, &rest);
        if (!root)
                return -EXDEV;
        root_fd = host_open(root->path);
        return root_fd < 0 || !*rest ? TAKE_FD(root_fd) : open_below(root_fd, rest);
}
