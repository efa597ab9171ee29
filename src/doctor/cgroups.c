/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cgroup hierarchies: where they are, who holds which controller, what is handed down to us.
 * Only looks: whether a cgroup of our own can be had is for the trial to say.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "cgroup/cgroup-path.h"
#include "cgroup/cgroup.h"
#include "doctor/check.h"
#include "doctor/read.h"

/* The second name is that of a v1 hierarchy. */
static const struct {
        const char *name, *v1;
} controllers[_DOCTOR_CONTROLLER_MAX] = {
        [DOCTOR_CONTROLLER_MEMORY] = {"memory", "memory"},
        [DOCTOR_CONTROLLER_PIDS] = {"pids", "pids"},
        [DOCTOR_CONTROLLER_CPU] = {"cpu", "cpu"},
        [DOCTOR_CONTROLLER_IO] = {"io", "blkio"},
};

/* --- gathering --- */

/* A kernel that knows the flag looks at the descriptor next: no process comes of it. */
static void try_clone_into(Probe *probe, const void *userdata _unused_) {
        struct clone_args args = {
                .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = INT32_MAX};
        long pid;

        probe_begin(probe, "clone-into-cgroup", "");
        pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0)
                _exit(EXIT_SUCCESS);
        (void) probe_check(probe, pid > 0 || errno == EBADF);
}

static int gather_hierarchies(CgroupFacts *facts) {
        _cleanup_(freep) char *text = read_text("/proc/self/mountinfo");
        char *rest = text;
        MountLine line;

        if (!text)
                return error_origin(-ENOMEM);
        while (mount_line_next(&rest, &line)) {
                if (string_equal(line.type, "cgroup2")) {
                        if (!facts->point)
                                facts->point = strdup(line.point);
                        if (!facts->point)
                                return error_origin(-ENOMEM);
                        /* What is mounted later at the same place covers the rest. */
                        if (string_equal(line.point, facts->point))
                                facts->read_only = has_word(line.options, "ro");
                }
                if (!string_equal(line.type, "cgroup"))
                        continue;
                for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                        if (!has_word(line.super, controllers[i].v1) || facts->controllers[i].v1)
                                continue;
                        facts->controllers[i].v1 = strdup(line.point);
                        if (!facts->controllers[i].v1)
                                return error_origin(-ENOMEM);
                }
        }
        return 0;
}

static int gather_own(CgroupFacts *facts) {
        _cleanup_(freep) char *cgroup = read_text("/proc/self/cgroup");
        _cleanup_(freep) char *mountinfo = read_text("/proc/self/mountinfo");
        int r;

        if (!cgroup || !mountinfo)
                return error_origin(-ENOMEM);
        r = cgroup_path_find(cgroup, mountinfo, &facts->own);
        if (r < 0)
                return error_trace(r);
        if (r == CGROUP_PATH_E_NONE)
                facts->own = NULL;
        return 0;
}

static char *read_below(const char *folder, const char *name) {
        _cleanup_(freep) char *path = NULL;

        if (asprintf(&path, "%s/%s", folder ?: "/nonexistent", name) < 0) {
                path = NULL;
                return NULL;
        }
        return read_text(path);
}

static int gather_controllers(CgroupFacts *facts) {
        _cleanup_(freep) char *own = read_below(facts->own, "cgroup.controllers");
        _cleanup_(freep) char *below = read_below(facts->own, "cgroup.subtree_control");
        _cleanup_(freep) char *root = read_below(facts->point, "cgroup.controllers");
        _cleanup_(freep) char *kernel = read_text("/proc/cgroups");

        if (!own || !below || !root || !kernel)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                const char *name = controllers[i].name;
                char line[32];

                (void) snprintf(line, sizeof(line), "\n%s\t", controllers[i].v1);
                facts->controllers[i].in_own = has_word(own, name);
                /* Only the real root may hold processes and pass on what it has. */
                facts->controllers[i].in_child = has_word(facts->is_root ? own : below, name);
                facts->controllers[i].in_root = has_word(root, name);
                facts->controllers[i].in_kernel = strstr(kernel, line);
        }
        return 0;
}

