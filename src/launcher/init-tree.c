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

#define MOUNT_ATTR_PRIVATE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int attach_new(const char *path, const char *type, const char *const *options,
                      uint64_t attributes) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;

        mount_fd = mount_new(type, options, attributes);
        return mount_fd < 0 ? mount_fd : mount_attach_here(mount_fd, path);
}

static int do_hostname(const PlanOp *op) {
        return sethostname(op->source, strlen(op->source)) < 0 ? negative_errno() : 0;
}

/* The namespace's own value, written through the whole /proc of the template's tree before the
 * crate's read-only one covers it. */
static int write_user_max(const char *path, uint64_t max) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char text[24];
        int n;

        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        n = snprintf(text, sizeof(text), "%" PRIu64, max);
        return write(fd, text, (size_t) n) == n ? 0 : negative_errno();
}

/* At 0 no hole in the filter can bring user namespaces back. */
static int do_userns_max(const PlanOp *op) {
        return write_user_max("/proc/sys/user/max_user_namespaces", op->a);
}

/* What a crate takes of these is taken from whoever made it as well: no job may have them all. */
static int do_inotify_max(const PlanOp *op) {
        int r;

        r = write_user_max("/proc/sys/user/max_inotify_instances", op->a);
        if (r == -ENOENT)
                return 0; /* a kernel without inotify */
        return r < 0 ? r : write_user_max("/proc/sys/user/max_inotify_watches", op->b);
}

static int do_proc(const PlanOp *op) {
        static const char *const all[] = {"hidepid", "invisible", NULL, NULL};
        static const char *const pids[] = {"hidepid", "invisible", "subset", "pid", NULL, NULL};

        return attach_new(op->path, "proc", (op->flags & PLAN_SUBSET_PID) ? pids : all,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/*
 * Covers an entry of /proc by the template's /dev/null or empty folder. The copies are read-only as
 * those are. An entry that this kernel does not have needs no cover.
 */
static int do_proc_mask(const PlanOp *op) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;
        int r;

        mount_fd = mount_clone_here(AT_FDCWD,
                                    (op->flags & PLAN_DIRECTORY) ? PLAN_HIDDEN_DIR : "/dev/null");
        if (mount_fd < 0)
                return mount_fd;
        r = mount_attach_here(mount_fd, op->path);
        return r == -ENOENT ? 0 : r;
}

static int do_proc_rdonly(const PlanOp *op) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;
        int r;

        mount_fd = mount_clone_here(AT_FDCWD, op->path);
        if (mount_fd < 0)
                return mount_fd == -ENOENT ? 0 : mount_fd;
        r = mount_set_attributes(mount_fd, false,
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                         MOUNT_ATTR_NOEXEC,
                                 -EBADF);
        return r < 0 ? r : mount_attach_here(mount_fd, op->path);
}

/* The tmpfs has to be attached before parts of it can be bound; the private place at the same path
 * then covers it for good. */
static int do_tmpfs(const PlanOp *op, int *private_fd) {
        char bytes[24], inodes[24];
        const char *options[] = {"mode", "0755", "size", bytes, "nr_inodes", inodes, NULL, NULL};
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        if (*private_fd >= 0)
                return -EEXIST;
        (void) snprintf(bytes, sizeof(bytes), "%" PRIu64, op->a);
        (void) snprintf(inodes, sizeof(inodes), "%" PRIu64, op->b);
        fd = mount_new("tmpfs", options, MOUNT_ATTR_PRIVATE);
        if (fd < 0)
                return fd;
        r = mount_attach_here(fd, op->path);
        if (r < 0)
                return r;
        *private_fd = TAKE_FD(fd);
        return 0;
}

static int do_private(const PlanOp *op, int private_fd) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;
        char name[24];
        int r;

        (void) snprintf(name, sizeof(name), "%" PRIu64, op->a);
        if (mkdirat(private_fd, name, op->mode) < 0)
                return negative_errno();
        mount_fd = mount_clone_here(private_fd, name);
        if (mount_fd < 0)
                return mount_fd;
        if (op->flags & PLAN_NOEXEC) {
                r = mount_set_attributes(mount_fd, false, MOUNT_ATTR_NOEXEC, -EBADF);
                if (r < 0)
                        return r;
        }
        return mount_attach_here(mount_fd, op->path);
}

static int do_mountpoint(const PlanOp *op, TreeRoot *root) {
        if (op->flags & PLAN_DIRECTORY)
                return tree_make_directory(root, op->path, 0755);
        return tree_make_file(root, op->path, 0644, NULL, 0);
}

static int do_devpts(const PlanOp *op) {
        /* No gid=: the tty group is not mapped here, and an unmapped one is refused. */
        static const char *const options[] = {"newinstance", NULL,   "ptmxmode", "0666",
                                              "mode",        "0620", NULL,       NULL};

        return attach_new(op->path, "devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

static int do_mqueue(const PlanOp *op) {
        static const char *const options[] = {NULL, NULL};

        return attach_new(op->path, "mqueue", options,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int init_apply(const PlanOp *op, TreeRoot *root, int *private_fd) {
        switch (op->type) {
        case PLAN_OP_HOSTNAME:
                return do_hostname(op);
        case PLAN_OP_USERNS_MAX:
                return do_userns_max(op);
        case PLAN_OP_INOTIFY_MAX:
                return do_inotify_max(op);
        case PLAN_OP_PROC:
                return do_proc(op);
        case PLAN_OP_PROC_MASK:
                return do_proc_mask(op);
        case PLAN_OP_PROC_RDONLY:
                return do_proc_rdonly(op);
        case PLAN_OP_TMPFS:
                return do_tmpfs(op, private_fd);
        case PLAN_OP_PRIVATE:
                return do_private(op, *private_fd);
        case PLAN_OP_MOUNTPOINT:
                return do_mountpoint(op, root);
        case PLAN_OP_DEVPTS:
                return do_devpts(op);
        case PLAN_OP_MQUEUE:
                return do_mqueue(op);
        default:
                return 0; /* late stage, or of the seal */
        }
}

int init_tree(const PlanReader *plan, int *ret_private_fd, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int root_fd = -EBADF, private_fd = -EBADF;
        _cleanup_(tree_root_done) TreeRoot root;
        PlanReader reader = *plan;
        PlanOp op;
        int r;

        tree_root_init(&root, -EBADF);
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return failure_here(ret_failure, "open-root", "/");
        root.fd = root_fd;

        while (plan_reader_next(&reader, &op) == 0) {
                r = init_apply(&op, &root, &private_fd);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.path);
        }

        *ret_private_fd = TAKE_FD(private_fd);
        return 0;
}

int init_late(const PlanReader *plan, int private_fd, ProtoFailure *ret_failure) {
        PlanReader reader = *plan;
        PlanOp op;
        int r;

        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type != PLAN_OP_LATE_PRIVATE)
                        continue;
                r = do_private(&op, private_fd);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.path);
        }
        return 0;
}
