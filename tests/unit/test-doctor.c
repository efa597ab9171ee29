/* SPDX-License-Identifier: Apache-2.0 */

/* What doctor concludes, from facts of hosts that are not at hand. */

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/read.h"
#include "doctor/unit-credentials.h"
#include "tests/unit/suite.h"

/* A plain user's host where everything works. */
static DoctorFacts good_facts(void) {
        DoctorFacts facts = {
                .host = {.uid = 1000,
                         .gid = 1000,
                         .user = "somebody",
                         .kernel = "6.1.0",
                         .kernel_major = 6,
                         .kernel_minor = 1,
                         .userns_clone = -1,
                         .apparmor_restrict = -1,
                         .ptrace_scope = -1,
                         .selinux_enforcing = -1,
                         .memory_bytes = 8ULL << 30},
                .landlock = {.done = true, .value = 2},
                .seccomp = {.done = true},
                .trial = {.passed = true, .has_cgroup = true},
        };

        config_init(&facts.install.config);
        limits_init(&facts.install.limits);
        for (size_t i = 0; i < _DOCTOR_NS_MAX; i++) {
                facts.host.max_namespaces[i] = 1000;
                facts.namespaces[i].done = true;
        }
        for (size_t i = 0; i < _DOCTOR_MOUNT_MAX; i++)
                facts.mounts[i].done = true;
        facts.cgroup.clone_into.done = true;
        facts.cgroup.systemd = facts.cgroup.has_kill = facts.cgroup.kill_known = true;
        facts.cgroup.point = strdup("/sys/fs/cgroup");
        facts.cgroup.own = strdup("/sys/fs/cgroup/user.slice");
        for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                facts.cgroup.controllers[i].in_root = true;
                facts.trial.cgroup_has[i] = true;
        }
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                facts.trial.limits[name].means = LIMIT_BY_CGROUP;
        facts.bus[DOCTOR_BUS_USER].done = facts.bus[DOCTOR_BUS_SYSTEM].done = true;
        facts.install.launcher = strdup("/usr/libexec/agentcrate/agentcrate-launcher");
        facts.install.broker_socket = strdup("/run/user/1000/agentcrate/agentcrate.sock");
        return facts;
}

static const DoctorCheck *find(const DoctorReport *report, const char *id) {
        for (size_t i = 0; i < report->n_checks; i++)
                if (string_equal(report->checks[i].id, id))
                        return &report->checks[i];
        ck_abort_msg("no check %s", id);
}

static void set_text(char *target, const char *text, size_t size) {
        (void) snprintf(target, size, "%s", text);
}

static void fail_probe(Probe *probe, const char *step, int error) {
        probe->done = true;
        probe->error = error;
        (void) snprintf(probe->step, sizeof(probe->step), "%s", step);
}

/* --- the table --- */

START_TEST(test_table) {
        const DoctorCheckInfo *infos;
        size_t n;

        infos = doctor_checks(&n);
        ck_assert_uint_gt(n, 30);
        for (size_t i = 0; i < n; i++) {
                ck_assert_ptr_nonnull(infos[i].judge);
                ck_assert_uint_gt(strlen(infos[i].title), 0);
                ck_assert_uint_le(strlen(infos[i].title), 34);
                ck_assert_uint_eq(strspn(infos[i].id, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                                  strlen(infos[i].id));
                for (size_t j = 0; j < i; j++)
                        ck_assert_str_ne(infos[i].id, infos[j].id);
        }
        ck_assert_str_eq(infos[n - 1].id, "trial");
}
END_TEST

/* The machine's broker: its launcher is looked at for root, and what agentcrated.json asks for. */
START_TEST(test_service) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();
        const DoctorCheck *check;

        facts.host.uid = 0;
        facts.install.ids_mapped = true;
        facts.install.service_error = ENOENT;
        facts.install.roots_fault = "the path is not absolute";
        facts.install.roots_line = 7;
        facts.trial.enforce = ENFORCE_STRICT;
        facts.trial.enforce_text = strdup("limit memory: only sampling could enforce it here");
        facts.trial.enforce_remedy = strdup("be content with less");
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);

        check = find(&report, "launcher-service");
        ck_assert_int_eq(check->answer, DOCTOR_NO);
        ck_assert_int_eq(check->error, ENOENT);
        ck_assert_ptr_nonnull(strstr(check->remedy, "agentcrate-launcher.socket"));
        check = find(&report, "bind-roots");
        ck_assert_int_eq(check->answer, DOCTOR_NO);
        ck_assert_ptr_nonnull(strstr(check->cause, "/bind-roots:7: the path is not absolute"));
        check = find(&report, "enforcement");
        ck_assert_int_eq(check->answer, DOCTOR_NO);
        ck_assert_str_eq(check->cause, "limit memory: only sampling could enforce it here");
        ck_assert_str_eq(check->remedy, "be content with less");
        /* None of them keeps agentcrate-run, or a user's broker, from making crates. */
        ck_assert(report.can_run);
}
END_TEST

