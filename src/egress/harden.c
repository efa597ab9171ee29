/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/harden.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "basic/macros.h"

/* Of ABI 1, which every kernel with Landlock knows. */
#define LANDLOCK_READ                                                                              \
        (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define LANDLOCK_WRITE                                                                             \
        (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                           \
         LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |                           \
         LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                               \
         LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                             \
         LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Modules of the name service are loaded when they are first needed; where they and the
 * certificates lie is the distribution's choice. /run has systemd-resolved's list of servers. */
static const struct {
        const char *path;
        uint64_t rights;
} readable[] = {
        {"/etc", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR},
        {"/run/systemd/resolve", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR},
        {"/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE},
        {"/usr", LANDLOCK_READ},
        {"/lib", LANDLOCK_READ},
        {"/lib64", LANDLOCK_READ},
};

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
static int harden_files(void) {
        const struct landlock_ruleset_attr attr = {.handled_access_fs =
                                                           LANDLOCK_READ | LANDLOCK_WRITE};
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        fd = (int) syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
        if (fd < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
                return 0;
        if (fd < 0)
                return error_origin(negative_errno());
        r = landlock_allow(fd);
        if (r < 0)
                return error_trace(r);
        if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
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

int harden(void) {
        const struct rlimit none = {};
        int r;

        if (clearenv() != 0)
                return error_origin(-ENOMEM);
        if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        r = harden_files();
        return r < 0 ? error_trace(r) : harden_capabilities();
}
