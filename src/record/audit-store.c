/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/time-util.h"
#include "record/audit-tail.h"

/* One sector holds it. */
#define HEAD_SIZE 128U
/* Writing back is begun at most so often. */
#define FLUSH_USEC USEC_PER_SEC

#define unusable(ret_text, ...) outcome_text(AUDIT_STORE_E_UNUSABLE, (ret_text), __VA_ARGS__)
#define failed(ret_text, ...) outcome_text(AUDIT_STORE_E_FAILED, (ret_text), __VA_ARGS__)

/* The files that are at the place at one moment. */
typedef struct Files {
        int folder_fd, log_fd, head_fd; /* head_fd, log_fd: -EBADF if they are those in use */
        AuditTail tail;
        AuditHead head; /* that the file has; seq 0: none */
} Files;

#define FILES_NULL ((Files){.folder_fd = -EBADF, .log_fd = -EBADF, .head_fd = -EBADF})

static void files_done(Files *files) {
        files->folder_fd = fd_close(files->folder_fd);
        files->log_fd = fd_close(files->log_fd);
        files->head_fd = fd_close(files->head_fd);
}

static void _printf_(2, 3) store_warn(const AuditStore *store, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        if (text && store->warn)
                store->warn(text);
}

static bool is_same_file(int fd, const struct stat *st) {
        struct stat own;

        return fd >= 0 && fstat(fd, &own) == 0 && own.st_dev == st->st_dev &&
               own.st_ino == st->st_ino;
}

/* Of the open file, not of the process: what this process has open twice is not locked twice. */
static int lock_file(const AuditStore *store, int fd, const char *name, char **ret_text) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
                return 0;
        if (errno != EAGAIN && errno != EACCES)
                return error_origin(negative_errno());
        return unusable(ret_text,
                        "the audit log %s/%s is written by another broker (%s is locked): stop it, "
                        "or give this one an audit.path of its own",
                        store->place.folder, store->place.log, name);
}

