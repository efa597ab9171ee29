/* SPDX-License-Identifier: Apache-2.0 */

#include <linux/magic.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "basic/string-util.h"
#include "cgroup/cgroup-text.h"
#include "cgroup/cgroup.h"

#define CGROUP_MOUNT "/sys/fs/cgroup"
/* The oldest kernel that is tested; cgroup.kill alone is from 5.14. */
#define KERNEL_MAJOR_MIN 6U
#define KERNEL_MINOR_MIN 1U

#define UNIFY "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"

const char *cgroup_level_to_string(CgroupLevel level) {
        static const char *const names[] = {"job", "sandbox", "tenant", "instance", "outside"};

        return names[level];
}

const char *cgroup_controller_to_string(CgroupController controller) {
        switch (controller) {
        case CGROUP_CPU:
                return "cpu";
        case CGROUP_MEMORY:
                return "memory";
        case CGROUP_PIDS:
                return "pids";
        case CGROUP_IO:
                return "io";
        default:
                return "?";
        }
}

bool cgroup_host_has_systemd(void) {
        return access("/run/systemd/system", F_OK) == 0;
}

static int check_kernel(char **ret_reason) {
        unsigned major, minor;
        struct utsname name;

        if (uname(&name) < 0 || cgroup_text_release(name.release, &major, &minor) != 0)
                return 0;
        if (major > KERNEL_MAJOR_MIN || (major == KERNEL_MAJOR_MIN && minor >= KERNEL_MINOR_MIN))
                return 0;
        return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                            "this kernel (%s) is older than %u.%u", name.release, KERNEL_MAJOR_MIN,
                            KERNEL_MINOR_MIN);
}

int cgroup_host_check(char **ret_reason) {
        struct statfs fs;
        int r;

        r = check_kernel(ret_reason);
        if (r != 0)
                return r;
        if (statfs(CGROUP_MOUNT, &fs) < 0)
                return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                                    "no cgroup file system is mounted at " CGROUP_MOUNT);
        if (fs.f_type == CGROUP2_SUPER_MAGIC)
                return 0;
        if (access(CGROUP_MOUNT "/unified/cgroup.controllers", F_OK) == 0)
                return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                                    "cgroup v1 holds this host's controllers (a hybrid set-up); "
                                    "" UNIFY);
        if (access(CGROUP_MOUNT "/memory", F_OK) == 0 || access(CGROUP_MOUNT "/pids", F_OK) == 0)
                return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                                    "this host has only cgroup v1; " UNIFY);
        return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                            "no cgroup file system is mounted at " CGROUP_MOUNT);
}
