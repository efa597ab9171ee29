/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/try.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "basic/macros.h"

static bool write_file(Probe *probe, const char *step, const char *path, const char *text) {
        _cleanup_(fd_closep) int fd = -EBADF;

        probe_begin(probe, step, path);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        return probe_check(probe, fd >= 0 && write(fd, text, strlen(text)) >= 0);
}

static bool write_map(Probe *probe, const char *folder, const char *name, uint32_t inside,
                      uint32_t outside) {
        char path[64], text[48];

        (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
        (void) snprintf(text, sizeof(text), "%u %u 1", inside, outside);
        return write_file(probe, name, path, text);
}

/* A user namespace of this process, in which it keeps its ids. */
static bool enter_user_namespace(Probe *probe, const char *step) {
        uint32_t uid = geteuid(), gid = getegid();

        probe_begin(probe, step, "");
        return probe_check(probe, unshare(CLONE_NEWUSER) >= 0) &&
               write_file(probe, "setgroups", "/proc/self/setgroups", "deny") &&
               write_map(probe, "/proc/self", "uid_map", uid, uid) &&
               write_map(probe, "/proc/self", "gid_map", gid, gid);
}

static bool enter_mount_namespace(Probe *probe) {
        probe_begin(probe, "mount-namespace", "");
        if (!probe_check(probe, unshare(CLONE_NEWNS) >= 0))
                return false;
        probe_begin(probe, "mount-slave", "/");
        return probe_check(probe, mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) >= 0);
}

bool try_outer(Probe *probe) {
        return (geteuid() == 0 || enter_user_namespace(probe, "user-namespace")) &&
               enter_mount_namespace(probe);
}

bool try_crate(Probe *probe) {
        return try_outer(probe) && enter_user_namespace(probe, "clone") &&
               enter_mount_namespace(probe);
}

int try_mount(Probe *probe, const char *type, const char *const *options) {
        _cleanup_(fd_closep) int fs_fd = -EBADF;
        int fd;

        probe_begin(probe, "fsopen", type);
        fs_fd = fsopen(type, FSOPEN_CLOEXEC);
        if (!probe_check(probe, fs_fd >= 0))
                return -EBADF;
        probe_begin(probe, "fsconfig", type);
        for (; *options; options += 2)
                if (!probe_check(probe,
                                 fsconfig(fs_fd,
                                          options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                                          options[0], options[1], 0) >= 0))
                        return -EBADF;
        if (!probe_check(probe, fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) >= 0))
                return -EBADF;
        probe_begin(probe, "fsmount", type);
        fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        return probe_check(probe, fd >= 0) ? fd : -EBADF;
}

int try_idmap(Probe *probe, uint32_t inside, uint32_t outside) {
        int ready[2], fd = -EBADF;
        char folder[32], path[48], byte = 0;
        pid_t pid;

        probe_begin(probe, "id-map-namespace", "");
        if (!probe_check(probe, pipe2(ready, O_CLOEXEC) >= 0))
                return -EBADF;
        pid = fork();
        if (pid == 0) {
                probe_die_with_parent();
                if (unshare(CLONE_NEWUSER) < 0)
                        _exit(errno);
                if (write(ready[1], &byte, 1) == 1)
                        for (;;)
                                (void) pause();
                _exit(EIO);
        }
        (void) close(ready[1]);
        (void) snprintf(folder, sizeof(folder), "/proc/%d", pid);
        (void) snprintf(path, sizeof(path), "%s/ns/user", folder);
        if (!probe_check(probe, pid > 0))
                goto finish;
        if (read(ready[0], &byte, 1) != 1) {
                int status = 0;

                (void) waitpid(pid, &status, 0);
                probe->error = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EIO;
                goto finish;
        }
        if (write_map(probe, folder, "uid_map", inside, outside) &&
            write_map(probe, folder, "gid_map", inside, outside)) {
                probe_begin(probe, "id-map-namespace", path);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                (void) probe_check(probe, fd >= 0);
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);

finish:
        (void) close(ready[0]);
        return fd;
}