/* The file is in every cgroup but the root. */
static void gather_folder(CgroupFacts *facts) {
        int fd;

        if (!facts->own)
                return;
        fd = open(facts->own, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return;
        facts->is_root = faccessat(fd, "cgroup.type", F_OK, 0) < 0;
        facts->kill_known = !facts->is_root;
        facts->has_kill = faccessat(fd, "cgroup.kill", F_OK, 0) == 0;
        if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ||
            faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
                facts->write_error = errno;
        (void) close(fd);
}

int cgroups_gather(DoctorFacts *facts) {
        CgroupFacts *cgroup = &facts->cgroup;
        int r;

        cgroup->systemd = cgroup_host_has_systemd();
        probe_run(try_clone_into, NULL, &cgroup->clone_into);
        r = cgroup_host_check(&cgroup->host_reason);
        if (r < 0)
                return error_trace(r);
        r = gather_hierarchies(cgroup);
        if (r == 0)
                r = gather_own(cgroup);
        if (r < 0)
                return error_trace(r);
        gather_folder(cgroup);
        return error_trace(gather_controllers(cgroup));
}

/* --- judges --- */

int judge_cgroup2(DoctorCheck *check, const DoctorFacts *facts) {
        const CgroupFacts *cgroup = &facts->cgroup;
        int r;

        if (!cgroup->point)
                return check_answer(check, DOCTOR_NO,
                                    "boot with the unified hierarchy "
                                    "(systemd.unified_cgroup_hierarchy=1), or mount cgroup2",
                                    "no cgroup2 is mounted");
        r = check_found(check, "at %s", cgroup->point);
        if (r < 0)
                return error_trace(r);
        if (!cgroup->own)
                return check_answer(check, DOCTOR_NO,
                                    "in a container, give it a cgroup namespace of its own "
                                    "(--cgroupns=private)",
                                    "the cgroup of this process is not within reach below %s",
                                    cgroup->point);
        if (cgroup->read_only)
                return check_answer(check, DOCTOR_NO,
                                    "mount it writable: in containers by a cgroup namespace and a "
                                    "writable /sys/fs/cgroup",
                                    "%s is mounted read-only", cgroup->point);
        return 0;
}

/* Where systemd runs, only it hands cgroups out. The trial has asked for one. */
static int judge_given(DoctorCheck *check, const DoctorFacts *facts, DoctorController which) {
        const TrialFacts *trial = &facts->trial;

        if (trial->cgroup_has[which])
                return check_found(check, facts->cgroup.systemd
                                                  ? "in a cgroup of the service manager's"
                                                  : "below the own cgroup");
        if (!trial->has_cgroup)
                return check_answer(check, DOCTOR_NO, "see the checks of systemd's managers", "%s",
                                    trial->cgroup_reason ?: "no cgroup was given");
        return check_answer(check, DOCTOR_NO,
                            "hand it down: Delegate= of user@.service for users, of the unit for "
                            "services",
                            "%s",
                            trial->cgroup_lacks[which] ?: "the manager does not hand it down");
}

/* Without systemd, a cgroup is made below the own one. */
static int judge_own(DoctorCheck *check, const DoctorFacts *facts, DoctorController which) {
        const CgroupFacts *cgroup = &facts->cgroup;

        if (cgroup->read_only || cgroup->write_error != 0) {
                check->error = cgroup->read_only ? EROFS : cgroup->write_error;
                (void) snprintf(check->step, sizeof(check->step), "cgroup-write");
                return check_answer(check, DOCTOR_NO,
                                    "make the own cgroup writable: hand it to this user, or in a "
                                    "container mount it writable in a cgroup namespace",
                                    "the own cgroup %s is not writable (%s)", cgroup->own,
                                    strerrorname_np(check->error) ?: "?");
        }
        if (cgroup->controllers[which].in_child)
                return check_found(check, "below the own cgroup");
        return check_answer(check, DOCTOR_NO,
                            "add it to cgroup.subtree_control of the own cgroup and those above, "
                            "which needs that no process sits in them",
                            "the own cgroup %s does not pass it on to cgroups below", cgroup->own);
}

static int judge_controller(DoctorCheck *check, const DoctorFacts *facts, DoctorController which) {
        const CgroupFacts *cgroup = &facts->cgroup;
        const char *name = controllers[which].name, *v1 = cgroup->controllers[which].v1;

        if (v1)
                return check_answer(check, DOCTOR_NO,
                                    "boot with systemd.unified_cgroup_hierarchy=1, or with "
                                    "cgroup_no_v1=all",
                                    "a cgroup v1 hierarchy holds it, at %s", v1);
        if (!cgroup->point || !cgroup->own)
                return check_answer(check, DOCTOR_NO, "see the check cgroup2",
                                    "there is no cgroup2 that we could use");
        if (cgroup->host_reason)
                return check_answer(check, DOCTOR_NO, NULL, "%s", cgroup->host_reason);
        if (!cgroup->controllers[which].in_root && !cgroup->controllers[which].in_own)
                return check_answer(check, DOCTOR_NO,
                                    "run a kernel that has the controller, and do not boot with "
                                    "cgroup_disable=",
                                    "the hierarchy at %s does not have controller %s%s",
                                    cgroup->point, name,
                                    cgroup->controllers[which].in_kernel
                                            ? ", though the kernel does: it is held or disabled "
                                              "elsewhere"
                                            : "");
        return cgroup->systemd || facts->trial.has_cgroup ? judge_given(check, facts, which)
                                                          : judge_own(check, facts, which);
}

int judge_cgroup_memory(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_controller(check, facts, DOCTOR_CONTROLLER_MEMORY);
}

int judge_cgroup_pids(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_controller(check, facts, DOCTOR_CONTROLLER_PIDS);
}

int judge_cgroup_cpu(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_controller(check, facts, DOCTOR_CONTROLLER_CPU);
}

int judge_cgroup_io(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_controller(check, facts, DOCTOR_CONTROLLER_IO);
}

int judge_clone_into(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->cgroup.clone_into, DOCTOR_NO);
}

int judge_cgroup_kill(DoctorCheck *check, const DoctorFacts *facts) {
        const CgroupFacts *cgroup = &facts->cgroup;

        if (cgroup->has_kill)
                return 0;
        if (!cgroup->kill_known)
                return facts->host.kernel_major > 5 || (facts->host.kernel_major == 5 &&
                                                        facts->host.kernel_minor >= 14)
                               ? check_found(check, "by the version of the kernel")
                               : check_answer(check, DOCTOR_NO,
                                              "run a kernel of Linux 6.1 or newer",
                                              "this kernel has no cgroup.kill");
        return check_answer(check, DOCTOR_NO, "run a kernel of Linux 6.1 or newer",
                            "there is no file cgroup.kill in %s", cgroup->own);
}
