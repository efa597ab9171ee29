/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a crate mounts, tried in namespaces of a child: when that ends nothing of it is left.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "doctor/check.h"
#include "doctor/read.h"
#include "doctor/try.h"

typedef struct MountInfo {
        const char *type;
        const char *options[6];
} MountInfo;

static const MountInfo infos[_DOCTOR_MOUNT_MAX] = {
        [DOCTOR_MOUNT_TMPFS] = {"tmpfs", {"mode", "0755", "size", "64k", NULL, NULL}},
        [DOCTOR_MOUNT_PROC] = {"proc", {"hidepid", "invisible", NULL, NULL}},
        [DOCTOR_MOUNT_DEVPTS] = {"devpts", {"newinstance", NULL, "ptmxmode", "0666", NULL, NULL}},
        [DOCTOR_MOUNT_MQUEUE] = {"mqueue", {NULL, NULL}},
};

/* A tmpfs over "/", which the child stands in afterwards. */
static bool try_scratch(Probe *probe) {
        _cleanup_(fd_closep) int fd = -EBADF;

        fd = try_mount(probe, "tmpfs", infos[DOCTOR_MOUNT_TMPFS].options);
        if (fd < 0)
                return false;
        probe_begin(probe, "move_mount", "/");
        return probe_check(probe, move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) >= 0 &&
                                          fchdir(fd) >= 0);
}

/* As the launcher shows a folder of the host in a crate's tree. */
static void try_api(Probe *probe, const void *userdata _unused_) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
        _cleanup_(fd_closep) int fd = -EBADF;

        if (!try_outer(probe))
                return;
        probe_begin(probe, "open_tree", "/");
        fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (!probe_check(probe, fd >= 0))
                return;
        probe_begin(probe, "mount_setattr", "/");
        if (!probe_check(probe, mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                                              sizeof(attr)) >= 0))
                return;
        (void) try_scratch(probe);
}

/* In the child's child, which is pid 1 of its namespace: only there a /proc can be mounted. */
static void mount_in_child(Probe *probe, const MountInfo *info) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int status = -1;
        pid_t pid;

        pid = fork();
        if (pid == 0) {
                probe_die_with_parent();
                fd = try_mount(probe, info->type, info->options);
                _exit(EXIT_SUCCESS);
        }
        if (!probe_check(probe, pid > 0 && waitpid(pid, &status, 0) == pid))
                return;
        if (status != 0)
                probe->error = EINTR;
}

static void try_file_system(Probe *probe, const void *userdata) {
        if (!try_crate(probe))
                return;
        probe_begin(probe, "clone", "");
        if (probe_check(probe, unshare(CLONE_NEWPID | CLONE_NEWIPC) >= 0))
                mount_in_child(probe, userdata);
}

static void try_overlay(Probe *probe, const void *userdata _unused_) {
        static const char *const options[] = {"lowerdir", "lower", "upperdir",  "upper",
                                              "workdir",  "work",  "userxattr", NULL,
                                              NULL,       NULL};
        _cleanup_(fd_closep) int fd = -EBADF;

        if (!try_crate(probe) || !try_scratch(probe))
                return;
        probe_begin(probe, "mkdir", "");
        if (!probe_check(probe, mkdir("lower", 0700) >= 0 && mkdir("upper", 0700) >= 0 &&
                                        mkdir("work", 0700) >= 0))
                return;
        fd = try_mount(probe, "overlay", options);
}

typedef struct FolderTrial {
        const char *path;
        uint32_t id; /* the host's id for the crate's user */
} FolderTrial;

static void try_folder(Probe *probe, const void *userdata) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
        _cleanup_(fd_closep) int mount_fd = -EBADF, user_fd = -EBADF;
        const FolderTrial *folder = userdata;
        struct stat st;

        if (!try_outer(probe))
                return;
        probe_begin(probe, "late-bind", folder->path);
        mount_fd = open_tree(AT_FDCWD, folder->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (!probe_check(probe, mount_fd >= 0 && fstat(mount_fd, &st) >= 0))
                return;
        user_fd = try_idmap(probe, st.st_uid, folder->id);
        if (user_fd < 0)
                return;
        attr.userns_fd = (uint64_t) user_fd;
        probe_begin(probe, "id-map-mount", folder->path);
        (void) probe_check(probe,
                           mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) >= 0);
}

static int gather_folder(const DoctorFacts *facts, const char *path, FolderFacts *folder) {
        FolderTrial trial = {.path = path, .id = (uint32_t) facts->install.config.subuid_base};

        if (string_empty(path) || path[0] != '/')
                return 0;
        folder->path = strdup(path);
        if (!folder->path)
                return error_origin(-ENOMEM);
        folder->type = read_file_system_type(path);
        /* A plain user's crates have the user's own id: nothing needs to be mapped. */
        if (host_is_root(&facts->host))
                probe_run(try_folder, &trial, &folder->idmap);
        return 0;
}

