/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/outer.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "launcher/tree.h"

static int write_file_at(int directory_fd, const char *name, const char *text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        size_t n = strlen(text);

        fd = openat(directory_fd, name, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        return write(fd, text, n) == (ssize_t) n ? 0 : negative_errno();
}

int idmap_write(pid_t pid, uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid,
                uint32_t outside_gid, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int directory_fd = -EBADF;
        char path[32], map[64];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d", pid);
        directory_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (directory_fd < 0)
                return failure_here(ret_failure, "id-map", path);

        r = write_file_at(directory_fd, "setgroups", "deny");
        if (r < 0)
                return failure_set(ret_failure, -r, "setgroups", path);
        (void) snprintf(map, sizeof(map), "%u %u 1", inside_uid, outside_uid);
        r = write_file_at(directory_fd, "uid_map", map);
        if (r < 0)
                return failure_set(ret_failure, -r, "uid_map", map);
        (void) snprintf(map, sizeof(map), "%u %u 1", inside_gid, outside_gid);
        r = write_file_at(directory_fd, "gid_map", map);
        if (r < 0)
                return failure_set(ret_failure, -r, "gid_map", map);
        return 0;
}

int idmap_userns(uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid,
                 uint32_t outside_gid, ProtoFailure *ret_failure) {
        struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = 0};
        char path[48];
        pid_t pid;
        int fd, r;

        /* exit_signal 0: the launcher's SIGCHLD stays for crates. */
        pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
        if (pid < 0 && errno == ENOSYS) /* hidden by the filter of an outer container */
                pid = (pid_t) syscall(SYS_clone, CLONE_NEWUSER, NULL, NULL, NULL, NULL);
        if (pid < 0)
                return failure_here(ret_failure, "id-map-namespace", "");
        if (pid == 0)
                for (;;)
                        (void) pause();

        fd = r = idmap_write(pid, inside_uid, outside_uid, inside_gid, outside_gid, ret_failure);
        if (r == 0) {
                (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        fd = failure_here(ret_failure, "id-map-namespace", path);
        }

        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, __WALL);
        return fd;
}

/*
 * Root mode: what a launcher needs and no more. CAP_SYS_ADMIN for mounts and namespaces, SETUID and
 * SETGID to write id maps, NET_ADMIN for lo, NET_BIND_SERVICE for the ports of what a crate may
 * reach, SYS_CHROOT for setns, DAC_READ_SEARCH to reach
 * workspaces in private folders, DAC_OVERRIDE to clone into cgroups of another owner, KILL for
 * crates' processes, SYS_RESOURCE where the host gives it.
 */
static int drop_capabilities(ProtoFailure *ret_failure) {
        static const cap_value_t keep[] = {
                CAP_SYS_ADMIN,       CAP_SETUID,           CAP_SETGID,
                CAP_NET_ADMIN,       CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT,
                CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE,     CAP_KILL,
                CAP_SYS_RESOURCE,
        };
        uint64_t kept = 0;
        cap_t caps;
        int r = 0;

        caps = cap_get_proc();
        if (!caps)
                return failure_here(ret_failure, "capabilities", "");
        for (size_t i = 0; i < ELEMENTSOF(keep); i++)
                kept |= 1ULL << keep[i];
        for (cap_value_t cap = 0; cap < (cap_value_t) cap_max_bits(); cap++) {
                if (kept & (1ULL << cap))
                        continue;
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        r = failure_here(ret_failure, "bounding-set", "");
                (void) cap_set_flag(caps, CAP_PERMITTED, 1, &cap, CAP_CLEAR);
                (void) cap_set_flag(caps, CAP_EFFECTIVE, 1, &cap, CAP_CLEAR);
        }
        if (r == 0 && cap_set_proc(caps) < 0)
                r = failure_here(ret_failure, "capabilities", "");
        (void) cap_free(caps);
        return r;
}

static int enter_user_namespace(ProtoFailure *ret_failure) {
        uint32_t uid = geteuid(), gid = getegid();
        int r;

        if (unshare(CLONE_NEWUSER) < 0)
                return failure_here(ret_failure, "user-namespace", "");
        r = idmap_write(getpid(), uid, uid, gid, gid, ret_failure);
        return r < 0 ? error_trace(r) : 0;
}

