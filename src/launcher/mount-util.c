/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/mount-util.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "plan/plan.h"

static int open_how(int directory_fd, const char *path, uint64_t flags, uint64_t resolve) {
        struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
        long fd;

        fd = syscall(SYS_openat2, directory_fd, path, &how, sizeof(how));
        return fd < 0 ? negative_errno() : (int) fd;
}

int host_open(const char *path) {
        return open_how(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int tree_open(int root_fd, const char *path) {
        return open_how(root_fd, path, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Splits off the last component. The parent's path goes to buffer; "/" has no last component. */
static const char *path_split(const char *path, char *buffer, size_t size) {
        const char *slash = strrchr(path, '/');
        size_t n;

        if (!slash || !slash[1])
                return NULL;
        n = (size_t) (slash - path);
        if (n >= size)
                return NULL;
        memcpy(buffer, path, n);
        buffer[n] = 0;
        if (n == 0)
                memcpy(buffer, "/", 2);
        return slash + 1;
}

void tree_root_init(TreeRoot *root, int fd) {
        root->fd = fd;
        root->parent_fd = -EBADF;
}

void tree_root_done(TreeRoot *root) {
        root->parent_fd = fd_close(root->parent_fd);
}

/* Opens the parent of path, making what is missing of it. The fd is the root's. */
static int tree_open_parent(TreeRoot *root, const char *path, const char **ret_name) {
        _uninitialized_ char parent[PLAN_PATH_MAX + 1];
        const char *name;
        int fd, r;

        name = path_split(path, parent, sizeof(parent));
        if (!name)
                return -EINVAL;
        *ret_name = name;
        if (root->parent_fd >= 0 && strcmp(parent, root->parent) == 0)
                return root->parent_fd;

        fd = tree_open(root->fd, parent);
        if (fd == -ENOENT) {
                r = tree_make_directory(root, parent, 0755);
                if (r < 0)
                        return r;
                fd = tree_open(root->fd, parent);
        }
        if (fd < 0)
                return fd;
        (void) fd_close(root->parent_fd);
        root->parent_fd = fd;
        (void) stpcpy(root->parent, parent);
        return fd;
}

/* Something is there already: fine if it is, behind links of the tree, what was asked for. */
static int tree_check(const TreeRoot *root, const char *path, bool directory) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;

        fd = tree_open(root->fd, path);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return negative_errno();
        if (S_ISDIR(st.st_mode) == directory)
                return 0;
        return directory ? -ENOTDIR : -EISDIR;
}

int tree_make_directory(TreeRoot *root, const char *path, uint32_t mode) {
        const char *name;
        int parent_fd;

        if (!path[1])
                return 0;
        parent_fd = tree_open_parent(root, path, &name);
        if (parent_fd < 0)
                return parent_fd;
        /* The mode of mkdir is subject to the umask, which the launcher clears at its start. */
        if (mkdirat(parent_fd, name, mode) >= 0)
                return 0;
        /* In a read-only place of the host's the kernel may say so before it says that the name
         * exists. */
        return errno == EEXIST || errno == EROFS ? tree_check(root, path, true) : negative_errno();
}

int tree_make_file(TreeRoot *root, const char *path, uint32_t mode, const void *data, size_t size) {
        _cleanup_(fd_closep) int fd = -EBADF;
        const char *name;
        int parent_fd;

        parent_fd = tree_open_parent(root, path, &name);
        if (parent_fd < 0)
                return parent_fd;
        fd = openat(parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return errno == EEXIST || errno == EROFS ? tree_check(root, path, false)
                                                         : negative_errno();
        if (size > 0 && write(fd, data, size) != (ssize_t) size)
                return negative_errno();
        return 0;
}

int tree_make_symlink(TreeRoot *root, const char *path, const char *target) {
        const char *name;
        int parent_fd;

        parent_fd = tree_open_parent(root, path, &name);
        if (parent_fd < 0)
                return parent_fd;
        return symlinkat(target, parent_fd, name) < 0 ? negative_errno() : 0;
}

int mount_clone(int fd, bool recursive) {
        int r;

        r = open_tree(fd, "",
                      AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                              (recursive ? AT_RECURSIVE : 0U));
        return r < 0 ? negative_errno() : r;
}

int mount_set_attributes(int mount_fd, bool recursive, uint64_t attributes, int userns_fd) {
        struct mount_attr attr = {.attr_set = attributes};

        if (userns_fd >= 0) {
                attr.attr_set |= MOUNT_ATTR_IDMAP;
                attr.userns_fd = (uint64_t) userns_fd;
        }
        if (mount_setattr(mount_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U), &attr,
                          sizeof(attr)) < 0)
                return negative_errno();
        return 0;
}

int mount_attach(int mount_fd, int target_fd) {
        if (move_mount(mount_fd, "", target_fd, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return negative_errno();
        return 0;
}

int mount_attach_here(int mount_fd, const char *path) {
        return move_mount(mount_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0
                       ? negative_errno()
                       : 0;
}

int mount_clone_here(int directory_fd, const char *path) {
        int fd;

        fd = open_tree(directory_fd, path,
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        return fd < 0 ? negative_errno() : fd;
}

int mount_attach_at(int mount_fd, int root_fd, const char *path) {
        _cleanup_(fd_closep) int target_fd = -EBADF;

        target_fd = tree_open(root_fd, path);
        if (target_fd < 0)
                return target_fd;
        return mount_attach(mount_fd, target_fd);
}

int mount_new(const char *type, const char *const *options, uint64_t attributes) {
        _cleanup_(fd_closep) int fs_fd = -EBADF;
        int fd;

        fs_fd = fsopen(type, FSOPEN_CLOEXEC);
        if (fs_fd < 0)
                return negative_errno();
        for (; *options; options += 2)
                if (fsconfig(fs_fd, options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                             options[0], options[1], 0) < 0)
                        return negative_errno();
        if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return negative_errno();

        fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, (unsigned) attributes);
        return fd < 0 ? negative_errno() : fd;
}