START_TEST(test_good_host) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();

        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        for (size_t i = 0; i < report.n_checks; i++) {
                ck_assert_msg(report.checks[i].answer == DOCTOR_YES, "%s: %s", report.checks[i].id,
                              report.checks[i].cause ?: "?");
                ck_assert_ptr_null(report.checks[i].cause);
                ck_assert_ptr_null(report.checks[i].remedy);
        }
        ck_assert(report.can_run);
        ck_assert_int_eq(doctor_exit_status(&report), DOCTOR_EXIT_GOOD);
}
END_TEST

/* --- causes --- */

static void old_kernel(DoctorFacts *facts) {
        facts->host.kernel_major = 5;
        facts->host.kernel_minor = 10;
        fail_probe(&facts->mounts[DOCTOR_MOUNT_API], "mount_setattr", ENOSYS);
}

static void hiding_filter(DoctorFacts *facts) {
        facts->host.seccomp_mode = 2;
        fail_probe(&facts->mounts[DOCTOR_MOUNT_API], "mount_setattr", ENOSYS);
}

static void no_such_feature(DoctorFacts *facts) {
        fail_probe(&facts->mounts[DOCTOR_MOUNT_API], "mount_setattr", ENOSYS);
}

static void killing_filter(DoctorFacts *facts) {
        fail_probe(&facts->mounts[DOCTOR_MOUNT_API], "open_tree", EINTR);
        facts->mounts[DOCTOR_MOUNT_API].signal = SIGSYS;
}

static void hanging(DoctorFacts *facts) {
        fail_probe(&facts->mounts[DOCTOR_MOUNT_API], "open_tree", ETIMEDOUT);
}

static void sysctl_zero(DoctorFacts *facts) {
        facts->host.max_namespaces[DOCTOR_NS_USER] = 0;
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "user-namespace", ENOSPC);
}

static void used_up(DoctorFacts *facts) {
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "clone", ENOSPC);
}

static void debian_clone(DoctorFacts *facts) {
        facts->host.userns_clone = 0;
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "user-namespace", EPERM);
}

static void apparmor(DoctorFacts *facts) {
        facts->host.apparmor_restrict = 1;
        fail_probe(&facts->namespaces[DOCTOR_NS_NET], "lo-up", EPERM);
}

/* One behind the other, as in a container on such a host. */
static void layers(DoctorFacts *facts) {
        facts->host.seccomp_mode = 2;
        facts->host.apparmor_restrict = 1;
        set_text(facts->host.apparmor_label, "docker-default (enforce)",
                 sizeof(facts->host.apparmor_label));
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "user-namespace", EPERM);
}

static void selinux(DoctorFacts *facts) {
        facts->host.selinux_enforcing = 1;
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "user-namespace", EACCES);
}

static void in_chroot(DoctorFacts *facts) {
        facts->host.chrooted = true;
        fail_probe(&facts->namespaces[DOCTOR_NS_USER], "user-namespace", EPERM);
}

static void poor_root(DoctorFacts *facts) {
        facts->host.uid = 0;
        fail_probe(&facts->namespaces[DOCTOR_NS_MOUNT], "mount-namespace", EPERM);
}

static void masked(DoctorFacts *facts) {
        set_text(facts->host.masked_proc, "/proc/kcore", sizeof(facts->host.masked_proc));
        fail_probe(&facts->mounts[DOCTOR_MOUNT_PROC], "fsmount", EPERM);
        set_text(facts->mounts[DOCTOR_MOUNT_PROC].path, "proc", PROBE_PATH_MAX);
}

