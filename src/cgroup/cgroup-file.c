/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup-file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

int cgroup_file_reread(int fd, char *buffer, size_t size) {
        ssize_t n;

        n = pread(fd, buffer, size - 1, 0);
        if (n < 0)
                return negative_errno();
        buffer[n] = 0;
        return 0;
}

/* What is not there is for the caller to judge, and no error to trace. */
static int file_open(int dir, const char *name, int flags, int *ret_fd) {
        int fd;

        fd = openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return negative_errno();
        *ret_fd = fd;
        return 0;
}

int cgroup_file_read(int dir, const char *name, char *buffer, size_t size) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = file_open(dir, name, O_RDONLY, &fd);
        if (r < 0)
                return r;
        return cgroup_file_reread(fd, buffer, size);
}

int cgroup_file_read_all(int dir, const char *name, StrBuf *text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char buffer[CGROUP_FILE_SIZE];
        ssize_t n;
        int r;

        r = file_open(dir, name, O_RDONLY, &fd);
        if (r < 0)
                return r;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
                r = strbuf_append(text, buffer, (size_t) n);
                if (r < 0)
                        return error_trace(r);
        }
        return n < 0 ? negative_errno() : 0;
}

int cgroup_file_write(int dir, const char *name, const char *text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = file_open(dir, name, O_WRONLY, &fd);
        if (r < 0)
                return r;
        return write(fd, text, strlen(text)) < 0 ? negative_errno() : 0;
}

int cgroup_dir_open(int dir, const char *name, int flags, int *ret_fd) {
        return file_open(dir, name, O_DIRECTORY | flags, ret_fd);
}

int cgroup_dir_make(int dir, const char *name, int flags, int *ret_fd) {
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
                return negative_errno();
        return cgroup_dir_open(dir, name, flags, ret_fd);
}

int cgroup_fail(CgroupFailure *ret_failure, int error, const char *path, const char *file,
                const char *wanted, const char *got) {
        *ret_failure = (CgroupFailure){.error = error};
        (void) snprintf(ret_failure->file, sizeof(ret_failure->file), "%s%s%s", path,
                        *path && *file ? "/" : "", file);
        (void) snprintf(ret_failure->wanted, sizeof(ret_failure->wanted), "%s", wanted ?: "");
        (void) snprintf(ret_failure->got, sizeof(ret_failure->got), "%s", got ?: "");
        return CGROUP_E_FAILED;
}

int cgroup_file_set(int dir, const char *path, const char *name, const char *wanted,
                    CgroupFailure *ret_failure) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char got[CGROUP_FAILURE_VALUE_MAX];
        int r;

        r = file_open(dir, name, O_RDWR, &fd);
        if (r == 0 && write(fd, wanted, strlen(wanted)) < 0)
                r = negative_errno();
        if (r == 0)
                r = cgroup_file_reread(fd, got, sizeof(got));
        if (r < 0)
                return cgroup_fail(ret_failure, -r, path, name, wanted, NULL);

        got[strcspn(got, "\n")] = 0;
        if (!string_equal(got, wanted))
                return cgroup_fail(ret_failure, 0, path, name, wanted, got);
        return 0;
}

static const char *explain(const CgroupFailure *failure) {
        static const char swap[] = "/memory.swap.max";
        size_t size = strlen(failure->file);

        if (failure->error == ENOENT && size >= sizeof(swap) &&
            string_equal(failure->file + size - (sizeof(swap) - 1), swap))
                return "the host swaps and its kernel does not count that; boot without "
                       "swapaccount=0, or switch swap off";
        switch (failure->error) {
        case ENOENT:
                return "it is not there: the controller is not enabled, or the cgroup was removed";
        case ENODEV:
                return "the cgroup has vanished: another program has removed it";
        case EROFS:
                return "the cgroup file system is mounted read-only";
        case EBUSY:
                return "processes sit in a cgroup whose children are to be limited, or it is in "
                       "use";
        default:
                return strerrordesc_np(failure->error) ?: "an unknown error";
        }
}

char *cgroup_failure_format(const CgroupFailure *failure) {
        const char *name = failure->error > 0 ? strerrorname_np(failure->error) : NULL;
        char *text = NULL;
        int n;

        if (failure->error == 0)
                n = asprintf(&text, "%s did not take \"%s\": it reads \"%s\"", failure->file,
                             failure->wanted, failure->got);
        else if (*failure->wanted)
                n = asprintf(&text, "\"%s\" cannot be written to %s: %s (%s)", failure->wanted,
                             failure->file, explain(failure), name ?: "?");
        else
                n = asprintf(&text, "the cgroup %s cannot be used: %s (%s)", failure->file,
                             explain(failure), name ?: "?");
        return n < 0 ? NULL : text;
}
