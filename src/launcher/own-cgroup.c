/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/own-cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"

#define OWN_CGROUP_TEXT_MAX 4096U

static const char *const controllers[] = {"+cpu", "+memory", "+pids", "+io"};

/* Those of jobs/ that become the broker's; which of them there are depends on the controllers. */
static const char *const given[] = {
        "cgroup.procs", "cgroup.threads",   "cgroup.subtree_control",
        "cgroup.kill",  "memory.max",       "memory.swap.max",
        "memory.high",  "memory.oom.group", "pids.max",
        "cpu.max",      "cpu.weight",       "io.max",
        "io.weight",    "memory.reclaim",   "memory.zswap.max",
};

void own_cgroup_done(OwnCgroup *own) {
        own->root_fd = fd_close(own->root_fd);
        own->launcher_fd = fd_close(own->launcher_fd);
        own->jobs_fd = fd_close(own->jobs_fd);
}

/* Where cgroup2 is mounted: alone, or beside v1. */
static int open_hierarchy(void) {
        static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                _cleanup_(fd_closep) int fd = -EBADF;
                struct statfs fs;

                fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
                        return TAKE_FD(fd);
        }
        return -ENOENT;
}

static int open_own(void) {
        _cleanup_(fd_closep) int file_fd = -EBADF, top_fd = -EBADF;
        char text[OWN_CGROUP_TEXT_MAX], *path;
        ssize_t n;
        int fd;

        top_fd = open_hierarchy();
        if (top_fd < 0)
                return top_fd;
        file_fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        n = file_fd < 0 ? -1 : read(file_fd, text, sizeof(text) - 1);
        if (n < 0)
                return negative_errno();
        text[n] = 0;
        path = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
        if (!path)
                return -ENOENT;
        path = strchr(path, '/') + 1;
        path[strcspn(path, "\n")] = 0;
        fd = openat(top_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? negative_errno() : fd;
}

static int make_below(int root_fd, const char *name, mode_t mode, ProtoFailure *ret_failure) {
        int fd;

        if (mkdirat(root_fd, name, mode) < 0 && errno != EEXIST)
                return failure_here(ret_failure, "cgroup-make", name);
        fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? failure_here(ret_failure, "cgroup-make", name) : fd;
}

int own_cgroup_make(OwnCgroup *own, ProtoFailure *ret_failure) {
        int r;

        own->root_fd = open_own();
        if (own->root_fd == -ENOENT)
                return 0;
        if (own->root_fd < 0)
                return failure_set(ret_failure, -own->root_fd, "cgroup-make", "");
        r = own->launcher_fd = make_below(own->root_fd, "launcher", 0755, ret_failure);
        /* Closed to others: whoever can open it can hold the lock that the broker takes on it. */
        if (r >= 0)
                r = own->jobs_fd = make_below(own->root_fd, "jobs", 0700, ret_failure);
        return r < 0 ? error_trace(r) : 0;
}

/* One by one: what the host does not have is missing, and for the broker to see. */
static void enable_controllers(int root_fd) {
        _cleanup_(fd_closep) int fd = -EBADF;

        fd = openat(root_fd, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
        for (size_t i = 0; fd >= 0 && i < ELEMENTSOF(controllers); i++)
                if (write(fd, controllers[i], strlen(controllers[i])) < 0)
                        continue;
}

int own_cgroup_give(const OwnCgroup *own, uid_t uid, gid_t gid, ProtoFailure *ret_failure) {
        enable_controllers(own->root_fd);
        for (size_t i = 0; i < ELEMENTSOF(given); i++)
                if (fchownat(own->jobs_fd, given[i], uid, gid, AT_SYMLINK_NOFOLLOW) < 0 &&
                    errno != ENOENT)
                        return failure_here(ret_failure, "cgroup-give", given[i]);
        return fchown(own->jobs_fd, uid, gid) < 0 ? failure_here(ret_failure, "cgroup-give", "jobs")
                                                  : 0;
}
