/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/seal.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "launcher/job.h"

/* The newest form that we use; an older kernel is given only the bytes that it knows. */
typedef struct RulesetAttr {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
} RulesetAttr;

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)
#define SCOPE_ABI 6U

/* Rights by the ABI that brought them. Device ioctls (ABI 5) are left alone: terminals need them,
 * and devices are few. */
#define ACCESS_FS_ABI_1 ((1ULL << 13) - 1)
#define ACCESS_FS_REFER (1ULL << 13)
#define ACCESS_FS_TRUNCATE (1ULL << 14)
#define ACCESS_FS_READ                                                                             \
        (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_FS_FILE                                                                             \
        (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |                               \
         LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_FS_TRUNCATE)

uint32_t landlock_abi(void) {
        long abi;

        abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        return abi > 0 ? (uint32_t) abi : 0;
}

static uint64_t landlock_rights(uint32_t abi) {
        return ACCESS_FS_ABI_1 | (abi >= 2 ? ACCESS_FS_REFER : 0) |
               (abi >= 3 ? ACCESS_FS_TRUNCATE : 0);
}

static int landlock_add_path(int ruleset_fd, const PlanOp *op, uint64_t rights) {
        struct landlock_path_beneath_attr attr = {};
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;

        fd = open(op->path, O_PATH | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        if (fstat(fd, &st) < 0)
                return negative_errno();

        attr.parent_fd = fd;
        attr.allowed_access = (op->flags & PLAN_RDONLY) ? ACCESS_FS_READ : rights;
        if (!S_ISDIR(st.st_mode))
                attr.allowed_access &= ACCESS_FS_FILE & rights;
        if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
                return negative_errno();
        return 0;
}

static int landlock_add_paths(int ruleset_fd, const PlanReader *plan, uint64_t rights,
                              ProtoFailure *ret_failure) {
        PlanReader reader = *plan;
        PlanOp op;
        int r;

        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type != PLAN_OP_LANDLOCK_PATH)
                        continue;
                r = landlock_add_path(ruleset_fd, &op, rights);
                if (r < 0)
                        return failure_set(ret_failure, -r, plan_op_type_to_string(op.type),
                                           op.path);
        }
        return 0;
}

static void plan_count_landlock(const PlanReader *plan, bool *ret_paths, bool *ret_scope) {
        PlanReader reader = *plan;
        PlanOp op;

        *ret_paths = *ret_scope = false;
        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type == PLAN_OP_LANDLOCK_PATH)
                        *ret_paths = true;
                if (op.type == PLAN_OP_LANDLOCK_SCOPE)
                        *ret_scope = true;
        }
}

static int seal_landlock(const PlanReader *plan, uint32_t abi, uint32_t *ret_abi,
                         ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int ruleset_fd = -EBADF;
        RulesetAttr attr = {};
        bool paths, scope;
        size_t size;
        int r;

        *ret_abi = 0;
        plan_count_landlock(plan, &paths, &scope);
        /* Path rules were asked for by name: without them the crate would be weaker than its plan.
         */
        if (paths && abi == 0)
                return failure_set(ret_failure, ENOSYS, "landlock-path", "");
        if (paths)
                attr.handled_access_fs = landlock_rights(abi);
        if (scope && abi >= SCOPE_ABI)
                attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
        if (!attr.handled_access_fs && !attr.scoped)
                return 0;

        size = abi >= SCOPE_ABI ? sizeof(attr)
               : abi >= 4       ? offsetof(RulesetAttr, scoped)
                                : sizeof(uint64_t);
        ruleset_fd = (int) syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (ruleset_fd < 0)
                return failure_here(ret_failure, "landlock", "");
        if (paths) {
                r = landlock_add_paths(ruleset_fd, plan, attr.handled_access_fs, ret_failure);
                if (r < 0)
                        return error_trace(r);
        }
        if (syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0)
                return failure_here(ret_failure, "landlock", "");
        *ret_abi = abi;
        return 0;
}

static int seal_rlimits(const PlanReader *plan, ProtoFailure *ret_failure) {
        PlanReader reader = *plan;
        PlanOp op;

        while (plan_reader_next(&reader, &op) == 0) {
                struct rlimit limit = {.rlim_cur = op.b, .rlim_max = op.b};

                if (op.type == PLAN_OP_RLIMIT && setrlimit((__rlimit_resource_t) op.a, &limit) < 0)
                        return failure_here(ret_failure, "rlimit", "");
        }
        return 0;
}

static int seal_capabilities(ProtoFailure *ret_failure) {
        cap_t none;
        int r;

        /* By prctl and until the kernel knows no more: libcap asks before each of these, which is
         * three times the system calls on the way of every crate. */
        for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
                ;
        if (errno != EINVAL)
                return failure_here(ret_failure, "bounding-set", "");
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return failure_here(ret_failure, "ambient-set", "");

        none = cap_init();
        if (!none)
                return failure_here(ret_failure, "capabilities", "");
        r = cap_set_proc(none) < 0 ? failure_here(ret_failure, "capabilities", "") : 0;
        (void) cap_free(none);
        return r;
}

/* The closing rules, if asked for, and the plan's behind them, as one filter: each costs its own
 * translation by the kernel. */
static int filter_load(const PlanOp *op, bool is_closed) {
        _uninitialized_ struct sock_filter filter[BPF_MAXINSNS];
        size_t n_closing = is_closed ? JOB_CLOSING_RULES : 0;
        size_t n = n_closing + op->data_size / sizeof(struct sock_filter);
        struct sock_fprog program = {.len = (unsigned short) n, .filter = filter};

        if (n > ELEMENTSOF(filter))
                return -E2BIG;
        memcpy(filter, job_closing_rules, n_closing * sizeof(struct sock_filter));
        memcpy(filter + n_closing, op->data, (n - n_closing) * sizeof(struct sock_filter));
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? negative_errno()
                                                                              : 0;
}

static int seal_seccomp(const PlanReader *plan, bool is_closed, ProtoFailure *ret_failure) {
        PlanReader reader = *plan;
        bool loaded = false;
        PlanOp op;
        int r;

        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type != PLAN_OP_SECCOMP)
                        continue;
                r = filter_load(&op, is_closed);
                if (r < 0)
                        return failure_set(ret_failure, -r, "seccomp", op.source);
                loaded = true;
        }
        return loaded ? 0 : failure_set(ret_failure, EINVAL, "seccomp", "");
}

int seal(const PlanReader *plan, uint32_t abi, bool is_closed, uint32_t *ret_landlock_abi,
         ProtoFailure *ret_failure) {
        int r;

        /* Keyrings are not namespaced: an own empty session keyring, where the kernel has keyrings
         * at all. */
        (void) syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);

        r = seal_rlimits(plan, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return failure_here(ret_failure, "no-new-privileges", "");
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return failure_here(ret_failure, "dumpable", "");
        r = seal_landlock(plan, abi, ret_landlock_abi, ret_failure);
        if (r < 0)
                return error_trace(r);
        r = seal_capabilities(ret_failure);
        if (r < 0)
                return error_trace(r);
        return seal_seccomp(plan, is_closed, ret_failure);
}
