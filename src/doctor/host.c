/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The host itself: kernel, who we are on it, what confines us.
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "basic/error.h"
#include "doctor/check.h"
#include "doctor/read.h"

#define KERNEL_MAJOR_MIN 6U
#define KERNEL_MINOR_MIN 1U
#define GIB (1024.0 * 1024 * 1024)

/* --- gathering --- */

static void gather_kernel(HostFacts *host) {
        struct utsname name;

        if (uname(&name) < 0)
                return;
        (void) snprintf(host->kernel, sizeof(host->kernel), "%s", name.release);
        if (sscanf(name.release, "%u.%u", &host->kernel_major, &host->kernel_minor) != 2)
                host->kernel_major = host->kernel_minor = 0;
}

static void gather_user(HostFacts *host) {
        const struct passwd *entry;
        gid_t groups[256];
        int n;

        host->uid = geteuid();
        host->gid = getegid();
        entry = getpwuid(host->uid);
        if (entry)
                (void) snprintf(host->user, sizeof(host->user), "%s", entry->pw_name);
        else
                (void) snprintf(host->user, sizeof(host->user), "%u", host->uid);
        n = getgroups((int) ELEMENTSOF(groups), groups);
        for (int i = 0; i < n; i++)
                host->n_extra_groups += groups[i] != host->gid;
}

