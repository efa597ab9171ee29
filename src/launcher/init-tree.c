/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/init-tree.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "launcher/mount-util.h"

typedef struct InitTree {
        int root_fd;
        int private_fd; /* the private tmpfs */
} InitTree;

#define MOUNT_ATTR_PRIVATE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int attach_new(int root_fd, const char *path, const char *type, const char *const *options,
                      uint64_t attributes) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;

        mount_fd = mount_new(type, options, attributes);
        if (mount_fd < 0)
                return mount_fd;
        return mount_attach_at(mount_fd, root_fd, path);
}

static int do_hostname(const PlanOp *op) {
        return sethostname(op->source, strlen(op->source)) < 0 ? negative_errno() : 0;
}

/*
 * The namespace's own value, written through the whole /proc of the template's tree before the
 * crate's read-only one covers it. With it at 0 no hole in the filter can bring user namespaces
 * back.
 */
static int do_userns_max(const PlanOp *op) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char text[24];
        int n;

        fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        n = snprintf(text, sizeof(text), "%" PRIu64, op->a);
        return write(fd, text, (size_t) n) == n ? 0 : negative_errno();
}

static int do_proc(int root_fd, const PlanOp *op) {
        static const char *const all[] = {"hidepid", "invisible", NULL, NULL};
        static const char *const pids[] = {"hidepid", "invisible", "subset", "pid", NULL, NULL};

        return attach_new(root_fd, op->path, "proc", (op->flags & PLAN_SUBSET_PID) ? pids : all,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* Covers an entry of /proc by /dev/null or by an empty directory. */
static int do_proc_mask(int root_fd, const PlanOp *op) {
        _cleanup_(fd_closep) int target_fd = -EBADF, cover_fd = -EBADF, mount_fd = -EBADF;
        int r;

        target_fd = tree_open(root_fd, op->path);
        if (target_fd == -ENOENT)
                return 0;
        if (target_fd < 0)
                return target_fd;
        cover_fd = tree_open(root_fd, (op->flags & PLAN_DIRECTORY) ? PLAN_HIDDEN_DIR : "/dev/null");
        if (cover_fd < 0)
                return cover_fd;
        mount_fd = mount_clone(cover_fd, false);
        if (mount_fd < 0)
                return mount_fd;
        r = mount_set_attributes(mount_fd, false,
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -EBADF);
        if (r < 0)
                return r;
        return mount_attach(mount_fd, target_fd);
}

static int do_proc_rdonly(int root_fd, const PlanOp *op) {
        _cleanup_(fd_closep) int target_fd = -EBADF, mount_fd = -EBADF;
        int r;

        target_fd = tree_open(root_fd, op->path);
        if (target_fd == -ENOENT)
                return 0;
        if (target_fd < 0)
                return target_fd;
        mount_fd = mount_clone(target_fd, true);
        if (mount_fd < 0)
                return mount_fd;
        r = mount_set_attributes(mount_fd, true,
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                         MOUNT_ATTR_NOEXEC,
                                 -EBADF);
        if (r < 0)
                return r;
        return mount_attach(mount_fd, target_fd);
}

/* The tmpfs has to be attached before parts of it can be bound; the private place at the same path
 * then covers it for good. */
static int do_tmpfs(InitTree *tree, const PlanOp *op) {
        char bytes[24], inodes[24];
        const char *options[] = {"mode", "0755", "size", bytes, "nr_inodes", inodes, NULL, NULL};
        int fd, r;

        (void) snprintf(bytes, sizeof(bytes), "%" PRIu64, op->a);
        (void) snprintf(inodes, sizeof(inodes), "%" PRIu64, op->b);
        fd = mount_new("tmpfs", options, MOUNT_ATTR_PRIVATE);
        if (fd < 0)
                return fd;
        r = mount_attach_at(fd, tree->root_fd, op->path);
        if (r < 0) {
                (void) fd_close(fd);
                return r;
        }
        tree->private_fd = fd;
        return 0;
}

static int do_private(int root_fd, int private_fd, const PlanOp *op) {
        _cleanup_(fd_closep) int directory_fd = -EBADF, mount_fd = -EBADF;
        char name[24];
        int r;

        (void) snprintf(name, sizeof(name), "%" PRIu64, op->a);
        if (mkdirat(private_fd, name, op->mode) < 0)
                return negative_errno();
        directory_fd = openat(private_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (directory_fd < 0)
                return negative_errno();
        mount_fd = mount_clone(directory_fd, false);
        if (mount_fd < 0)
                return mount_fd;
        if (op->flags & PLAN_NOEXEC) {
                r = mount_set_attributes(mount_fd, false, MOUNT_ATTR_NOEXEC, -EBADF);
                if (r < 0)
                        return r;
        }
        return mount_attach_at(mount_fd, root_fd, op->path);
}

static int do_mountpoint(int root_fd, const PlanOp *op) {
        if (op->flags & PLAN_DIRECTORY)
                return tree_make_directory(root_fd, op->path, 0755);
        return tree_make_file(root_fd, op->path, 0644, NULL, 0);
}

static int do_devpts(int root_fd, const PlanOp *op) {
        /* No gid=: the tty group is not mapped here, and an unmapped one is refused. */
        static const char *const options[] = {"newinstance", NULL,   "ptmxmode", "0666",
                                              "mode",        "0620", NULL,       NULL};

        return attach_new(root_fd, op->path, "devpts", options,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

static int do_mqueue(int root_fd, const PlanOp *op) {
        static const char *const options[] = {NULL, NULL};

        return attach_new(root_fd, op->path, "mqueue", options,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int init_apply(InitTree *tree, const PlanOp *op) {
        switch (op->type) {
        case PLAN_OP_HOSTNAME:
                return do_hostname(op);
        case PLAN_OP_USERNS_MAX:
                return do_userns_max(op);
        case PLAN_OP_PROC:
                return do_proc(tree->root_fd, op);
        case PLAN_OP_PROC_MASK:
                return do_proc_mask(tree->root_fd, op);
        case PLAN_OP_PROC_RDONLY:
                return do_proc_rdonly(tree->root_fd, op);
        case PLAN_OP_TMPFS:
                return tree->private_fd < 0 ? do_tmpfs(tree, op) : -EEXIST;
        case PLAN_OP_PRIVATE:
                return do_private(tree->root_fd, tree->private_fd, op);
        case PLAN_OP_MOUNTPOINT:
                return do_mountpoint(tree->root_fd, op);
        case PLAN_OP_DEVPTS:
                return do_devpts(tree->root_fd, op);
        case PLAN_OP_MQUEUE:
                return do_mqueue(tree->root_fd, op);
        default:
                return 0; /* late stage, or of the seal */
        }
}

int init_tree(const PlanReader *plan, int *ret_private_fd, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int root_fd = -EBADF;
        InitTree tree = {.private_fd = -EBADF};
        PlanReader reader = *plan;
        PlanOp op;
        int r;

        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return failure_here(ret_failure, "open-root", "/");
        tree.root_fd = root_fd;

        while (plan_reader_next(&reader, &op) == 0) {
                r = init_apply(&tree, &op);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.path);
        }

        *ret_private_fd = tree.private_fd;
        return 0;
}

int init_late(const PlanReader *plan, int private_fd, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int root_fd = -EBADF;
        PlanReader reader = *plan;
        PlanOp op;
        int r;

        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return failure_here(ret_failure, "open-root", "/");

        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type != PLAN_OP_LATE_PRIVATE)
                        continue;
                r = do_private(root_fd, private_fd, &op);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.path);
        }
        return 0;
}
