/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the step and errno at which a crate failed to a sentence that a person can act on. Where the
 * host's settings tell the cause, it is named; nothing is ever tried again in a weaker form.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "basic/error.h"
#include "crate/crate-internal.h"

/* The number in a file of /proc/sys; -1 if it is not there. */
static long sysctl_value(const char *path) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char text[32] = {};

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                return -1;
        return strtol(text, NULL, 10);
}

/* Why user namespaces do not work here. */
static const char *user_namespace_remedy(void) {
        if (sysctl_value("/proc/sys/user/max_user_namespaces") == 0)
                return "user namespaces are switched off: set sysctl user.max_user_namespaces "
                       "above 0";
        if (sysctl_value("/proc/sys/kernel/unprivileged_userns_clone") == 0)
                return "user namespaces are for root only here: set sysctl "
                       "kernel.unprivileged_userns_clone=1";
        if (sysctl_value("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
                return "AppArmor restricts user namespaces: install AgentCrate's AppArmor profile, "
                       "or set sysctl "
                       "kernel.apparmor_restrict_unprivileged_userns=0";
        return "user namespaces are refused here: inside of a container allow them from outside "
               "(with Docker: "
               "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)";
}

/* Filters of containers answer as if the kernel were older than it is. */
static const char *missing_call_remedy(void) {
        unsigned major = 0, minor = 0;
        struct utsname name;

        if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2 || major < 6 ||
            (major == 6 && minor < 1))
                return "this kernel is too old: AgentCrate needs Linux 6.1 or newer";
        return "this kernel is new enough (Linux 6.1 or newer), but a filter around this program "
               "hides the system call: allow it from outside (with Docker: --security-opt "
               "seccomp=unconfined)";
}

static bool step_is_of_namespaces(const char *step) {
        static const char *const steps[] = {
                "user-namespace",   "mount-namespace", "net-namespace", "clone",
                "uid_map",          "gid_map",         "setgroups",     "lo-up",
                "local-route",      "mount-slave",     "mount-private", "tree-root",
                "id-map-namespace",
        };

        for (size_t i = 0; i < ELEMENTSOF(steps); i++)
                if (string_equal(step, steps[i]))
                        return true;
        return false;
}

static const char *failure_remedy(const ProtoFailure *failure) {
        int e = failure->error;

        if (step_is_of_namespaces(failure->step) &&
            (e == EPERM || e == EACCES || e == ENOSPC || e == EUSERS))
                return user_namespace_remedy();
        if (string_equal(failure->step, "proc") && e == EPERM)
                return "the /proc of this container is masked, so the kernel allows no new one: "
                       "unmask it from outside "
                       "(with Docker: --security-opt systempaths=unconfined, with Podman: "
                       "--security-opt unmask=ALL)";
        if (string_equal(failure->step, "id-map-mount"))
                return "the file system of that folder cannot be id-mapped: use a folder on ext4, "
                       "xfs or btrfs (tmpfs "
                       "from Linux 6.3), or run as the user who owns it";
        if (string_equal(failure->step, "late-bind") || string_equal(failure->step, "bind")) {
                if (e == ELOOP)
                        return "a part of that path has become a link since it was checked: give "
                               "the real path";
                if (e == ENOENT)
                        return "make the path, or take it out of the template or the options";
                if (e == EACCES)
                        return "give the user of this program the right to reach the path";
        }
        if (string_equal(failure->step, "bind-roots"))
                return "the administrator does not let crates be shown that path: add it, or a "
                       "folder above it, to the bind roots of the launcher service";
        if (string_equal(failure->step, "rlimit") && e == EPERM)
                return "the limit is above this process's own hard limit: ask for less or raise it "
                       "(ulimit -H)";
        if (string_equal(failure->step, "landlock-path"))
                return "this kernel has no Landlock: use the profile default, or boot with "
                       "lsm=landlock,…";
        if (e == ENOSYS)
                return missing_call_remedy();
        if (e == EMFILE || e == ENFILE)
                return "too many open files: raise the limit (ulimit -n) or run fewer jobs at once";
        return NULL;
}

int crate_explain_failure(const ProtoFailure *failure, CrateError *ret_error) {
        const char *remedy = failure_remedy(failure);

        return crate_error_set(
                ret_error, failure->step, failure->error, failure->path[0] ? failure->path : NULL,
                remedy, "no crate could be made: step %s failed%s%s: %s", failure->step,
                failure->path[0] ? " at " : "", failure->path, strerror(failure->error));
}