static void landlock_off(DoctorFacts *facts) {
        fail_probe(&facts->landlock, "landlock", EOPNOTSUPP);
}

static void no_idmap(DoctorFacts *facts) {
        facts->host.uid = 0;
        facts->folders[DOCTOR_FOLDER_HOME].path = strdup("/root");
        facts->folders[DOCTOR_FOLDER_HOME].type = strdup("nfs");
        fail_probe(&facts->folders[DOCTOR_FOLDER_HOME].idmap, "id-map-mount", EINVAL);
}

static void hybrid(DoctorFacts *facts) {
        facts->cgroup.controllers[DOCTOR_CONTROLLER_MEMORY].v1 = strdup("/sys/fs/cgroup/memory");
}

static void not_handed_down(DoctorFacts *facts) {
        facts->trial.cgroup_has[DOCTOR_CONTROLLER_IO] = false;
        facts->trial.cgroup_lacks[DOCTOR_CONTROLLER_IO] = strdup("io was not delegated");
}

static void silent_manager(DoctorFacts *facts) {
        fail_probe(&facts->bus[DOCTOR_BUS_USER], "bus-ping", ETIMEDOUT);
}

static void small_memory(DoctorFacts *facts) {
        facts->install.limits.max[LIMIT_MEMORY] = 16ULL << 30;
}

static void core_pipe(DoctorFacts *facts) {
        set_text(facts->host.core_pattern, "|/usr/lib/dumper %P", sizeof(facts->host.core_pattern));
}

static void groups(DoctorFacts *facts) {
        facts->host.n_extra_groups = 3;
}

static const struct {
        void (*host)(DoctorFacts *facts);
        const char *id;
        DoctorAnswer answer;
        const char *cause, *remedy; /* parts; NULL: any */
} cases[] = {
        {old_kernel, "kernel", DOCTOR_NO, "older than 6.1", "Linux 6.1 or newer"},
        {old_kernel, "mount-api", DOCTOR_NO, "too old", "Linux 6.1 or newer"},
        {hiding_filter, "mount-api", DOCTOR_NO, "(ENOSYS); this kernel has the call", "seccomp="},
        {no_such_feature, "mount-api", DOCTOR_NO, "was built without it", "distribution"},
        {killing_filter, "mount-api", DOCTOR_NO, "step open_tree was ended by signal SYS",
         "seccomp="},
        {hanging, "mount-api", DOCTOR_NO, "step open_tree did not end within 5 s", NULL},
        {sysctl_zero, "user-namespace", DOCTOR_NO, "is 0 here", "user.max_user_namespaces"},
        {sysctl_zero, "namespace-limits", DOCTOR_NO, "user.max_user_namespaces is 0", "above 0"},
        {used_up, "user-namespace", DOCTOR_NO, "is used up", "user.max_"},
        {debian_clone, "user-namespace", DOCTOR_NO, "kernel.unprivileged_userns_clone is 0", "=1"},
        {debian_clone, "userns-clone", DOCTOR_NO, "plain users have no crates", "=1"},
        {apparmor, "net-namespace", DOCTOR_NO, "step lo-up failed", "AppArmor profile"},
        {apparmor, "apparmor", DOCTOR_NO, "AppArmor restricts", "AppArmor profile"},
        {layers, "user-namespace", DOCTOR_NO,
         "AppArmor restricts user namespaces of plain users; then a system call filter is around "
         "this program; then an AppArmor profile",
         "seccomp=unconfined"},
        {selinux, "user-namespace", DOCTOR_NO, "SELinux is enforcing", "ausearch"},
        {selinux, "selinux", DOCTOR_LIMITED, "enforcing", "ausearch"},
        {in_chroot, "user-namespace", DOCTOR_NO, "chroot", "pivot_root"},
        {poor_root, "mount-namespace", DOCTOR_NO, "no CAP_SYS_ADMIN", "SYS_ADMIN"},
        {poor_root, "capabilities", DOCTOR_NO, "lacks SYS_ADMIN SETUID", "--cap-add"},
        {masked, "proc", DOCTOR_NO, "masked, at /proc/kcore", "unmask=ALL"},
        {masked, "container", DOCTOR_LIMITED, "/proc/kcore", "unmask"},
        {landlock_off, "landlock", DOCTOR_NO, "not enabled at boot", "lsm="},
        {no_idmap, "idmap-home", DOCTOR_NO, "cannot map the ids of nfs", "ext4"},
        {hybrid, "cgroup-memory", DOCTOR_NO, "v1 hierarchy holds it, at /sys/fs/cgroup/memory",
         "systemd.unified_cgroup_hierarchy=1"},
        {not_handed_down, "cgroup-io", DOCTOR_NO, "io was not delegated", "Delegate="},
        {silent_manager, "user-manager", DOCTOR_NO, "nobody answers", "linger"},
        {small_memory, "memory", DOCTOR_LIMITED,
         "limit memory 16.0G is above this host's memory of 8.0G: allowed", "below"},
        {core_pipe, "core-pattern", DOCTOR_LIMITED, "/usr/lib/dumper", "core_pattern"},
        {groups, "groups", DOCTOR_LIMITED, "3 supplementary groups cannot be dropped", NULL},
};

