/* SPDX-License-Identifier: Apache-2.0 */

#include "seccomp/words.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "basic/string-util.h"

static const uint32_t libseccomp_arch[_SECCOMP_ARCH_MAX] = {
        [SECCOMP_ARCH_X86_64] = SCMP_ARCH_X86_64,
        [SECCOMP_ARCH_AARCH64] = SCMP_ARCH_AARCH64,
};

/*
 * All values are those of the kernel's interface and the same on every architecture that profiles
 * are compiled for, so that the compiler may run on one and write for another. The file modes and
 * open flags are spelled out since C libraries differ in what their own names hold.
 */
static const struct {
        const char *name;
        uint32_t value;
} constants[] = {
        {"AF_INET", AF_INET},
        {"AF_INET6", AF_INET6},
        {"AF_NETLINK", AF_NETLINK},
        {"AF_UNIX", AF_UNIX},
        {"CLONE_NEWCGROUP", CLONE_NEWCGROUP},
        {"CLONE_NEWIPC", CLONE_NEWIPC},
        {"CLONE_NEWNET", CLONE_NEWNET},
        {"CLONE_NEWNS", CLONE_NEWNS},
        {"CLONE_NEWPID", CLONE_NEWPID},
        {"CLONE_NEWUSER", CLONE_NEWUSER},
        {"CLONE_NEWUTS", CLONE_NEWUTS},
        {"IOPRIO_WHO_USER", IOPRIO_WHO_USER},
        {"IPPROTO_TCP", IPPROTO_TCP},
        {"IPPROTO_UDP", IPPROTO_UDP},
        {"NETLINK_ROUTE", NETLINK_ROUTE},
        {"O_CREAT", 0100},
        {"PRIO_USER", PRIO_USER},
        {"RENAME_WHITEOUT", 04},
        {"SOCK_CLOEXEC", SOCK_CLOEXEC},
        {"SOCK_DGRAM", SOCK_DGRAM},
        {"SOCK_NONBLOCK", SOCK_NONBLOCK},
        {"SOCK_STREAM", SOCK_STREAM},
        {"S_IFBLK", 060000},
        {"S_IFCHR", 020000},
        {"S_ISGID", 02000},
        {"S_ISUID", 04000},
        {"TIOCLINUX", TIOCLINUX},
        {"TIOCSETD", TIOCSETD},
        {"TIOCSTI", TIOCSTI},
        {"__O_TMPFILE", 020000000}, /* O_TMPFILE without O_DIRECTORY */
};

int seccomp_call_lookup(const char *name, int ret_nr[static _SECCOMP_ARCH_MAX]) {
        bool known = false;

        for (size_t i = 0; i < _SECCOMP_ARCH_MAX; i++) {
                int nr = seccomp_syscall_resolve_name_arch(libseccomp_arch[i], name);

                /* Below zero is unknown, or one of libseccomp's stand-ins for a call that only
                 * other architectures have. */
                ret_nr[i] = nr >= 0 ? nr : SECCOMP_NR_NONE;
                known = known || nr >= 0;
        }
        return known ? 0 : SECCOMP_WORD_E_UNKNOWN;
}

int seccomp_action_lookup(const char *name, uint32_t *ret_action) {
        if (string_equal(name, "allow")) {
                *ret_action = SECCOMP_RET_ALLOW;
                return 0;
        }
        if (string_equal(name, "kill")) {
                *ret_action = SECCOMP_RET_KILL_PROCESS;
                return 0;
        }

        for (int e = 1; e <= EHWPOISON; e++)
                if (string_equal(name, strerrorname_np(e))) {
                        *ret_action = SECCOMP_RET_ERRNO | (uint32_t) e;
                        return 0;
                }
        return SECCOMP_WORD_E_UNKNOWN;
}

int seccomp_value_lookup(const char *name, uint32_t *ret_value) {
        unsigned long long value;
        char *end;

        for (size_t i = 0; i < ELEMENTSOF(constants); i++)
                if (string_equal(name, constants[i].name)) {
                        *ret_value = constants[i].value;
                        return 0;
                }

        if (!isdigit((unsigned char) name[0]))
                return SECCOMP_WORD_E_UNKNOWN;
        errno = 0;
        value = strtoull(name, &end, 0);
        if (errno != 0 || *end || value > UINT32_MAX)
                return SECCOMP_WORD_E_UNKNOWN;
        *ret_value = (uint32_t) value;
        return 0;
}
