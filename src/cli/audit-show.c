/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate audit query and tail: records for people, or as they are for programs.
 */

#include <inttypes.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "cli/audit.h"

/* Also without a notice: the folder may be on a network. */
#define FOLLOW_MSEC 1000

/* --- query --- */

static int matches_string(const AuditRecord *record, const char *name, const char *wanted,
                          bool *matches) {
        _cleanup_(freep) char *value = NULL;
        int r;

        if (!wanted || !*matches)
                return 0;
        r = audit_record_string(record, name, &value);
        *matches = value && string_equal(value, wanted);
        return error_trace(r);
}

static int matches(const AuditOptions *options, const AuditRecord *record, bool *ret_matches) {
        uint64_t usec = 0;
        int r;

        *ret_matches = true;
        r = matches_string(record, "tenant", options->tenant, ret_matches);
        if (r == 0)
                r = matches_string(record, "tool", options->tool, ret_matches);
        if (r == 0)
                r = matches_string(record, "outcome", options->outcome, ret_matches);
        if (r < 0 || !*ret_matches || (!options->since_usec && !options->until_usec))
                return error_trace(r);

        r = audit_record_time(record, &usec);
        *ret_matches = r == 0 && usec >= options->since_usec &&
                       (!options->until_usec || usec < options->until_usec);
        return r < 0 ? error_trace(r) : 0;
}

static int query_line(const AuditOptions *options, const AuditText *text, const char *path,
                      uint64_t line, bool *faulty) {
        _cleanup_(audit_record_done) AuditRecord record = {};
        _cleanup_(freep) char *quoted = NULL;
        const char *fault = NULL;
        bool wanted = false;
        int r;

        r = audit_record_parse(text->data, text->size, &record, &fault);
        if (r == AUDIT_RECORD_E_INVALID) {
                quoted = diag_quote_path(path);
                complain("%s:%" PRIu64 " was left out, for it is no record: %s", quoted ?: "", line,
                         fault);
                *faulty = true;
                return 0;
        }
        if (r == 0)
                r = matches(options, &record, &wanted);
        if (r == 0 && wanted)
                audit_print(text, &record, options->common.json);
        return error_trace(r);
}

static int query_file(const AuditOptions *options, const char *path, bool *faulty) {
        _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
        _cleanup_(freep) char *error = NULL;
        AuditText text;
        int r;

        r = audit_reader_open(&reader, path, &error);
        if (r == AUDIT_READER_E_UNUSABLE)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s", error);
        while (r == 0) {
                r = audit_reader_next(&reader, false, &text);
                if (r == 0)
                        r = query_line(options, &text, path, reader.line, faulty);
        }
        return r == AUDIT_READER_E_END ? 0 : error_trace(r);
}

int audit_query(const AuditOptions *options, StrV *files) {
        _cleanup_(freep) char *path = NULL, *text = NULL;
        bool faulty = false;
        int r;

        if (files->n_items > 0)
                r = audit_sort_files(files);
        else {
                r = audit_log_path(&path);
                if (r == 0)
                        r = audit_find_files(path, files, &text);
                if (r == AUDIT_READER_E_UNUSABLE && text)
                        return complain_status(EXIT_AUDIT_UNREADABLE, "%s", text);
        }
        for (size_t i = 0; r == 0 && i < files->n_items; i++)
                r = query_file(options, files->items[i], &faulty);
        if (r != 0)
                return r;
        return faulty ? EXIT_AUDIT_FAULT : EXIT_SUCCESS;
}

/* --- tail --- */

/* Prints what is there now. */
static int print_rest(const AuditOptions *options, AuditReader *reader) {
        int r = 0;

        while (r == 0) {
                _cleanup_(audit_record_done) AuditRecord record = {};
                const char *fault;
                AuditText text;

                r = audit_reader_next(reader, false, &text);
                if (r != 0)
                        break;
                r = audit_record_parse(text.data, text.size, &record, &fault);
                if (r < 0)
                        break;
                audit_print(&text, r == 0 ? &record : NULL, options->common.json);
                r = 0;
        }
        return r == AUDIT_READER_E_END ? 0 : error_trace(r);
}

/* Whether another file is at the path, or this one was emptied. */
static bool is_replaced(const AuditReader *reader, const char *path) {
        struct stat own, now;

        if (fstat(reader->fd, &own) < 0 || stat(path, &now) < 0)
                return false;
        return own.st_dev != now.st_dev || own.st_ino != now.st_ino ||
               own.st_size < lseek(reader->fd, 0, SEEK_CUR);
}

/* NULL at the end of the folder's name keeps it working without notices. */
static int watch_folder(const char *path) {
        _cleanup_(freep) char *folder = NULL;
        const char *slash = strrchr(path, '/');
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        folder = slash ? strndup(path, size_max((size_t) (slash - path), 1)) : strdup(".");
        if (fd >= 0 && folder)
                (void) inotify_add_watch(fd, folder,
                                         IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
        return fd;
}

static void wait_for_notice(int watch_fd) {
        struct pollfd poll_fd = {.fd = watch_fd, .events = POLLIN};
        char buffer[4096];

        (void) poll(&poll_fd, 1, FOLLOW_MSEC);
        while (watch_fd >= 0 && read(watch_fd, buffer, sizeof(buffer)) > 0)
                ;
}

static int follow(const AuditOptions *options, AuditReader *reader, const char *path) {
        _cleanup_(fd_closep) int watch_fd = watch_folder(path);
        int r = 0;

        while (r == 0) {
                if (fflush(stdout) != 0)
                        return error_origin(negative_errno());
                wait_for_notice(watch_fd);
                /* What was replaced is read to its end first. */
                bool replaced = is_replaced(reader, path);

                r = print_rest(options, reader);
                if (r == 0 && replaced) {
                        _cleanup_(freep) char *error = NULL;
                        AuditReader next = AUDIT_READER_NULL;

                        r = audit_reader_open(&next, path, &error);
                        if (r == 0) {
                                audit_reader_done(reader);
                                *reader = next;
                        }
                        r = r < 0 ? error_trace(r) : 0;
                }
        }
        return error_trace(r);
}

int audit_tail(const AuditOptions *options, StrV *files) {
        _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
        _cleanup_(freep) char *found = NULL, *error = NULL;
        const char *path;
        int r = 0;

        if (files->n_items == 0)
                r = audit_log_path(&found);
        if (r != 0)
                return r;
        path = files->n_items > 0 ? files->items[0] : found;
        r = audit_reader_open(&reader, path, &error);
        if (r == AUDIT_READER_E_UNUSABLE)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s", error);
        if (r == 0)
                r = audit_reader_seek_last(&reader, options->lines);
        if (r == 0)
                r = print_rest(options, &reader);
        if (r == 0 && options->follow)
                r = follow(options, &reader, path);
        return r < 0 ? error_trace(r) : EXIT_SUCCESS;
}