int mounts_gather(DoctorFacts *facts) {
        _cleanup_(freep) char *cwd = getcwd(NULL, 0);
        int r;

        probe_run(try_api, NULL, &facts->mounts[DOCTOR_MOUNT_API]);
        for (size_t i = DOCTOR_MOUNT_TMPFS; i <= DOCTOR_MOUNT_MQUEUE; i++)
                probe_run(try_file_system, &infos[i], &facts->mounts[i]);
        probe_run(try_overlay, NULL, &facts->mounts[DOCTOR_MOUNT_OVERLAY]);

        r = gather_folder(facts, "/tmp", &facts->folders[DOCTOR_FOLDER_TMP]);
        if (r == 0)
                r = gather_folder(facts, secure_getenv("HOME"),
                                  &facts->folders[DOCTOR_FOLDER_HOME]);
        if (r == 0)
                r = gather_folder(facts, cwd, &facts->folders[DOCTOR_FOLDER_CWD]);
        return error_trace(r);
}

/* --- judges --- */

int judge_mount_api(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->mounts[DOCTOR_MOUNT_API], DOCTOR_NO);
}

int judge_tmpfs(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->mounts[DOCTOR_MOUNT_TMPFS], DOCTOR_NO);
}

/* The kernel allows no fresh /proc where parts of the visible one are covered. */
int judge_proc(DoctorCheck *check, const DoctorFacts *facts) {
        const Probe *probe = &facts->mounts[DOCTOR_MOUNT_PROC];
        const char *masked = facts->host.masked_proc;
        int r;

        r = check_probe(check, facts, probe, DOCTOR_NO);
        if (r < 0 || check->answer == DOCTOR_YES || probe->error != EPERM || string_empty(masked) ||
            !string_equal(probe->path, "proc"))
                return error_trace(r);
        return check_answer(check, DOCTOR_NO,
                            "unmask /proc from outside: in Docker --security-opt "
                            "systempaths=unconfined, in Podman --security-opt unmask=ALL, in "
                            "Kubernetes procMount: Unmasked",
                            "step %s failed: the /proc of this container is masked, at %s and "
                            "maybe elsewhere, so the kernel allows no new one (EPERM)",
                            probe->step, masked);
}

int judge_devpts(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->mounts[DOCTOR_MOUNT_DEVPTS], DOCTOR_NO);
}

int judge_mqueue(DoctorCheck *check, const DoctorFacts *facts) {
        return check_probe(check, facts, &facts->mounts[DOCTOR_MOUNT_MQUEUE], DOCTOR_NO);
}

int judge_overlay(DoctorCheck *check, const DoctorFacts *facts) {
        const Probe *probe = &facts->mounts[DOCTOR_MOUNT_OVERLAY];

        if (probe->error == ENODEV) {
                (void) memcpy(check->step, probe->step, sizeof(check->step));
                check->error = probe->error;
                return check_answer(check, DOCTOR_NO,
                                    "load the kernel's module overlay (modprobe overlay)",
                                    "this kernel has no overlay file system, or its module is not "
                                    "loaded");
        }
        return check_probe(check, facts, probe, DOCTOR_NO);
}

static int judge_folder(DoctorCheck *check, const DoctorFacts *facts, DoctorFolder which) {
        const FolderFacts *folder = &facts->folders[which];
        const Probe *probe = &folder->idmap;
        int r;

        if (!folder->path)
                return check_found(check, "there is no such folder");
        r = check_found(check, "%s is %s%s", folder->path, folder->type ?: "of an unknown type",
                        host_is_root(&facts->host) ? "" : ", not needed by a plain user");
        if (r < 0 || !host_is_root(&facts->host))
                return error_trace(r);
        r = check_probe(check, facts, probe, DOCTOR_NO);
        if (r < 0 || check->answer == DOCTOR_YES || !string_equal(probe->step, "id-map-mount") ||
            (probe->error != EINVAL && probe->error != EPERM))
                return error_trace(r);
        return check_answer(check, DOCTOR_NO,
                            "keep folders that crates of root shall write to on ext4, xfs, btrfs "
                            "or, from Linux 6.3, tmpfs; or run as the user who owns them",
                            "step %s failed: this kernel cannot map the ids of %s (%s)",
                            probe->step, folder->type ?: "that file system",
                            strerrorname_np(probe->error) ?: "?");
}

int judge_idmap_tmp(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_folder(check, facts, DOCTOR_FOLDER_TMP);
}

int judge_idmap_home(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_folder(check, facts, DOCTOR_FOLDER_HOME);
}

int judge_idmap_cwd(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_folder(check, facts, DOCTOR_FOLDER_CWD);
}
