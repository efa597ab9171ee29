/* SPDX-License-Identifier: Apache-2.0 */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-text.h"

/* Deeper than any tree of ours; jobs cannot make cgroups at all. */
#define REMOVE_DEPTH_MAX 16U
#define WAIT_LOOK_MSEC 20

static int open_entries(int parent_fd, const char *name, DIR **ret_dir) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = cgroup_dir_open(parent_fd, name, O_RDONLY, &fd);
        if (r < 0)
                return r;
        *ret_dir = fdopendir(fd);
        if (!*ret_dir)
                return negative_errno();
        TAKE_FD(fd); /* it is the directory's now */
        return 0;
}

static bool is_child(const struct dirent *entry) {
        return entry->d_type == DT_DIR && entry->d_name[0] != '.';
}

static int remove_at(int parent_fd, const char *name, unsigned depth) {
        struct dirent *entry;
        DIR *dir;
        int r;

        if (unlinkat(parent_fd, name, AT_REMOVEDIR) >= 0 || errno == ENOENT)
                return 0;
        if (errno != EBUSY || depth == 0)
                return negative_errno();

        r = open_entries(parent_fd, name, &dir);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while (r == 0 && (entry = readdir(dir)))
                if (is_child(entry))
                        r = remove_at(dirfd(dir), entry->d_name, depth - 1);
        (void) closedir(dir);
        if (r < 0)
                return r;
        return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? negative_errno()
                                                                              : 0;
}

int cgroup_remove(int parent_fd, const char *name) {
        return remove_at(parent_fd, name, REMOVE_DEPTH_MAX);
}

int cgroup_kill_and_remove(int parent_fd, const char *name) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = cgroup_dir_open(parent_fd, name, O_RDONLY, &fd);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        (void) cgroup_file_write(fd, "cgroup.kill", "1");
        return cgroup_remove(parent_fd, name);
}

int cgroup_each_child(int parent_fd, const char *prefix,
                      int (*handle)(int parent_fd, const char *name, void *userdata),
                      void *userdata) {
        struct dirent *entry;
        int r = 0;
        DIR *dir;

        r = open_entries(parent_fd, ".", &dir);
        if (r < 0)
                return r;
        while (r == 0 && (entry = readdir(dir)))
                if (is_child(entry) && string_after(entry->d_name, prefix))
                        r = handle(dirfd(dir), entry->d_name, userdata);
        (void) closedir(dir);
        return r;
}

bool cgroup_wait_empty(int fd, uint64_t end_usec) {
        _cleanup_(fd_closep) int events_fd = -EBADF;
        char text[CGROUP_FILE_SIZE];
        uint64_t populated;

        events_fd = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
        if (events_fd < 0)
                return true;
        while (now_usec() < end_usec) {
                struct pollfd poll_fd = {.fd = events_fd, .events = POLLPRI};

                if (cgroup_file_reread(events_fd, text, sizeof(text)) < 0 ||
                    cgroup_text_get(text, "populated", &populated) != 0 || populated == 0)
                        return true;
                (void) poll(&poll_fd, 1, WAIT_LOOK_MSEC);
        }
        return false;
}
