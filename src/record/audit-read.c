/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"

#define BUFFER_SIZE (2U * AUDIT_LINE_MAX)
#define BLOCK_SIZE 65536

#define unusable(ret_text, ...) outcome_text(AUDIT_READER_E_UNUSABLE, (ret_text), __VA_ARGS__)

int audit_reader_open(AuditReader *reader, const char *path, char **ret_text) {
        _cleanup_(freep) char *quoted = diag_quote_path(path), *buffer = malloc(BUFFER_SIZE);
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;

        if (!quoted || !buffer)
                return error_origin(-ENOMEM);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return unusable(ret_text, "the audit log %s cannot be read: %s", quoted,
                                strerrordesc_np(errno));
        if (!S_ISREG(st.st_mode))
                return unusable(ret_text, "%s is no regular file", quoted);

        *reader = (AuditReader){.fd = TAKE_FD(fd), .buffer = TAKE_PTR(buffer)};
        return 0;
}

void audit_reader_done(AuditReader *reader) {
        reader->fd = fd_close(reader->fd);
        free(reader->buffer);
        *reader = AUDIT_READER_NULL;
}

/* More bytes behind those that are there. 0, AUDIT_READER_E_END or a negative errno. */
static int reader_fill(AuditReader *reader) {
        ssize_t n;

        memmove(reader->buffer, reader->buffer + reader->done, reader->size - reader->done);
        reader->size -= reader->done;
        reader->done = 0;
        do
                n = read(reader->fd, reader->buffer + reader->size, BUFFER_SIZE - reader->size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return error_origin(negative_errno());
        reader->size += (size_t) n;
        return n == 0 ? AUDIT_READER_E_END : 0;
}

/* Throws away up to and with the newline. */
static int reader_skip(AuditReader *reader) {
        const char *newline;
        int r = 0;

        for (;;) {
                newline = memchr(reader->buffer + reader->done, '\n', reader->size - reader->done);
                if (newline || r == AUDIT_READER_E_END)
                        break;
                reader->done = reader->size;
                r = reader_fill(reader);
                if (r < 0)
                        return error_trace(r);
        }
        reader->done = newline ? (size_t) (newline - reader->buffer) + 1 : reader->size;
        return 0;
}

int audit_reader_next(AuditReader *reader, bool take_unfinished, AuditText *ret_text) {
        AuditText text = {};
        int r = 0;

        if (reader->ended) {
                reader->ended = false;
                r = reader_skip(reader);
                if (r < 0)
                        return error_trace(r);
        }
        for (;;) {
                const char *start = reader->buffer + reader->done;
                size_t size = reader->size - reader->done;
                const char *newline = memchr(start, '\n', size);

                text.data = start;
                text.size = newline ? (size_t) (newline - start) : size;
                text.too_long = text.size >= AUDIT_LINE_MAX;
                if (newline && !text.too_long) {
                        reader->done += text.size + 1;
                        break;
                }
                if (text.too_long) {
                        text.size = AUDIT_LINE_MAX;
                        reader->ended = true;
                        break;
                }
                if (r == AUDIT_READER_E_END) {
                        if (size == 0 || !take_unfinished)
                                return AUDIT_READER_E_END;
                        text.unfinished = true;
                        reader->done = reader->size;
                        break;
                }
                r = reader_fill(reader);
                if (r < 0)
                        return error_trace(r);
        }
        reader->line++;
        *ret_text = text;
        return 0;
}

int audit_reader_seek_last(AuditReader *reader, uint64_t n) {
        off_t end = lseek(reader->fd, 0, SEEK_END), start = 0;
        uint64_t found = 0;

        if (end < 0)
                return error_origin(negative_errno());
        for (off_t at = end; at > 0 && start == 0;) {
                size_t size = at < BLOCK_SIZE ? (size_t) at : BLOCK_SIZE;
                ssize_t got = pread(reader->fd, reader->buffer, size, at - (off_t) size);

                if (got != (ssize_t) size)
                        return error_origin(got < 0 ? negative_errno() : -EIO);
                at -= (off_t) size;
                /* The newline of the last line ends no line before it. */
                for (size_t i = size; i > 0; i--)
                        if (reader->buffer[i - 1] == '\n' && at + (off_t) i < end && ++found == n) {
                                start = at + (off_t) i;
                                break;
                        }
        }
        if (n == 0)
                start = end;
        if (lseek(reader->fd, start, SEEK_SET) < 0)
                return error_origin(negative_errno());
        reader->size = reader->done = 0;
        return 0;
}

/* --- which files --- */

typedef struct FileRow {
        char *path;
        uint64_t seq; /* of its first record, 0: it has none */
} FileRow;

static int compare_rows(const void *a, const void *b) {
        const FileRow *x = a, *y = b;

        if (x->seq != y->seq)
                return x->seq < y->seq ? -1 : 1;
        return strcmp(x->path, y->path);
}

/* 0 for a file that has no record at its beginning, or that cannot be read: whoever reads it next
 * says so. */
static int first_seq(const char *path, uint64_t *ret_seq) {
        _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
        _cleanup_(audit_record_done) AuditRecord record = {};
        _cleanup_(freep) char *text = NULL;
        const char *fault;
        AuditText line;
        int r;

        *ret_seq = 0;
        r = audit_reader_open(&reader, path, &text);
        if (r == 0)
                r = audit_reader_next(&reader, true, &line);
        if (r == 0)
                r = audit_record_parse(line.data, line.size, &record, &fault);
        if (r == 0)
                *ret_seq = record.seq;
        return r < 0 ? error_trace(r) : 0;
}

int audit_sort_files(StrV *files) {
        _cleanup_(freep) FileRow *rows = calloc(files->n_items + 1, sizeof(FileRow));
        int r;

        if (!rows)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < files->n_items; i++) {
                rows[i].path = files->items[i];
                r = first_seq(files->items[i], &rows[i].seq);
                if (r < 0)
                        return error_trace(r);
        }
        qsort(rows, files->n_items, sizeof(FileRow), compare_rows);
        for (size_t i = 0; i < files->n_items; i++)
                files->items[i] = rows[i].path;
        return 0;
}

