/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"

/* What crates cannot do without comes first, layer by layer as they are made; then what carries
 * limits; then what else is worth knowing. The trial is the last word. */
static const DoctorCheckInfo checks[] = {
        {"kernel", "Linux 6.1 or newer", DOCTOR_REQUIRED, judge_kernel},
        {"configuration", "templates and configuration", DOCTOR_REQUIRED, judge_configuration},
        {"launcher", "program agentcrate-launcher", DOCTOR_REQUIRED, judge_launcher},
        {"id-range", "user ids for crates", DOCTOR_REQUIRED, judge_ids},
        {"capabilities", "capabilities of root", DOCTOR_REQUIRED, judge_capabilities},
        {"namespace-limits", "number of namespaces allowed", DOCTOR_REQUIRED,
         judge_namespace_limits},
        {"user-namespace", "user namespaces", DOCTOR_REQUIRED, judge_user_namespace},
        {"mount-namespace", "mount namespaces", DOCTOR_REQUIRED, judge_mount_namespace},
        {"pid-namespace", "process id namespaces", DOCTOR_REQUIRED, judge_pid_namespace},
        {"ipc-namespace", "IPC namespaces", DOCTOR_REQUIRED, judge_ipc_namespace},
        {"uts-namespace", "host name namespaces", DOCTOR_REQUIRED, judge_uts_namespace},
        {"net-namespace", "network namespaces, with lo", DOCTOR_REQUIRED, judge_net_namespace},
        {"cgroup-namespace", "cgroup namespaces", DOCTOR_REQUIRED, judge_cgroup_namespace},
        {"mount-api", "mounts by file descriptor", DOCTOR_REQUIRED, judge_mount_api},
        {"tmpfs", "tmpfs in a crate", DOCTOR_REQUIRED, judge_tmpfs},
        {"proc", "a /proc of a crate's own", DOCTOR_REQUIRED, judge_proc},
        {"devpts", "terminals in a crate", DOCTOR_REQUIRED, judge_devpts},
        {"mqueue", "message queues in a crate", DOCTOR_REQUIRED, judge_mqueue},
        {"seccomp", "system call filters", DOCTOR_REQUIRED, judge_seccomp},

        {"cgroup2", "cgroup2 hierarchy", DOCTOR_LIMITS, judge_cgroup2},
        {"cgroup-memory", "controller memory", DOCTOR_LIMITS, judge_cgroup_memory},
        {"cgroup-pids", "controller pids", DOCTOR_LIMITS, judge_cgroup_pids},
        {"cgroup-cpu", "controller cpu", DOCTOR_LIMITS, judge_cgroup_cpu},
        {"cgroup-io", "controller io", DOCTOR_LIMITS, judge_cgroup_io},
        {"clone-into-cgroup", "processes started in a cgroup", DOCTOR_LIMITS, judge_clone_into},
        {"cgroup-kill", "killing a whole cgroup", DOCTOR_LIMITS, judge_cgroup_kill},
        {"system-manager", "systemd's system manager", DOCTOR_LIMITS, judge_system_bus},
        {"user-manager", "systemd's user manager", DOCTOR_LIMITS, judge_user_bus},
        {"enforcement", "limits as the broker asks for them", DOCTOR_LIMITS, judge_enforcement},

        {"landlock", "Landlock", DOCTOR_OPTIONAL, judge_landlock},
        {"overlay", "overlay in a user namespace", DOCTOR_OPTIONAL, judge_overlay},
        {"idmap-tmp", "id-mapped mounts of /tmp", DOCTOR_OPTIONAL, judge_idmap_tmp},
        {"idmap-home", "id-mapped mounts of the home", DOCTOR_OPTIONAL, judge_idmap_home},
        {"idmap-cwd", "id-mapped mounts of this folder", DOCTOR_OPTIONAL, judge_idmap_cwd},
        {"container", "not in a container", DOCTOR_OPTIONAL, judge_container},
        {"filtered", "no filter around this program", DOCTOR_OPTIONAL, judge_filtered},
        {"apparmor", "AppArmor allows user namespaces", DOCTOR_OPTIONAL, judge_apparmor},
        {"selinux", "SELinux", DOCTOR_OPTIONAL, judge_selinux},
        {"userns-clone", "user namespaces for plain users", DOCTOR_OPTIONAL, judge_userns_clone},
        {"yama", "Yama", DOCTOR_OPTIONAL, judge_yama},
        {"groups", "no further groups", DOCTOR_OPTIONAL, judge_groups},
        {"core-pattern", "core dumps stay in the crate", DOCTOR_OPTIONAL, judge_core_pattern},
        {"memory", "memory for the limits", DOCTOR_OPTIONAL, judge_memory},
        {"overrides", "installed files are used", DOCTOR_OPTIONAL, judge_overrides},
        {"egress", "program agentcrate-egress", DOCTOR_OPTIONAL, judge_egress},
        {"secrets", "secrets of credentials", DOCTOR_OPTIONAL, judge_secrets},
        {"broker", "the broker", DOCTOR_OPTIONAL, judge_broker},
        {"launcher-service", "the machine's launcher", DOCTOR_OPTIONAL, judge_service},
        {"bind-roots", "what that launcher may show", DOCTOR_OPTIONAL, judge_bind_roots},

        {"trial", "a crate that runs /usr/bin/true", DOCTOR_REQUIRED, judge_trial},
};

const DoctorCheckInfo *doctor_checks(size_t *ret_n) {
        *ret_n = ELEMENTSOF(checks);
        return checks;
}

void doctor_check_done(DoctorCheck *check) {
        free(check->found);
        free(check->cause);
        free(check->remedy);
        *check = (DoctorCheck){};
}

const char *doctor_answer_to_string(DoctorAnswer answer) {
        static const char *const names[] = {"yes", "limited", "no"};

        return names[answer];
}

const char *doctor_need_to_string(DoctorNeed need) {
        static const char *const names[] = {"required", "limits", "optional"};

        return names[need];
}

int check_found(DoctorCheck *check, const char *format, ...) {
        char *text;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                return error_origin(-ENOMEM);
        free(check->found);
        check->found = text;
        return 0;
}

int check_answer(DoctorCheck *check, DoctorAnswer answer, const char *remedy, const char *format,
                 ...) {
        _cleanup_(freep) char *cause = NULL, *copy = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&cause, format, ap);
        va_end(ap);
        if (n < 0) {
                cause = NULL;
                return error_origin(-ENOMEM);
        }
        if (remedy) {
                copy = strdup(remedy);
                if (!copy)
                        return error_origin(-ENOMEM);
        }
        check->answer = answer;
        free(check->cause);
        check->cause = TAKE_PTR(cause);
        free(check->remedy);
        check->remedy = TAKE_PTR(copy);
        return 0;
}
