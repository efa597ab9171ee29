/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/crate-make.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "launcher/bind-open.h"
#include "launcher/init.h"
#include "launcher/mount-util.h"
#include "launcher/tree.h"

#define INIT_STACK_SIZE (256U * 1024U)
#define INIT_STACK_GUARD (64U * 1024U)
#define CRATE_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

CrateChild *crate_child_free(CrateChild *crate) {
        if (!crate)
                return NULL;

        crate->pid_fd = fd_close(crate->pid_fd);
        crate->setup_fd = fd_close(crate->setup_fd);
        crate->user_fd = fd_close(crate->user_fd);
        crate->mount_fd = fd_close(crate->mount_fd);
        listens_done(&crate->listens);
        if (crate->plan_data)
                (void) munmap((void *) crate->plan_data, crate->plan_size);
        free(crate);
        return NULL;
}

/* Checks the plan once for parent and child; whether it has a late stage decides who waits for
 * whom. */
static int plan_open(CrateChild *crate, const CrateMake *make, InitContext *context,
                     ProtoFailure *ret_failure) {
        PlanReader reader;
        PlanOp op;
        int r;

        r = plan_map(make->plan_fd, &crate->plan_data, &crate->plan_size);
        if (r < 0)
                return failure_set(ret_failure, -r, "plan", "");
        r = plan_reader_init(&context->plan, crate->plan_data, crate->plan_size);
        if (r != 0)
                return failure_set(ret_failure, EBADMSG, "plan", "");

        reader = context->plan;
        while (plan_reader_next(&reader, &op) == 0)
                switch (plan_op_stage(op.type)) {
                case PLAN_STAGE_TREE:
                        return failure_set(ret_failure, EINVAL, plan_op_type_to_string(op.type),
                                           op.path);
                case PLAN_STAGE_LATE:
                        /* There is no view of the host to open anything in. */
                        if (make->no_late)
                                return failure_set(ret_failure, EINVAL,
                                                   plan_op_type_to_string(op.type), op.path);
                        context->has_late = true;
                        break;
                case PLAN_STAGE_NET:
                        context->has_listens = true;
                        break;
                default:
                        break;
                }
        return 0;
}

/* clone3, or clone where an outer container's filter says that there is no clone3; that one cannot
 * enter a cgroup. */
static pid_t clone_init(int cgroup_fd, int *ret_pid_fd) {
        int pid_fd = -EBADF;
        struct clone_args args = {
                .flags = CRATE_NAMESPACES | CLONE_PIDFD | (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
                .pidfd = (uint64_t) (uintptr_t) &pid_fd,
                .exit_signal = SIGCHLD,
                .cgroup = cgroup_fd >= 0 ? (uint64_t) cgroup_fd : 0,
        };
        long pid;

        pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid < 0 && errno == ENOSYS && cgroup_fd < 0)
                pid = syscall(SYS_clone, CRATE_NAMESPACES | CLONE_PIDFD | SIGCHLD, NULL, &pid_fd,
                              NULL, NULL);
        *ret_pid_fd = pid_fd;
        return (pid_t) pid;
}

static int init_main(void *userdata) {
        init_run(userdata);
}

/*
 * The only crate of a launcher takes that one's memory over instead of a copy of it, which saves
 * the copy itself and a page fault for whatever is touched afterwards. It has a stack of its own,
 * with its context at the top. Until "go" it sits in a read, after it the launcher does nothing but
 * end; and since init does not get ready before that, no job ever runs while the two share
 * anything.
 */
static pid_t clone_heir(const InitContext *context, int *ret_pid_fd) {
        int pid_fd = -EBADF;
        InitContext *own;
        uint8_t *stack;
        pid_t pid;

        stack = mmap(NULL, INIT_STACK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1,
                     0);
        /* What stays without rights stops a stack that grows too far. */
        if (stack == MAP_FAILED ||
            mprotect(stack + INIT_STACK_GUARD, INIT_STACK_SIZE - INIT_STACK_GUARD,
                     PROT_READ | PROT_WRITE) < 0)
                return -1;
        own = (InitContext *) (void *) (stack + INIT_STACK_SIZE) - 1;
        *own = *context;
        pid = clone(init_main, (void *) ((uintptr_t) own & ~(uintptr_t) 15),
                    CRATE_NAMESPACES | CLONE_VM | CLONE_PIDFD | SIGCHLD, own, &pid_fd);
        *ret_pid_fd = pid_fd;
        return pid;
}

