/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What seals a crate: system call filters with the answers that the profiles give, and Landlock.
 */

#include <errno.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "doctor/check.h"

static void try_action(Probe *probe, const char *name, uint32_t action) {
        probe_begin(probe, "seccomp-action", name);
        (void) probe_check(probe, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) >= 0);
}

/* The answers of which profiles are made, then a filter that allows all. */
static void try_seccomp(Probe *probe, const void *userdata _unused_) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {.len = 1, .filter = &allow};

        try_action(probe, "allow", SECCOMP_RET_ALLOW);
        if (probe->error == 0)
                try_action(probe, "errno", SECCOMP_RET_ERRNO);
        if (probe->error == 0)
                try_action(probe, "kill-process", SECCOMP_RET_KILL_PROCESS);
        if (probe->error != 0)
                return;
        probe_begin(probe, "no-new-privileges", "");
        if (!probe_check(probe, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) >= 0))
                return;
        probe_begin(probe, "seccomp", "");
        (void) probe_check(probe, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) >= 0);
}

static void try_landlock(Probe *probe, const void *userdata _unused_) {
        probe_begin(probe, "landlock", "");
        probe->value =
                syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        (void) probe_check(probe, probe->value > 0);
}

int filters_gather(DoctorFacts *facts) {
        probe_run(try_seccomp, NULL, &facts->seccomp);
        probe_run(try_landlock, NULL, &facts->landlock);
        return 0;
}

/* --- judges --- */

int judge_seccomp(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->seccomp, DOCTOR_NO);
}

int judge_landlock(DoctorCheck *check, const DoctorFacts *facts) {
        const Probe *probe = &facts->landlock;

        if (probe->error == EOPNOTSUPP) {
                memcpy(check->step, probe->step, sizeof(check->step));
                check->error = probe->error;
                return check_answer(check, DOCTOR_NO,
                                    "boot with landlock in the list of lsm=; until then the "
                                    "profile strict is refused",
                                    "this kernel has Landlock, but it was not enabled at boot "
                                    "(EOPNOTSUPP)");
        }
        if (probe->error == ENOSYS && facts->host.seccomp_mode <= 0) {
                memcpy(check->step, probe->step, sizeof(check->step));
                check->error = probe->error;
                return check_answer(check, DOCTOR_NO,
                                    "run a kernel with CONFIG_SECURITY_LANDLOCK; until then the "
                                    "profile strict is refused",
                                    "this kernel was built without Landlock (ENOSYS)");
        }
        if (probe->error == 0)
                return check_found(check, "ABI %lld", (long long) probe->value);
        return check_probe(check, facts, probe, DOCTOR_NO);
}