START_TEST(test_cause) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();
        const DoctorCheck *check;

        cases[_i].host(&facts);
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        check = find(&report, cases[_i].id);
        ck_assert_str_eq(doctor_answer_to_string(check->answer),
                         doctor_answer_to_string(cases[_i].answer));
        ck_assert_msg(check->cause && strstr(check->cause, cases[_i].cause), "cause: %s",
                      check->cause ?: "none");
        if (cases[_i].remedy)
                ck_assert_msg(check->remedy && strstr(check->remedy, cases[_i].remedy),
                              "remedy: %s", check->remedy ?: "none");
}
END_TEST

/* --- limits and the exit status --- */

static const DoctorLimit *limit(const DoctorReport *report, LimitName name) {
        ck_assert_str_eq(report->limits[name].name, limit_to_string(name));
        return &report->limits[name];
}

START_TEST(test_exit_status) {
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();
        DoctorReport report;

        /* What no job has by default may be refused. */
        facts.trial.limits[LIMIT_IO_READ_BPS] = (LimitFacts){.refused = true};
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        ck_assert_str_eq(limit(&report, LIMIT_IO_READ_BPS)->enforced_by, "refused");
        ck_assert_int_eq(doctor_exit_status(&report), DOCTOR_EXIT_GOOD);
        doctor_report_done(&report);

        facts.trial.limits[LIMIT_MEMORY].means = LIMIT_BY_SAMPLER;
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        ck_assert_str_eq(limit(&report, LIMIT_MEMORY)->enforced_by, "sampler");
        ck_assert_int_eq(doctor_exit_status(&report), DOCTOR_EXIT_LIMITED);
        doctor_report_done(&report);

        facts.trial.passed = false;
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        ck_assert_int_eq(doctor_exit_status(&report), DOCTOR_EXIT_NO_CRATES);
        doctor_report_done(&report);
}
END_TEST

/* A reason stands where it is not a cgroup that enforces it though one could. */
START_TEST(test_limit_reason) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();

        hybrid(&facts);
        facts.trial.limits[LIMIT_MEMORY].means = LIMIT_BY_SAMPLER;
        facts.trial.limits[LIMIT_DISK].means = LIMIT_BY_MOUNT;
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        ck_assert_str_eq(limit(&report, LIMIT_MEMORY)->reason,
                         "no controller memory: a cgroup v1 hierarchy holds it, at "
                         "/sys/fs/cgroup/memory");
        ck_assert_ptr_null(limit(&report, LIMIT_DISK)->reason);
        ck_assert_ptr_null(limit(&report, LIMIT_PIDS)->reason);
}
END_TEST

/* Root without systemd: no cgroup was made for the trial, but crates would have one. */
START_TEST(test_untried_cgroup) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();

        facts.cgroup.systemd = facts.trial.has_cgroup = false;
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                facts.trial.limits[name].means = LIMIT_BY_SAMPLER;
        facts.cgroup.controllers[DOCTOR_CONTROLLER_MEMORY].in_child = true;
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        ck_assert_str_eq(limit(&report, LIMIT_MEMORY)->enforced_by, "cgroup");
        ck_assert_str_eq(limit(&report, LIMIT_CPU_TIME)->enforced_by, "cgroup");
        ck_assert_str_eq(limit(&report, LIMIT_PIDS)->enforced_by, "sampler");
}
END_TEST

