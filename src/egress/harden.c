/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/harden.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "basic/macros.h"

/* The newest form that we use; an older kernel is given only the bytes that it knows. */
typedef struct RulesetAttr {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
} RulesetAttr;

#define ABI_REFER 2
#define ABI_TRUNCATE 3
#define ABI_NET 4
#define ABI_SCOPE 6
#define ACCESS_FS_ABI_1 ((1ULL << 13) - 1)
#define ACCESS_FS_REFER (1ULL << 13)
#define ACCESS_FS_TRUNCATE (1ULL << 14)
#define ACCESS_NET_BIND_TCP (1ULL << 0)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

#define READ_DIR (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Resolver, hosts and certificates; modules that libraries load when they are first needed. /run
 * has systemd-resolved's list of servers. Nothing is executed and nothing is written. */
static const struct {
        const char *path;
        uint64_t rights;
} readable[] = {
        {"/etc", READ_DIR}, {"/run/systemd/resolve", READ_DIR},
        {"/usr", READ_DIR}, {"/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE},
        {"/lib", READ_DIR}, {"/lib64", READ_DIR},
};

static int landlock_allow_folder(int ruleset_fd, int folder_fd) {
        const struct landlock_path_beneath_attr attr = {
                .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = folder_fd};

        if (folder_fd >= 0 &&
            syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
                return error_origin(negative_errno());
        return 0;
}

static int landlock_allow(int ruleset_fd) {
        for (size_t i = 0; i < ELEMENTSOF(readable); i++) {
                _cleanup_(fd_closep) int fd = open(readable[i].path, O_PATH | O_CLOEXEC);
                struct landlock_path_beneath_attr attr = {.allowed_access = readable[i].rights,
                                                          .parent_fd = fd};

                if (fd >= 0 && syscall(SYS_landlock_add_rule, ruleset_fd,
                                       LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
                        return error_origin(negative_errno());
        }
        return 0;
}

/* A kernel without it is no reason not to run: it is one wall of several. */
static int harden_files(const SecretFolders *secrets) {
        RulesetAttr attr = {.handled_access_fs = ACCESS_FS_ABI_1};
        _cleanup_(fd_closep) int fd = -EBADF;
        size_t size = sizeof(uint64_t);
        long abi;
        int r;

        abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
                return 0;
        if (abi < 0)
                return error_origin(negative_errno());
        attr.handled_access_fs |= (abi >= ABI_REFER ? ACCESS_FS_REFER : 0) |
                                  (abi >= ABI_TRUNCATE ? ACCESS_FS_TRUNCATE : 0);
        if (abi >= ABI_NET) {
                attr.handled_access_net = ACCESS_NET_BIND_TCP;
                size = offsetof(RulesetAttr, scoped);
        }
        if (abi >= ABI_SCOPE) {
                attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
                size = sizeof(attr);
        }
        fd = (int) syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (fd < 0)
                return error_origin(negative_errno());
        r = landlock_allow(fd);
        if (r == 0)
                r = landlock_allow_folder(fd, secrets->systemd_fd);
        if (r == 0)
                r = landlock_allow_folder(fd, secrets->folder_fd);
        if (r < 0)
                return error_trace(r);
        if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
                return error_origin(negative_errno());
        return 0;
}

/* Each connection needs two files, and each session has some for its names. */
static void raise_open_files(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static int harden_calls(const struct sock_filter *filter, size_t n_filter) {
        const struct sock_fprog program = {.len = (unsigned short) n_filter,
                                           .filter = (struct sock_filter *) filter};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return error_origin(negative_errno());
        return 0;
}

static int harden_capabilities(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
            syscall(SYS_capset, &header, none) < 0)
                return error_origin(negative_errno());
        return 0;
}

int harden(const SecretFolders *secrets, const struct sock_filter *filter, size_t n_filter) {
        const struct rlimit none = {};
        int r;

        if (clearenv() != 0)
                return error_origin(-ENOMEM);
        raise_open_files();
        if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        r = harden_files(secrets);
        if (r == 0)
                r = harden_capabilities();
        return r < 0 ? error_trace(r) : harden_calls(filter, n_filter);
}
