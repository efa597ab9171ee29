/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/privileges.h"

#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "basic/macros.h"

/* What the launcher works with, and what its set-up needs on host files of other owners. */
static const uint8_t kept[] = {
        CAP_SYS_ADMIN,        CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SYS_RESOURCE, CAP_SETUID,
        CAP_SETGID,           CAP_SETPCAP,    CAP_SETFCAP,    CAP_NET_ADMIN,    CAP_KILL,
        CAP_NET_BIND_SERVICE, CAP_CHOWN,      CAP_FOWNER,     CAP_DAC_OVERRIDE, CAP_MKNOD,
        CAP_DAC_READ_SEARCH,  CAP_FSETID,
};

static uint64_t kept_mask(void) {
        uint64_t mask = 0;

        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                mask |= UINT64_C(1) << kept[i];
        return mask;
}

static int bounding_reduce(uint64_t mask) {
        for (int capability = 0; capability < 64; capability++) {
                int r;

                r = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
                if (r < 0)
                        return 0; /* the last one that the kernel knows is behind us */
                if (r == 0 || mask & (UINT64_C(1) << capability))
                        continue;
                if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
                        return error_origin(negative_errno());
        }
        return 0;
}

static int sets_reduce(uint64_t mask) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, data) < 0)
                return error_origin(negative_errno());

        for (size_t i = 0; i < ELEMENTSOF(data); i++) {
                uint32_t part = (uint32_t) (mask >> (32 * i));

                data[i].permitted &= part;
                data[i].effective &= part;
                data[i].inheritable = 0;
        }
        if (syscall(SYS_capset, &header, data) < 0)
                return error_origin(negative_errno());
        return 0;
}

int privileges_reduce(void) {
        int r;

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        if (geteuid() != 0)
                return 0;

        r = bounding_reduce(kept_mask());
        return r < 0 ? error_trace(r) : error_trace(sets_reduce(kept_mask()));
}

/* 1 is too little for a core file, and has the kernel start no program that takes one; 0 would let
 * such a program have it. */
static int limit_cores(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_CORE, &limit) < 0)
                return error_origin(negative_errno());
        limit.rlim_cur = limit.rlim_max < 1 ? limit.rlim_max : 1;
        return setrlimit(RLIMIT_CORE, &limit) < 0 ? error_origin(negative_errno()) : 0;
}

int privileges_close(bool even_to_owner) {
        if (even_to_owner && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        return error_trace(limit_cores());
}
