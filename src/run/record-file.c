/* SPDX-License-Identifier: Apache-2.0 */
#include "run/record-file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/string-util.h"
#include "run/report.h"

static int file_failure(const char *path, int error) {
        if (error == ELOOP)
                return report_failure(
                        "--result %s: is a link, which a job may have put there; give the file "
                        "itself",
                        path);
        return report_failure("--result %s: %s (%s); give a file in a folder that you may write to",
                              path, strerror(error), strerrorname_np(error) ?: "?");
}

/* Opens the folder and finds the name in it. */
static int folder_open(RecordFile *file, const char *path) {
        const char *slash = strrchr(path, '/');
        _cleanup_(freep) char *folder = NULL;

        if (!slash)
                folder = strdup(".");
        else
                folder = slash == path ? strdup("/") : strndup(path, (size_t) (slash - path));
        file->name = strdup(slash ? slash + 1 : path);
        if (!folder || !file->name)
                return error_origin(-ENOMEM);
        file->folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return file->folder_fd < 0 ? negative_errno() : 0;
}

/* A file without a name, which goes by itself if we are killed; where the file system has none, one
 * with a name that is removed at the end. */
static int temporary_open(RecordFile *file, mode_t mode) {
        file->fd = openat(file->folder_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
        if (file->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
                return file->fd >= 0 ? 0 : negative_errno();

        if (asprintf(&file->temporary, "%s.%d.tmp", file->name, (int) getpid()) < 0) {
                file->temporary = NULL;
                return error_origin(-ENOMEM);
        }
        file->fd = openat(file->folder_fd, file->temporary,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file->fd < 0) {
                int r = negative_errno();

                free(TAKE_PTR(file->temporary));
                return r;
        }
        return 0;
}

/*
 * What is there already: a regular file is replaced, a device or a pipe is written to, by whatever
 * links it is reached (/dev/stdout is one). A link to a file is refused: an earlier job may have
 * put it there.
 */
static int record_file_prepare(RecordFile *file, const char *path) {
        struct stat st, link;
        bool exists;
        int r;

        r = folder_open(file, path);
        if (r < 0)
                return r;
        if (string_empty(file->name))
                return -EISDIR;
        exists = fstatat(file->folder_fd, file->name, &link, AT_SYMLINK_NOFOLLOW) >= 0;
        if (!exists && errno != ENOENT)
                return negative_errno();
        if (!exists)
                return temporary_open(file, 0666);
        if (fstatat(file->folder_fd, file->name, &st, 0) < 0)
                return negative_errno();
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        file->in_place = !S_ISREG(st.st_mode);
        if (!file->in_place && S_ISLNK(link.st_mode))
                return -ELOOP;
        if (faccessat(file->folder_fd, file->name, W_OK, AT_EACCESS) < 0)
                return negative_errno();
        if (!file->in_place)
                return temporary_open(file, st.st_mode & 0777);
        file->fd = openat(file->folder_fd, file->name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        return file->fd >= 0 ? 0 : negative_errno();
}

int record_file_open(RecordFile *file, const char *path) {
        int r;

        *file = RECORD_FILE_NULL;
        file->path = strdup(path);
        if (!file->path)
                return error_origin(-ENOMEM);
        r = record_file_prepare(file, path);
        if (r < 0)
                return file_failure(path, -r);
        return 0;
}

int record_format(const CrateResult *result, bool with_output, char **ret_text, size_t *ret_size) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        _cleanup_(freep) char *text = NULL;
        json_t *record = crate_result_to_json(result, with_output);
        int r;

        if (!record)
                return error_origin(-ENOMEM);
        text = json_dumps(record, JSON_COMPACT);
        json_decref(record);
        if (!text)
                return error_origin(-ENOMEM);
        r = strbuf_append_string(&buf, text);
        if (r >= 0)
                r = strbuf_append_byte(&buf, '\n');
        if (r < 0)
                return error_trace(r);
        *ret_size = buf.size;
        *ret_text = strbuf_steal(&buf);
        return *ret_text ? 0 : error_origin(-ENOMEM);
}

int write_all(int fd, const char *data, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, data, size);

                if (n >= 0) {
                        data += n;
                        size -= (size_t) n;
                        continue;
                }
                /* Whoever started us may have made it non-blocking. */
                if (errno == EAGAIN)
                        (void) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
                else if (errno != EINTR)
                        return error_origin(negative_errno());
        }
        return 0;
}

/* Gives the nameless file a name beside the final one. */
static int temporary_name(RecordFile *file) {
        _cleanup_(freep) char *name = NULL;
        char link[40];

        if (file->temporary)
                return 0;
        if (asprintf(&name, "%s.%d.tmp", file->name, (int) getpid()) < 0)
                return error_origin(-ENOMEM);
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", file->fd);
        if (linkat(AT_FDCWD, link, file->folder_fd, name, AT_SYMLINK_FOLLOW) < 0)
                return error_origin(negative_errno());
        file->temporary = TAKE_PTR(name);
        return 0;
}

int record_file_write(RecordFile *file, const CrateResult *result) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int r;

        if (!file->path)
                return 0;
        r = record_format(result, false, &text, &size);
        if (r >= 0)
                r = write_all(file->fd, text, size);
        if (r >= 0 && !file->in_place)
                r = temporary_name(file);
        if (r >= 0 && !file->in_place &&
            renameat(file->folder_fd, file->temporary, file->folder_fd, file->name) < 0)
                r = negative_errno();
        if (r < 0)
                return file_failure(file->path, -r);
        free(TAKE_PTR(file->temporary));
        return 0;
}

void record_file_done(RecordFile *file) {
        if (file->temporary)
                (void) unlinkat(file->folder_fd, file->temporary, 0);
        free(file->temporary);
        free(file->name);
        free(file->path);
        (void) fd_close(file->folder_fd);
        (void) fd_close(file->fd);
        *file = RECORD_FILE_NULL;
}