static int open_namespace(pid_t pid, const char *name, ProtoFailure *ret_failure) {
        char path[48];
        int fd;

        (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? failure_here(ret_failure, "open-namespace", path) : fd;
}

/* What has to happen between the clone and "go": afterwards init is not dumpable and its namespaces
 * cannot be opened. */
static int crate_child_adopt(CrateChild *crate, bool has_late, bool is_heir,
                             ProtoFailure *ret_failure) {
        int r;

        r = idmap_write(crate->pid, INIT_UID, crate->uid, INIT_GID, crate->gid, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (has_late) {
                crate->user_fd = open_namespace(crate->pid, "user", ret_failure);
                if (crate->user_fd < 0)
                        return crate->user_fd;
        }
        /* We end before an heir does: there is no teardown to take off it. */
        if (!is_heir) {
                crate->mount_fd = open_namespace(crate->pid, "mnt", ret_failure);
                if (crate->mount_fd < 0)
                        return crate->mount_fd;
        }
        return 0;
}

int crate_child_go(CrateChild *crate, ProtoFailure *ret_failure) {
        if (write(crate->setup_fd, &(char){SETUP_GO}, 1) != 1)
                return failure_here(ret_failure, "setup-channel", "");
        return 0;
}

static void crate_child_kill(CrateChild *crate) {
        (void) kill(crate->pid, SIGKILL);
        (void) waitpid(crate->pid, NULL, __WALL);
}

int crate_child_new(const CrateMake *make, NetStock *nets, CrateChild **ret_crate,
                    ProtoFailure *ret_failure) {
        _cleanup_(crate_child_freep) CrateChild *crate = NULL;
        InitContext context = {.control_fd = make->control_fd,
                               .subuid_fd = make->subuid_fd,
                               .has_cgroup = make->cgroup_fd >= 0,
                               .is_heir = make->is_heir,
                               .landlock_abi = make->landlock_abi};
        int channel[2], r;

        crate = calloc(1, sizeof(*crate));
        if (!crate)
                return failure_set(ret_failure, ENOMEM, "crate", "");
        *crate = (CrateChild){
                .id = make->id,
                .uid = make->uid,
                .gid = make->gid,
                .is_heir = make->is_heir,
                .pid_fd = -EBADF,
                .setup_fd = -EBADF,
                .user_fd = -EBADF,
                .mount_fd = -EBADF,
        };

        r = plan_open(crate, make, &context, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = net_stock_enter(nets, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = listens_make(&crate->listens, &context.plan, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
                return failure_here(ret_failure, "setup-channel", "");

        crate->setup_fd = channel[0];
        context.setup_fd = channel[1];
        crate->pid = make->is_heir ? clone_heir(&context, &crate->pid_fd)
                                   : clone_init(make->cgroup_fd, &crate->pid_fd);
        if (crate->pid == 0)
                init_run(&context);
        context.setup_fd = fd_close(context.setup_fd);
        if (crate->pid < 0)
                return failure_here(ret_failure, "clone", "");

        r = crate_child_adopt(crate, context.has_late, make->is_heir, ret_failure);
        if (r == 0 && !make->is_heir)
                r = crate_child_go(crate, ret_failure);
        if (r < 0) {
                crate_child_kill(crate);
                return error_trace(r);
        }
        *ret_crate = TAKE_PTR(crate);
        return 0;
}

/*
 * The id map under which a writable host path shows the crate's user as the owner of what the
 * folder's owner owns. Root mode only; returns -EBADF where none is needed.
 */
static int late_idmap(const CrateChild *crate, const Outer *outer, int source_fd,
                      ProtoFailure *ret_failure) {
        struct stat st;
        int fd;

        if (outer->mode == LAUNCHER_MODE_USER)
                return -EBADF;
        if (fstat(source_fd, &st) < 0)
                return failure_here(ret_failure, "late-bind", "");
        if (st.st_uid == INIT_UID && st.st_gid == INIT_GID) {
                fd = fcntl(crate->user_fd, F_DUPFD_CLOEXEC, 0);
                return fd < 0 ? failure_here(ret_failure, "id-map-namespace", "") : fd;
        }
        return idmap_userns(st.st_uid, crate->uid, st.st_gid, crate->gid, ret_failure);
}

/* A detached mount of the source, opened in the host's view. -ENOENT for a missing optional source.
 */
static int late_open(const CrateChild *crate, const Outer *outer, const PlanOp *op,
                     ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int source_fd = -EBADF, mount_fd = -EBADF, userns_fd = -EBADF;
        uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        int r;

        if (op->flags & PLAN_RDONLY)
                attributes |= MOUNT_ATTR_RDONLY;
        if (op->flags & PLAN_NOEXEC)
                attributes |= MOUNT_ATTR_NOEXEC;

        source_fd = bind_open(outer->roots, op->source, !(op->flags & PLAN_RDONLY));
        if (source_fd == -ENOENT && (op->flags & PLAN_OPTIONAL))
                return -ENOENT;
        if (source_fd == -EXDEV)
                return failure_set(ret_failure, EPERM, "bind-roots", op->source);
        if (source_fd < 0)
                return failure_set(ret_failure, -source_fd, "late-bind", op->source);
        userns_fd = late_idmap(crate, outer, source_fd, ret_failure);
        if (userns_fd < 0 && userns_fd != -EBADF)
                return userns_fd;
        mount_fd = mount_clone(source_fd, op->flags & PLAN_RECURSIVE);
        if (mount_fd < 0)
                return failure_set(ret_failure, -mount_fd, "late-bind", op->source);
        r = mount_set_attributes(mount_fd, op->flags & PLAN_RECURSIVE, attributes, userns_fd);
        if (r < 0)
                return failure_set(ret_failure, -r, userns_fd >= 0 ? "id-map-mount" : "late-bind",
                                   op->source);
        return TAKE_FD(mount_fd);
}

/* Attaches in the crate's mount namespace what was opened in the host's. */
static int late_attach(const CrateChild *crate, const PlanOp *op, int mount_fd,
                       ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int root_fd = -EBADF;
        int r;

        if (setns(crate->mount_fd, CLONE_NEWNS) < 0)
                return failure_here(ret_failure, "enter-crate", "");
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return failure_here(ret_failure, "enter-crate", "/");
        r = op->type == PLAN_OP_LATE_HIDE    ? tree_hide(root_fd, op)
            : op->type == PLAN_OP_LATE_COVER ? tree_cover(root_fd, op)
                                             : mount_attach_at(mount_fd, root_fd, op->path);
        return r < 0 ? failure_set(ret_failure, -r, plan_op_type_to_string(op->type), op->path) : 0;
}

static int late_apply(const CrateChild *crate, const Outer *outer, const PlanOp *op,
                      ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int mount_fd = -EBADF;
        int r;

        if (op->type == PLAN_OP_LATE_BIND) {
                r = outer_to_host(outer, ret_failure);
                if (r < 0)
                        return error_trace(r);
                mount_fd = late_open(crate, outer, op, ret_failure);
                if (mount_fd < 0)
                        return mount_fd == -ENOENT && (op->flags & PLAN_OPTIONAL) ? 0 : mount_fd;
        }
        return late_attach(crate, op, mount_fd, ret_failure);
}

static int late_stage(const CrateChild *crate, const Outer *outer, ProtoFailure *ret_failure) {
        ProtoFailure ignored;
        PlanReader reader;
        PlanOp op;
        int r = 0;

        if (plan_reader_init(&reader, crate->plan_data, crate->plan_size) != 0)
                return failure_set(ret_failure, EBADMSG, "plan", "");
        while (r == 0 && plan_reader_next(&reader, &op) == 0)
                if (op.type == PLAN_OP_LATE_BIND || op.type == PLAN_OP_LATE_HIDE ||
                    op.type == PLAN_OP_LATE_COVER)
                        r = late_apply(crate, outer, &op, ret_failure);

        if (r < 0) {
                (void) outer_to_tree(outer, &ignored);
                return error_trace(r);
        }
        return outer_to_tree(outer, ret_failure);
}

int crate_child_on_setup(CrateChild *crate, const Outer *outer, ProtoFailure *ret_failure) {
        char byte;
        ssize_t n;
        int r;

        n = recv(crate->setup_fd, &byte, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n == 1 && byte == SETUP_TREE) {
                r = late_stage(crate, outer, ret_failure);
                if (r < 0)
                        return error_trace(r);
                if (write(crate->setup_fd, &(char){SETUP_LATE_DONE}, 1) == 1)
                        return 0;
        }

        /* Sealed, or dead; the host hears from init, or of its end. */
        crate->setup_fd = fd_close(crate->setup_fd);
        return 0;
}