static int enter_root_mode(ProtoFailure *ret_failure) {
        int r;

        if (setgroups(0, NULL) < 0)
                return failure_here(ret_failure, "drop-groups", "");
        r = drop_capabilities(ret_failure);
        return r < 0 ? error_trace(r) : 0;
}

int outer_enter(uint32_t *ret_mode, ProtoFailure *ret_failure) {
        bool root = geteuid() == 0;
        int r;

        r = root ? enter_root_mode(ret_failure) : enter_user_namespace(ret_failure);
        if (r < 0)
                return error_trace(r);
        *ret_mode = root ? LAUNCHER_MODE_ROOT : LAUNCHER_MODE_USER;
        return 0;
}

static int open_mount_namespace(ProtoFailure *ret_failure) {
        int fd;

        fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        return fd < 0 ? failure_here(ret_failure, "mount-namespace", "/proc/self/ns/mnt") : fd;
}

int outer_prepare(ProtoFailure *ret_failure) {
        return unshare(CLONE_NEWNS) < 0 ? failure_here(ret_failure, "mount-namespace", "") : 0;
}

int outer_keep_host(Outer *outer, ProtoFailure *ret_failure) {
        /* Slave: what the host mounts later is seen, what it unmounts is not pinned, and nothing
         * goes back to it. */
        if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
                return failure_here(ret_failure, "mount-slave", "/");
        outer->host_mnt_fd = open_mount_namespace(ret_failure);
        if (outer->host_mnt_fd < 0)
                return outer->host_mnt_fd;
        return unshare(CLONE_NEWNS) < 0 ? failure_here(ret_failure, "mount-namespace", "") : 0;
}

/* Whoever made the root may have put us there. Entering it once more would cost as much as the
 * first time: some 7 ms, since the kernel waits for all that fork at that moment. */
static bool sits_in_root(int cgroup_fd) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char text[64], own[16];
        ssize_t n;

        fd = openat(cgroup_fd, "../cgroup.procs", O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = 0;
        (void) snprintf(own, sizeof(own), "%d\n", getpid());
        return strcmp(text, own) == 0;
}

int outer_enter_cgroup(int cgroup_fd, ProtoFailure *ret_failure) {
        int r = 0;

        if (cgroup_fd >= 0 && !sits_in_root(cgroup_fd))
                r = write_file_at(cgroup_fd, "../cgroup.procs", "0");
        if (r < 0)
                return failure_set(ret_failure, -r, "cgroup-enter", "cgroup.procs");
        if (unshare(CLONE_NEWCGROUP) < 0)
                return failure_here(ret_failure, "cgroup-namespace", "");
        if (cgroup_fd >= 0)
                r = write_file_at(cgroup_fd, "cgroup.procs", "0");
        return r < 0 ? failure_set(ret_failure, -r, "cgroup-enter", "launcher/cgroup.procs") : 0;
}

int outer_enter_tree(Outer *outer, PlanReader *tree, ProtoFailure *ret_failure) {
        int r;

        /* Only now is anything mounted. */
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return failure_here(ret_failure, "mount-private", "/");
        r = tree_build(tree, outer->roots, ret_failure);
        if (r < 0)
                return error_trace(r);
        outer->tree_mnt_fd = open_mount_namespace(ret_failure);
        return outer->tree_mnt_fd < 0 ? outer->tree_mnt_fd : 0;
}

static int outer_to(int fd, ProtoFailure *ret_failure) {
        if (setns(fd, CLONE_NEWNS) < 0)
                return failure_here(ret_failure, "enter-mount-namespace", "");
        return 0;
}

int outer_to_host(const Outer *outer, ProtoFailure *ret_failure) {
        return outer_to(outer->host_mnt_fd, ret_failure);
}

int outer_to_tree(const Outer *outer, ProtoFailure *ret_failure) {
        return outer_to(outer->tree_mnt_fd, ret_failure);
}

void outer_done(Outer *outer) {
        outer->host_mnt_fd = fd_close(outer->host_mnt_fd);
        outer->tree_mnt_fd = fd_close(outer->tree_mnt_fd);
}
