/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-tail.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

#define BLOCK_SIZE 65536
#define CUT_NAMES_MAX 100U

static int read_at(int fd, void *buffer, size_t size, off_t offset) {
        char *p = buffer;

        while (size > 0) {
                ssize_t n = pread(fd, p, size, offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return error_origin(n < 0 ? negative_errno() : -EIO);
                p += n;
                offset += n;
                size -= (size_t) n;
        }
        return 0;
}

/* Where the line begins that ends before end: behind the newline before, or at 0. */
static int find_start(int fd, off_t end, off_t *ret_start) {
        _uninitialized_ char buffer[BLOCK_SIZE];

        while (end > 0) {
                size_t size = end < BLOCK_SIZE ? (size_t) end : BLOCK_SIZE;
                const char *newline;
                int r;

                r = read_at(fd, buffer, size, end - (off_t) size);
                if (r < 0)
                        return error_trace(r);
                newline = memrchr(buffer, '\n', size);
                if (newline) {
                        *ret_start = end - (off_t) size + (newline - buffer) + 1;
                        return 0;
                }
                end -= (off_t) size;
        }
        *ret_start = 0;
        return 0;
}

/* The line from start to size, whose last byte is the newline. */
static int read_last(int fd, off_t start, AuditTail *tail) {
        _cleanup_(audit_record_done) AuditRecord record = {};
        _cleanup_(freep) char *line = NULL;
        size_t size = (size_t) (tail->size - start);
        const char *text;
        int r;

        if (size > AUDIT_LINE_MAX) {
                tail->foreign = true;
                return 0;
        }
        line = malloc(size);
        if (!line)
                return error_origin(-ENOMEM);
        r = read_at(fd, line, size, start);
        if (r == 0)
                r = audit_record_parse(line, size - 1, &record, &text);
        if (r < 0)
                return error_trace(r);
        tail->foreign = r == AUDIT_RECORD_E_INVALID;
        if (r == 0) {
                tail->last.seq = record.seq;
                audit_hash(line, size - 1, tail->last.hash);
        }
        return 0;
}

int audit_tail_read(int fd, off_t size, AuditTail *ret_tail) {
        AuditTail tail = {};
        off_t start = 0;
        int r;

        r = find_start(fd, size, &tail.size);
        if (r < 0)
                return error_trace(r);
        tail.n_behind = size - tail.size;
        if (tail.size > 0) {
                r = find_start(fd, tail.size - 1, &start);
                if (r == 0)
                        r = read_last(fd, start, &tail);
                if (r < 0)
                        return error_trace(r);
        }
        *ret_tail = tail;
        return 0;
}

/* A name that nothing has yet. */
static int make_cut(const AuditPlace *place, int folder_fd, uint64_t seq, int *ret_fd,
                    char **ret_name) {
        for (unsigned i = 1; i < CUT_NAMES_MAX; i++) {
                _cleanup_(freep) char *name = NULL;
                char suffix[16] = "";
                int fd;

                if (i > 1)
                        (void) snprintf(suffix, sizeof(suffix), "-%u", i);
                if (asprintf(&name, "%s-%" PRIu64 "%s", place->cut, seq, suffix) < 0) {
                        name = NULL;
                        return error_origin(-ENOMEM);
                }
                fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                            0600);
                if (fd < 0 && errno == EEXIST)
                        continue;
                if (fd < 0)
                        return error_origin(negative_errno());
                *ret_fd = fd;
                *ret_name = TAKE_PTR(name);
                return 0;
        }
        return error_origin(-EEXIST);
}

static int copy_behind(int fd, const AuditTail *tail, int to_fd) {
        _uninitialized_ char buffer[BLOCK_SIZE];
        off_t offset = tail->size, end = tail->size + tail->n_behind;

        while (offset < end) {
                size_t size = end - offset < BLOCK_SIZE ? (size_t) (end - offset) : BLOCK_SIZE;
                ssize_t n;
                int r;

                r = read_at(fd, buffer, size, offset);
                if (r < 0)
                        return error_trace(r);
                n = write(to_fd, buffer, size);
                if (n != (ssize_t) size)
                        return error_origin(n < 0 ? negative_errno() : -ENOSPC);
                offset += n;
        }
        return fdatasync(to_fd) < 0 ? error_origin(negative_errno()) : 0;
}

int audit_tail_cut(int fd, const AuditTail *tail, const AuditPlace *place, int folder_fd,
                   char **ret_name) {
        _cleanup_(fd_closep) int cut_fd = -EBADF;
        _cleanup_(freep) char *name = NULL;
        int r;

        r = make_cut(place, folder_fd, tail->last.seq + 1, &cut_fd, &name);
        if (r < 0)
                return error_trace(r);
        r = copy_behind(fd, tail, cut_fd);
        if (r == 0 && ftruncate(fd, tail->size) < 0)
                r = error_origin(negative_errno());
        if (r < 0) {
                (void) unlinkat(folder_fd, name, 0);
                return error_trace(r);
        }
        *ret_name = TAKE_PTR(name);
        return 0;
}