static bool is_compressed(const char *name) {
        static const char *const suffixes[] = {".gz", ".xz", ".bz2", ".zst", ".lz4"};

        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                const char *dot = strrchr(name, '.');

                if (dot && string_equal(dot, suffixes[i]))
                        return true;
        }
        return false;
}

static int list_files(DIR *folder, const char *path, const char *name, StrV *files) {
        int folder_size = (int) (name - path);
        int r = 0;

        for (struct dirent *entry; r == 0 && (entry = readdir(folder));) {
                const char *rest = string_after(entry->d_name, name);

                if (rest && (*rest == 0 || *rest == '.' || *rest == '-') &&
                    !is_compressed(entry->d_name))
                        r = strv_appendf(files, "%.*s%s", folder_size, path, entry->d_name);
        }
        return error_trace(r);
}

int audit_find_files(const char *path, StrV *ret_files, char **ret_text) {
        _cleanup_(freep) char *quoted = diag_quote_path(path), *parent = NULL;
        _cleanup_(strv_done) StrV files = STRV_NULL;
        const char *slash = strrchr(path, '/');
        DIR *folder;
        int r;

        parent = slash ? strndup(path, size_max((size_t) (slash - path), 1)) : strdup(".");
        if (!quoted || !parent)
                return error_origin(-ENOMEM);
        folder = opendir(parent);
        if (!folder)
                return unusable(ret_text, "the folder of the audit log %s cannot be read: %s",
                                quoted, strerrordesc_np(errno));
        r = list_files(folder, path, slash ? slash + 1 : path, &files);
        (void) closedir(folder);
        if (r == 0 && files.n_items == 0)
                return unusable(ret_text, "there is no audit log %s", quoted);
        if (r == 0)
                r = audit_sort_files(&files);
        if (r < 0)
                return error_trace(r);
        *ret_files = files;
        files = STRV_NULL;
        return 0;
}
