/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/tree.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "basic/error.h"
#include "launcher/bind-open.h"
#include "launcher/mount-util.h"

/* The devices of a crate. Anything else under such a name (a link, another device) is refused. */
static const struct {
        const char *path;
        unsigned major, minor;
} devices[] = {
        {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
        {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};

static int do_bind(int root_fd, const BindRoots *roots, const PlanOp *op) {
        _cleanup_(fd_closep) int source_fd = -EBADF, mount_fd = -EBADF;
        uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        bool recursive = op->flags & PLAN_RECURSIVE;
        int r;

        if (op->flags & PLAN_RDONLY)
                attributes |= MOUNT_ATTR_RDONLY;
        if (op->flags & PLAN_NOEXEC)
                attributes |= MOUNT_ATTR_NOEXEC;

        source_fd = bind_open(roots, op->source, !(op->flags & PLAN_RDONLY));
        if (source_fd == -ENOENT && (op->flags & PLAN_OPTIONAL))
                return 0;
        if (source_fd < 0)
                return source_fd;
        mount_fd = mount_clone(source_fd, recursive);
        if (mount_fd < 0)
                return mount_fd;
        r = mount_set_attributes(mount_fd, recursive, attributes, -EBADF);
        if (r < 0)
                return r;
        return mount_attach_at(mount_fd, root_fd, op->path);
}

static int do_device(TreeRoot *root, const PlanOp *op) {
        _cleanup_(fd_closep) int source_fd = -EBADF, mount_fd = -EBADF;
        struct stat st;
        size_t i;
        int r;

        for (i = 0; i < ELEMENTSOF(devices); i++)
                if (strcmp(op->path, devices[i].path) == 0)
                        break;
        if (i == ELEMENTSOF(devices))
                return -EINVAL;

        source_fd = host_open(op->path);
        if (source_fd < 0)
                return source_fd;
        if (fstat(source_fd, &st) < 0)
                return negative_errno();
        if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(devices[i].major, devices[i].minor))
                return -ENODEV;

        mount_fd = mount_clone(source_fd, false);
        if (mount_fd < 0)
                return mount_fd;
        r = mount_set_attributes(mount_fd, false,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, -EBADF);
        if (r < 0)
                return r;
        r = tree_make_file(root, op->path, 0644, NULL, 0);
        if (r < 0)
                return r;
        return mount_attach_at(mount_fd, root->fd, op->path);
}

static int do_host_proc(int root_fd, const PlanOp *op) {
        const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        _cleanup_(fd_closep) int source_fd = -EBADF, mount_fd = -EBADF;
        int r;

        source_fd = host_open("/proc");
        if (source_fd < 0)
                return source_fd;
        /* Recursive: hosts mount things below /proc (binfmt_misc), and a locked child makes the
         * plain form EINVAL. */
        mount_fd = mount_clone(source_fd, true);
        if (mount_fd < 0)
                return mount_fd;
        /* Not read-only: a crate's own /proc must not be more permissive than this. */
        r = mount_set_attributes(mount_fd, true, attributes, -EBADF);
        if (r < 0)
                return r;
        return mount_attach_at(mount_fd, root_fd, op->path);
}

/* Shows what the tree has at cover at path as well. */
static int attach_cover(int root_fd, const char *cover, const char *path) {
        const uint64_t attributes =
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
        _cleanup_(fd_closep) int cover_fd = -EBADF, mount_fd = -EBADF;
        int r;

        cover_fd = tree_open(root_fd, cover);
        if (cover_fd < 0)
                return cover_fd;
        mount_fd = mount_clone(cover_fd, false);
        if (mount_fd < 0)
                return mount_fd;
        r = mount_set_attributes(mount_fd, false, attributes, -EBADF);
        return r < 0 ? r : mount_attach_at(mount_fd, root_fd, path);
}

int tree_hide(int root_fd, const PlanOp *op) {
        const char *cover = (op->flags & PLAN_DIRECTORY) ? PLAN_HIDDEN_DIR : PLAN_HIDDEN_FILE;
        int r = attach_cover(root_fd, cover, op->path);

        return r == -ENOENT && (op->flags & PLAN_OPTIONAL) ? 0 : r;
}

int tree_cover(int root_fd, const PlanOp *op) {
        return attach_cover(root_fd, op->source, op->path);
}

static int tree_apply(TreeRoot *root, const BindRoots *roots, const PlanOp *op) {
        switch (op->type) {
        case PLAN_OP_DIR:
                return tree_make_directory(root, op->path, op->mode);
        case PLAN_OP_FILE:
                return tree_make_file(root, op->path, op->mode, op->data, op->data_size);
        case PLAN_OP_SYMLINK:
                return tree_make_symlink(root, op->path, op->source);
        case PLAN_OP_BIND:
                return do_bind(root->fd, roots, op);
        case PLAN_OP_DEVICE:
                return do_device(root, op);
        case PLAN_OP_HOST_PROC:
                return do_host_proc(root->fd, op);
        case PLAN_OP_HIDE:
                return tree_hide(root->fd, op);
        default:
                return -EINVAL;
        }
}

/* A tmpfs for the skeleton of the tree, mounted over "/" where nothing but pivot_root() finds it.
 */
static int tree_open_root(ProtoFailure *ret_failure) {
        static const char *const options[] = {"mode",      "0755", "size", "4m",
                                              "nr_inodes", "8k",   NULL,   NULL};
        _cleanup_(fd_closep) int root_fd = -EBADF;

        root_fd = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        if (root_fd < 0)
                return failure_set(ret_failure, -root_fd, "tree-root", "tmpfs");
        if (move_mount(root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return failure_here(ret_failure, "tree-root", "/");
        return TAKE_FD(root_fd);
}

static int tree_pivot(int root_fd, ProtoFailure *ret_failure) {
        int r;

        r = mount_set_attributes(root_fd, false, MOUNT_ATTR_RDONLY, -EBADF);
        if (r < 0)
                return failure_set(ret_failure, -r, "tree-read-only", "/");
        if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
                return failure_here(ret_failure, "pivot_root", "/");
        /* The old root now lies on top of the new one. */
        if (umount2(".", MNT_DETACH) < 0)
                return failure_here(ret_failure, "umount-old-root", "/");
        if (chdir("/") < 0)
                return failure_here(ret_failure, "chdir", "/");
        return 0;
}

int tree_build(PlanReader *plan, const BindRoots *roots, ProtoFailure *ret_failure) {
        _cleanup_(tree_root_done) TreeRoot root;
        _cleanup_(fd_closep) int root_fd = -EBADF;
        PlanOp op;
        int r;

        tree_root_init(&root, -EBADF);
        root_fd = tree_open_root(ret_failure);
        if (root_fd < 0)
                return root_fd;
        root.fd = root_fd;

        while ((r = plan_reader_next(plan, &op)) == 0) {
                if (plan_op_stage(op.type) != PLAN_STAGE_TREE)
                        return failure_set(ret_failure, EINVAL, plan_op_type_to_string(op.type),
                                           op.path);
                r = tree_apply(&root, roots, &op);
                if (r == -EXDEV && op.type == PLAN_OP_BIND)
                        return failure_set(ret_failure, EPERM, "bind-roots", op.source);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.source[0] && op.type == PLAN_OP_BIND ? op.source
                                                                                   : op.path);
        }
        if (r != PLAN_E_END)
                return failure_set(ret_failure, EBADMSG, "plan", "");

        return tree_pivot(root_fd, ret_failure);
}