static void gather_sysctls(HostFacts *host) {
        static const char *const names[] = {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"};

        for (size_t i = 0; i < _DOCTOR_NS_MAX; i++) {
                char path[64];

                (void) snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", names[i]);
                host->max_namespaces[i] = read_number(path);
        }
        host->userns_clone = read_number("/proc/sys/kernel/unprivileged_userns_clone");
        host->apparmor_restrict =
                read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        host->ptrace_scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
        host->overcommit = read_number("/proc/sys/vm/overcommit_memory");
        host->selinux_enforcing = read_number("/sys/fs/selinux/enforce");
        (void) read_line("/proc/sys/kernel/core_pattern", host->core_pattern,
                         sizeof(host->core_pattern));
}

static int gather_status(HostFacts *host) {
        _cleanup_(freep) char *status = read_text("/proc/self/status");
        _cleanup_(freep) char *memory = read_text("/proc/meminfo");

        if (!status || !memory)
                return error_origin(-ENOMEM);
        host->seccomp_mode = (long) text_number(status, "Seccomp", 10, (unsigned long long) -1);
        host->capabilities = text_number(status, "CapEff", 16, 0);
        host->no_new_privs = text_number(status, "NoNewPrivs", 10, 0) == 1;
        host->memory_bytes = text_number(memory, "MemTotal", 10, 0) * 1024;
        return 0;
}

static void gather_apparmor(HostFacts *host) {
        char label[64];

        if (!read_line("/proc/self/attr/apparmor/current", label, sizeof(label)) ||
            string_equal(label, "unconfined"))
                return;
        (void) snprintf(host->apparmor_label, sizeof(host->apparmor_label), "%s", label);
}

/* The marks that runtimes leave, the plainest first. */
static int gather_container(HostFacts *host) {
        static const struct {
                const char *path, *name;
        } marks[] = {
                {"/run/.containerenv", "podman"},
                {"/.dockerenv", "docker"},
                {"/var/run/secrets/kubernetes.io", "kubernetes"},
                {"/dev/lxd", "lxd"},
                {"/dev/incus", "incus"},
        };
        const char *name = NULL;
        char line[64];

        if (read_line("/run/systemd/container", line, sizeof(line)))
                name = line;
        for (size_t i = 0; !name && i < ELEMENTSOF(marks); i++)
                if (access(marks[i].path, F_OK) == 0)
                        name = marks[i].name;
        if (!name && secure_getenv("KUBERNETES_SERVICE_HOST"))
                name = "kubernetes";
        if (!name && secure_getenv("container"))
                name = secure_getenv("container");
        if (name)
                (void) snprintf(host->container, sizeof(host->container), "%s", name);
        return 0;
}

/* Mounts on parts of /proc that are no folders of their own (binfmt_misc is one), and "/" that is
 * no mount point, which it always is but in a chroot. */
static int gather_mounts(HostFacts *host) {
        _cleanup_(freep) char *text = read_text("/proc/self/mountinfo");
        bool has_root = false;
        char *rest = text;
        MountLine line;

        if (!text)
                return error_origin(-ENOMEM);
        while (mount_line_next(&rest, &line)) {
                has_root |= string_equal(line.point, "/");
                if (string_empty(host->masked_proc) && string_after(line.point, "/proc/") &&
                    !string_equal(line.type, "binfmt_misc") && !string_equal(line.type, "autofs"))
                        (void) snprintf(host->masked_proc, sizeof(host->masked_proc), "%s",
                                        line.point);
        }
        host->chrooted = *text && !has_root;
        return 0;
}

int host_gather(DoctorFacts *facts) {
        HostFacts *host = &facts->host;
        int r;

        gather_kernel(host);
        gather_user(host);
        gather_sysctls(host);
        gather_apparmor(host);
        r = gather_status(host);
        if (r == 0)
                r = gather_container(host);
        if (r == 0)
                r = gather_mounts(host);
        return error_trace(r);
}

/* --- judges --- */

int judge_kernel(DoctorCheck *check, const DoctorFacts *facts) {
        const HostFacts *host = &facts->host;

        if (host->kernel_major > KERNEL_MAJOR_MIN ||
            (host->kernel_major == KERNEL_MAJOR_MIN && host->kernel_minor >= KERNEL_MINOR_MIN))
                return check_found(check, "Linux %s", host->kernel);
        return check_answer(check, DOCTOR_NO, "run a kernel of Linux 6.1 or newer",
                            "this is Linux %s, older than 6.1",
                            string_empty(host->kernel) ? "of an unknown version" : host->kernel);
}

int judge_container(DoctorCheck *check, const DoctorFacts *facts) {
        const HostFacts *host = &facts->host;

        if (!string_empty(host->container))
                return check_answer(check, DOCTOR_LIMITED,
                                    "what the checks above miss must be allowed from outside",
                                    "this is a container (%s), and can give no more than it was "
                                    "given",
                                    host->container);
        if (!string_empty(host->masked_proc))
                return check_answer(check, DOCTOR_LIMITED,
                                    "if this is a container, unmask its /proc from outside",
                                    "a part of /proc is covered, as container runtimes do: %s",
                                    host->masked_proc);
        if (host->chrooted)
                return check_answer(check, DOCTOR_LIMITED,
                                    "run it outside of the chroot, or enter the folder by "
                                    "pivot_root",
                                    "this is a chroot, in which the kernel refuses user "
                                    "namespaces");
        return 0;
}

int judge_filtered(DoctorCheck *check, const DoctorFacts *facts) {
        const HostFacts *host = &facts->host;

        if (host->seccomp_mode > 0)
                return check_answer(check, DOCTOR_LIMITED,
                                    "what a check above says is refused must be allowed from "
                                    "outside",
                                    "a system call filter is around this program (Seccomp: %ld), "
                                    "and so around every crate",
                                    host->seccomp_mode);
        if (host->no_new_privs)
                return check_found(check, "no new privileges, which crates do not need");
        return 0;
}

int judge_capabilities(DoctorCheck *check, const DoctorFacts *facts) {
        static const struct {
                unsigned bit;
                const char *name;
        } needed[] = {
                {CAP_SYS_ADMIN, "SYS_ADMIN"},
                {CAP_SETUID, "SETUID"},
                {CAP_SETGID, "SETGID"},
                {CAP_NET_ADMIN, "NET_ADMIN"},
                {CAP_SYS_CHROOT, "SYS_CHROOT"},
                {CAP_DAC_OVERRIDE, "DAC_OVERRIDE"},
                {CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH"},
                {CAP_KILL, "KILL"},
        };
        _cleanup_(strbuf_done) StrBuf missing = STRBUF_NULL;
        bool essential = false;
        int r;

        if (!host_is_root(&facts->host))
                return check_found(check, "a plain user needs none");
        for (size_t i = 0; i < ELEMENTSOF(needed); i++) {
                if (facts->host.capabilities & 1ULL << needed[i].bit)
                        continue;
                r = strbuf_appendf(&missing, "%s%s", missing.size > 0 ? " " : "", needed[i].name);
                if (r < 0)
                        return error_trace(r);
                essential |= needed[i].bit == CAP_SYS_ADMIN || needed[i].bit == CAP_SETUID ||
                             needed[i].bit == CAP_SETGID || needed[i].bit == CAP_NET_ADMIN;
        }
        if (missing.size == 0)
                return 0;
        return check_answer(check, essential ? DOCTOR_NO : DOCTOR_LIMITED,
                            "give this root the capabilities (in containers --cap-add), or run as "
                            "a plain user",
                            "this root lacks %s", missing.data);
}

int judge_apparmor(DoctorCheck *check, const DoctorFacts *facts) {
        const HostFacts *host = &facts->host;

        if (host->apparmor_restrict == 1 && !host_is_root(host))
                return check_answer(
                        check, facts->namespaces[DOCTOR_NS_NET].error == 0 ? DOCTOR_YES : DOCTOR_NO,
                        "install AgentCrate's AppArmor profile, or set sysctl "
                        "kernel.apparmor_restrict_unprivileged_userns=0",
                        "AppArmor restricts user namespaces to programs with a profile "
                        "(sysctl kernel.apparmor_restrict_unprivileged_userns is 1)");
        if (!string_empty(host->apparmor_label))
                return check_found(check, "profile %s confines this program", host->apparmor_label);
        return check_found(check, host->apparmor_restrict == 1 ? "restricted, but not for root"
                                                               : "not restricted");
}

int judge_selinux(DoctorCheck *check, const DoctorFacts *facts) {
        switch (facts->host.selinux_enforcing) {
        case 1:
                return check_answer(check, DOCTOR_LIMITED,
                                    "where a step is refused, see ausearch -m avc",
                                    "SELinux is enforcing, and may refuse steps by its policy");
        case 0:
                return check_found(check, "permissive");
        default:
                return check_found(check, "not in use");
        }
}

int judge_userns_clone(DoctorCheck *check, const DoctorFacts *facts) {
        if (facts->host.userns_clone != 0)
                return 0;
        return check_answer(check, host_is_root(&facts->host) ? DOCTOR_LIMITED : DOCTOR_NO,
                            "set sysctl kernel.unprivileged_userns_clone=1",
                            "sysctl kernel.unprivileged_userns_clone is 0: plain users have no "
                            "crates");
}

int judge_yama(DoctorCheck *check, const DoctorFacts *facts) {
        if (facts->host.ptrace_scope >= 2)
                return check_answer(check, DOCTOR_LIMITED,
                                    "set sysctl kernel.yama.ptrace_scope to 0 or 1 if jobs shall "
                                    "use debuggers",
                                    "sysctl kernel.yama.ptrace_scope is %ld: no debugger works in "
                                    "a crate",
                                    facts->host.ptrace_scope);
        if (facts->host.ptrace_scope >= 0)
                return check_found(check, "ptrace_scope %ld", facts->host.ptrace_scope);
        return check_found(check, "not in use");
}

int judge_core_pattern(DoctorCheck *check, const DoctorFacts *facts) {
        const char *pattern = facts->host.core_pattern;

        if (pattern[0] == '|')
                return check_answer(check, DOCTOR_LIMITED,
                                    "nothing for crates by default, whose jobs dump no core; set "
                                    "sysctl kernel.core_pattern to a file name to be sure",
                                    "core dumps go to a program of the host: %.80s", pattern + 1);
        if (pattern[0] == '/')
                return check_found(check, "a path, which is one of the crate's own tree");
        return 0;
}

int judge_memory(DoctorCheck *check, const DoctorFacts *facts) {
        uint64_t limit = facts->install.limits.max[LIMIT_MEMORY], have = facts->host.memory_bytes;
        int r;

        r = check_found(check, "%.1f GiB of memory", (double) have / GIB);
        if (r < 0)
                return error_trace(r);
        if (limit != LIMIT_UNLIMITED && have > 0 && limit > have)
                return check_answer(check, DOCTOR_LIMITED,
                                    "give a limit memory that is below what the host has",
                                    "limit memory %.1fG is above this host's memory of %.1fG: "
                                    "allowed, but the host runs out of memory first",
                                    (double) limit / GIB, (double) have / GIB);
        if (facts->host.overcommit == 2)
                return check_answer(check, DOCTOR_LIMITED, "set sysctl vm.overcommit_memory to 0",
                                    "sysctl vm.overcommit_memory is 2: programs that reserve much "
                                    "memory fail in crates and outside");
        return 0;
}

int judge_groups(DoctorCheck *check, const DoctorFacts *facts) {
        if (host_is_root(&facts->host) || facts->host.n_extra_groups == 0)
                return 0;
        return check_answer(check, DOCTOR_LIMITED,
                            "use the system's broker, or a user without further groups, where that "
                            "matters",
                            "%zu supplementary groups cannot be dropped by a plain user: a job has "
                            "their rights to the files that it is shown",
                            facts->host.n_extra_groups);
}