/* Opens and locks what is not in use already. */
static int open_one(const AuditStore *store, Files *files, const char *name, bool append,
                    int used_fd, int *ret_fd, off_t *ret_size, char **ret_text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;
        int r;

        r = audit_place_open_file(&store->place, files->folder_fd, name, append, &fd, &st,
                                  ret_text);
        if (r == AUDIT_E_UNUSABLE)
                return AUDIT_STORE_E_UNUSABLE;
        if (r < 0)
                return error_trace(r);
        if (is_same_file(used_fd, &st))
                return 0;
        r = lock_file(store, fd, name, ret_text);
        if (r != 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        *ret_size = st.st_size;
        return 0;
}

static int read_head(const AuditStore *store, Files *files, off_t size) {
        char buffer[HEAD_SIZE];
        ssize_t n;
        int r;

        if (size == 0)
                return 0;
        n = pread(files->head_fd, buffer, sizeof(buffer), 0);
        if (n < 0)
                return error_origin(negative_errno());
        r = audit_head_parse(buffer, (size_t) n, &files->head);
        if (r < 0)
                return error_trace(r);
        if (r > 0)
                store_warn(store,
                           "%s/%s is damaged: whether lines were cut off from the audit log "
                           "cannot be told",
                           store->place.folder, store->place.head);
        return 0;
}

static int mend_log(const AuditStore *store, Files *files, off_t size, char **ret_text) {
        _cleanup_(freep) char *name = NULL;
        int r;

        r = audit_tail_read(files->log_fd, size, &files->tail);
        if (r < 0 || files->tail.n_behind == 0)
                return error_trace(r);

        r = audit_tail_cut(files->log_fd, &files->tail, &store->place, files->folder_fd, &name);
        if (r < 0)
                return unusable(ret_text,
                                "the audit log %s/%s ends in an unfinished line that cannot be "
                                "moved into a file of its own: %s",
                                store->place.folder, store->place.log, strerrordesc_np(-r));
        store_warn(store,
                   "the audit log ended in an unfinished line: its %jd bytes were moved to %s/%s",
                   (intmax_t) files->tail.n_behind, store->place.folder, name);
        return 0;
}

/* The head first: its lock stays with the place when the log is renamed. */
static int open_files(const AuditStore *store, Files *files, char **ret_text) {
        off_t head_size = 0, log_size = 0;
        int r;

        r = audit_place_open_folder(&store->place, &files->folder_fd, ret_text);
        if (r == AUDIT_E_UNUSABLE)
                return AUDIT_STORE_E_UNUSABLE;
        if (r == 0)
                r = open_one(store, files, store->place.head, false, store->head_fd,
                             &files->head_fd, &head_size, ret_text);
        if (r == 0)
                r = open_one(store, files, store->place.log, true, store->log_fd, &files->log_fd,
                             &log_size, ret_text);
        if (r == 0 && files->head_fd >= 0)
                r = read_head(store, files, head_size);
        if (r == 0 && files->log_fd >= 0)
                r = mend_log(store, files, log_size, ret_text);
        return r;
}

static void take_fd(int *fd, int *from) {
        if (*from < 0)
                return;
        (void) fd_close(*fd);
        *fd = TAKE_FD(*from);
}

static int write_head(AuditStore *store) {
        char text[HEAD_SIZE + 1], padded[HEAD_SIZE];
        int n;

        if (store->head.seq == 0)
                return 0;
        n = snprintf(text, sizeof(text), "{\"seq\":%" PRIu64 ",\"hash\":\"%s\",\"open\":%u}",
                     store->head.seq, store->head.hash, (unsigned) store->head.n_open);
        memset(padded, ' ', sizeof(padded));
        memcpy(padded, text, (size_t) n);
        padded[HEAD_SIZE - 1] = '\n';
        if (pwrite(store->head_fd, padded, sizeof(padded), 0) != (ssize_t) sizeof(padded))
                return negative_errno();
        store->head_failed = false;
        return 0;
}

/* A head that is behind loses nothing, so its log goes on. */
static void update_head(AuditStore *store) {
        int r;

        r = write_head(store);
        if (r == 0 || store->head_failed)
                return;
        store->head_failed = true;
        store_warn(store, "%s/%s cannot be written: %s", store->place.folder, store->place.head,
                   strerrordesc_np(-r) ?: "unknown error");
}

/* Where the chain goes on, when all that is known are the files. */
static int choose_head(AuditStore *store, const Files *files, char **ret_text) {
        const AuditHead *head = &files->head, *last = &files->tail.last;

        if (files->tail.foreign && head->seq == 0)
                return unusable(ret_text,
                                "the last line of %s/%s is no record of an audit log: move the "
                                "file away",
                                store->place.folder, store->place.log);
        store->head = head->seq > last->seq || files->tail.foreign ? *head : *last;
        store->unclean = head->n_open > 0 || last->seq > head->seq;

        if (files->tail.foreign)
                store_warn(store, "the last line of the audit log is no record: it was changed");
        else if (head->seq > last->seq && files->tail.size > 0)
                store_warn(store,
                           "the audit log ends at %" PRIu64 ", but had come to %" PRIu64
                           ": lines were cut off, or lost with the power",
                           last->seq, head->seq);
        else if (head->seq == last->seq && head->seq > 0 && !string_equal(head->hash, last->hash)) {
                store->head = *head;
                store_warn(store, "the last line of the audit log was changed");
        } else if (head->seq > 0 && last->seq > head->seq + 1)
                store_warn(store,
                           "the audit log has come to %" PRIu64 ", but its head only to %" PRIu64
                           ": what is between was not written by a broker, or the head was lost",
                           last->seq, head->seq);
        return 0;
}

int audit_store_open(AuditStore *store, const char *path, void (*warn)(const char *text),
                     char **ret_text) {
        _cleanup_(files_done) Files files = FILES_NULL;
        int r;

        *store = AUDIT_STORE_NULL;
        store->warn = warn;
        r = audit_place_init(&store->place, path, ret_text);
        if (r == AUDIT_E_UNUSABLE)
                return AUDIT_STORE_E_UNUSABLE;
        if (r == 0)
                r = open_files(store, &files, ret_text);
        if (r == 0)
                r = choose_head(store, &files, ret_text);
        if (r != 0)
                return r;

        take_fd(&store->folder_fd, &files.folder_fd);
        take_fd(&store->log_fd, &files.log_fd);
        take_fd(&store->head_fd, &files.head_fd);
        update_head(store);
        return 0;
}

void audit_store_done(AuditStore *store) {
        if (store->log_fd >= 0)
                (void) fdatasync(store->log_fd);
        if (store->head_fd >= 0)
                (void) fdatasync(store->head_fd);
        store->log_fd = fd_close(store->log_fd);
        store->head_fd = fd_close(store->head_fd);
        store->folder_fd = fd_close(store->folder_fd);
        audit_place_done(&store->place);
}

int audit_store_reopen(AuditStore *store, char **ret_text) {
        _cleanup_(files_done) Files files = FILES_NULL;
        int r;

        r = open_files(store, &files, ret_text);
        if (r == 0 && store->head.seq == 0)
                r = choose_head(store, &files, ret_text);
        if (r != 0)
                return r;

        if (files.log_fd >= 0) {
                if (files.tail.size > 0 && !string_equal(files.tail.last.hash, store->head.hash))
                        store_warn(store, "the audit log goes on in a file that has lines already, "
                                          "which are not those before");
                if (store->log_fd >= 0)
                        (void) fdatasync(store->log_fd);
                store->torn_at = -1;
        }
        take_fd(&store->folder_fd, &files.folder_fd);
        take_fd(&store->log_fd, &files.log_fd);
        take_fd(&store->head_fd, &files.head_fd);
        update_head(store);
        return 0;
}

static bool is_gone(int fd) {
        struct stat st;

        return fd < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0;
}

bool audit_store_is_gone(const AuditStore *store) {
        return is_gone(store->log_fd) || is_gone(store->head_fd);
}

/* Takes back the n bytes at the end; where that fails it is tried again before anything else is
 * written. */
static void take_back(AuditStore *store, size_t n) {
        struct stat st;

        if (fstat(store->log_fd, &st) < 0)
                return;
        store->torn_at = st.st_size - (off_t) n;
        if (ftruncate(store->log_fd, store->torn_at) == 0)
                store->torn_at = -1;
}

static int mend_torn(AuditStore *store, char **ret_text) {
        struct stat st;

        if (store->torn_at < 0)
                return 0;
        /* Somebody else may have emptied it meanwhile. */
        if (fstat(store->log_fd, &st) == 0 &&
            (st.st_size <= store->torn_at || ftruncate(store->log_fd, store->torn_at) == 0)) {
                store->torn_at = -1;
                return 0;
        }
        return failed(ret_text, "an unfinished line cannot be taken back from it: %s",
                      strerrordesc_np(errno));
}

/* Begins to write back, and does not wait for it. */
static void store_flush(AuditStore *store) {
        uint64_t now = now_usec();

        if (store->flushed_usec > 0 && now - store->flushed_usec < FLUSH_USEC)
                return;
        store->flushed_usec = now;
        (void) sync_file_range(store->log_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        (void) sync_file_range(store->head_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int audit_store_append(AuditStore *store, const StrBuf *line, const AuditHead *head, int open,
                       char **ret_text) {
        uint64_t n_open = store->head.n_open;
        ssize_t n;
        int r;

        r = mend_torn(store, ret_text);
        if (r != 0)
                return r;

        n = write(store->log_fd, line->data, line->size);
        if (n < 0)
                return failed(ret_text, "%s", strerrordesc_np(errno));
        if ((size_t) n < line->size) {
                take_back(store, (size_t) n);
                return failed(ret_text,
                              "only a part of a line had room: the disk is full, or a quota or "
                              "limit of size was met");
        }

        store->head = *head;
        store->head.n_open = open > 0 ? n_open + 1 : n_open - (open < 0 && n_open > 0);
        update_head(store);
        store_flush(store);
        return 0;
}