/* --- the form --- */

START_TEST(test_json) {
        static const char *const members[] = {"id",    "title", "need",  "answer", "found",
                                              "cause", "step",  "errno", "remedy"};
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(doctor_facts_done) DoctorFacts facts = good_facts();
        json_t *json, *checks;

        sysctl_zero(&facts);
        free(facts.install.launcher);
        /* Paths may hold any bytes. */
        facts.install.launcher = strdup("/opt/\xff");
        ck_assert_int_eq(doctor_judge(&facts, &report), 0);
        json = doctor_to_json(&report);
        ck_assert_ptr_nonnull(json);
        ck_assert(json_is_true(json_object_get(json, "can_run")));
        ck_assert_str_eq(json_string_value(json_object_get(json, "user")), "somebody");
        ck_assert_str_eq(json_string_value(json_object_get(json, "kernel")), "6.1.0");
        checks = json_object_get(json, "checks");
        ck_assert_uint_eq(json_array_size(checks), report.n_checks);
        for (size_t i = 0; i < json_array_size(checks); i++) {
                json_t *check = json_array_get(checks, i);

                ck_assert_uint_eq(json_object_size(check), ELEMENTSOF(members));
                for (size_t j = 0; j < ELEMENTSOF(members); j++)
                        ck_assert_ptr_nonnull(json_object_get(check, members[j]));
                if (string_equal(json_string_value(json_object_get(check, "id")), "user-namespace"))
                        ck_assert_str_eq(json_string_value(json_object_get(check, "errno")),
                                         "ENOSPC");
        }
        ck_assert_uint_eq(json_array_size(json_object_get(json, "limits")), _LIMIT_MAX);
        json_decref(json);
}
END_TEST

/* --- probes --- */

static void probe_good(Probe *probe, const void *userdata) {
        probe_begin(probe, "step", "path");
        probe->value = *(const int *) userdata;
}

static void probe_bad(Probe *probe, const void *userdata _unused_) {
        probe_begin(probe, "first", "");
        errno = EXDEV;
        (void) probe_check(probe, false);
}

static void probe_killed(Probe *probe, const void *userdata _unused_) {
        probe_begin(probe, "deadly", "");
        (void) kill(getpid(), SIGKILL);
}

static void probe_hanging(Probe *probe, const void *userdata _unused_) {
        probe_begin(probe, "endless", "");
        for (;;)
                (void) pause();
}

START_TEST(test_probe) {
        size_t before = count_open_fds();
        int value = 7;
        Probe probe;

        probe_run(probe_good, &value, &probe);
        ck_assert(probe.done);
        ck_assert_int_eq(probe.error, 0);
        ck_assert_int_eq(probe.value, 7);
        probe_run(probe_bad, NULL, &probe);
        ck_assert_int_eq(probe.error, EXDEV);
        ck_assert_str_eq(probe.step, "first");
        probe_run(probe_killed, NULL, &probe);
        ck_assert_int_eq(probe.error, EINTR);
        ck_assert_int_eq(probe.signal, SIGKILL);
        ck_assert_str_eq(probe.step, "deadly");
        probe_run(probe_hanging, NULL, &probe);
        ck_assert_int_eq(probe.error, ETIMEDOUT);
        ck_assert_str_eq(probe.step, "endless");
        ck_assert_uint_eq(count_open_fds(), before);
}
END_TEST

/* --- texts of the kernel's --- */

START_TEST(test_mount_lines) {
        char text[] = "21 26 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
                      "not understood\n"
                      "40 30 0:37 / /sys/fs/cgroup ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n";
        char *rest = text;
        MountLine line;

        ck_assert(mount_line_next(&rest, &line));
        ck_assert_uint_eq(line.id, 21);
        ck_assert_str_eq(line.point, "/proc");
        ck_assert_str_eq(line.type, "proc");
        ck_assert(mount_line_next(&rest, &line));
        ck_assert_str_eq(line.type, "cgroup");
        ck_assert(has_word(line.options, "ro"));
        ck_assert(has_word(line.super, "cpu"));
        ck_assert(!has_word(line.super, "cpua"));
        ck_assert(!mount_line_next(&rest, &line));
        ck_assert_uint_eq(text_number("A:\t1\nSeccomp:\t2\n", "Seccomp", 10, 9), 2);
        ck_assert_uint_eq(text_number("CapEff:\t00ff\n", "CapEff", 16, 9), 255);
        ck_assert_uint_eq(text_number("A:\t1\n", "B", 10, 9), 9);
}
END_TEST

/* --- credentials of a unit --- */

static const struct {
        const char *text, *name, *source;
        bool is_there, encrypted;
} unit_cases[] = {
        {"[Service]\nLoadCredential=a:/x\n", "a", "/x", true, false},
        {"[Service]\nLoadCredential=a:/x", "a", "/x", true, false},
        {"[Service]\r\nLoadCredential=a:/x\r\n", "a", "/x", true, false},
        {"[Service]\n LoadCredential = a:/x \n", "a", "/x", true, false},
        {"[Service]\nLoadCredentialEncrypted=a:/x:y\n", "a", "/x:y", true, true},
        {"[Service]\nLoadCredential=\\\n# no\n; no\n a:/x\n", "a", "/x", true, false},
        {"[Service]\nLoadCredential=a:/x\\", "a", "/x", true, false},
        {"[Service]\nLoadCredential=a:/x\nLoadCredential=a:/y\n", "a", "/y", true, false},
        {"[Service]\nLoadCredential=a:/x\nLoadCredentialEncrypted=\n", "a", NULL, false, false},
        {"[Service]\nLoadCredential=a:/x\nSetCredential=\n", "a", "/x", true, false},
        {"[Service]\nSetCredential=a:x\nLoadCredential=\n", "a", NULL, true, false},
        {"[Service]\nLoadCredential=a:/x\n[Install]\nLoadCredential=\n", "a", "/x", true, false},
        {"LoadCredential=a:/x\n", "a", NULL, false, false},
        {"[Unit]\nLoadCredential=a:/x\n", "a", NULL, false, false},
        {"[Service]\n#LoadCredential=a:/x\n", "a", NULL, false, false},
        {"[Service]\nLoadCredential=ab:/x\n", "a", NULL, false, false},
        {"[Service]\nLoadCredentials=a:/x\n", "a", NULL, false, false},
        {"[Service]\nLoadCredential=a:%d/x\n", "a", NULL, true, false},
        {"[Service]\nLoadCredential=a\n", "a", "/etc/credstore/a", true, false},
        {"[Service]\nLoadCredentialEncrypted=a:b\n", "a", "/etc/credstore.encrypted/b", true, true},
        {"[Service]\nLoadCredential=usr:/usr\n", "usr_bin", "/usr/bin", true, false},
        {"[Service]\nLoadCredential=usr:/nowhere\n", "usr_bin", NULL, false, false},
        {"[Service]\nLoadCredential=usr:/usr\n", "usr_", NULL, false, false},
        {"", "a", NULL, false, false},
        {"[Service]\n\n\n=\n", "a", NULL, false, false},
};

START_TEST(test_unit_credentials) {
        _cleanup_(unit_credentials_done) UnitCredentials credentials = UNIT_CREDENTIALS_NULL;
        _cleanup_(freep) char *path = NULL;
        const UnitCredential *found;

        ck_assert_int_eq(unit_credentials_parse(unit_cases[_i].text, &credentials), 0);
        ck_assert_int_eq(unit_credentials_find(&credentials, unit_cases[_i].name, &found, &path),
                         0);
        ck_assert_int_eq(found != NULL, unit_cases[_i].is_there);
        ck_assert_pstr_eq(path, unit_cases[_i].source);
        if (found)
                ck_assert_int_eq(found->encrypted, unit_cases[_i].encrypted);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("doctor");

        tcase_set_timeout(tcase, 30);
        tcase_add_test(tcase, test_table);
        tcase_add_test(tcase, test_good_host);
        tcase_add_loop_test(tcase, test_cause, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_exit_status);
        tcase_add_test(tcase, test_service);
        tcase_add_test(tcase, test_limit_reason);
        tcase_add_test(tcase, test_untried_cgroup);
        tcase_add_test(tcase, test_json);
        tcase_add_test(tcase, test_probe);
        tcase_add_test(tcase, test_mount_lines);
        tcase_add_loop_test(tcase, test_unit_credentials, 0, ELEMENTSOF(unit_cases));
        return suite_run("doctor", tcase);
}
