/* SPDX-License-Identifier: Apache-2.0 */

#include "record/audit-path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/own-folders.h"

#define LOG_NAME "audit.jsonl"
#define LOG_SUFFIX ".jsonl"
#define COMPANION_MAX sizeof(".cut-18446744073709551615-99")

#define unusable(ret_text, ...) outcome_text(AUDIT_E_UNUSABLE, (ret_text), __VA_ARGS__)

int audit_default_path(char **ret_path, char **ret_text) {
        _cleanup_(freep) char *folder = NULL;
        int r;

        r = own_state_folder(&folder);
        if (r < 0)
                return error_trace(r);
        if (!folder)
                return unusable(ret_text, "there is no place for the audit log: neither "
                                          "XDG_STATE_HOME nor HOME is an absolute path; set one, "
                                          "or audit.path in agentcrated.json");
        return asprintf(ret_path, "%s/" LOG_NAME, folder) < 0 ? error_origin(-ENOMEM) : 0;
}

void audit_place_done(AuditPlace *place) {
        free(place->folder);
        free(place->log);
        free(place->head);
        free(place->cut);
        *place = (AuditPlace){};
}

int audit_place_init(AuditPlace *place, const char *path, char **ret_text) {
        const char *slash = strrchr(path, '/');
        size_t size, folder_size;
        int stem;

        if (path[0] != '/' || !slash[1])
                return unusable(ret_text, "the path of the audit log is not that of a file: give "
                                          "an absolute one");
        size = strlen(slash + 1);
        if (size + COMPANION_MAX > NAME_MAX)
                return unusable(ret_text,
                                "the name of the audit log is too long: take one of at "
                                "most %zu bytes",
                                NAME_MAX - COMPANION_MAX);
        stem = (int) size;
        if (size > strlen(LOG_SUFFIX) &&
            string_equal(slash + 1 + size - strlen(LOG_SUFFIX), LOG_SUFFIX))
                stem -= (int) strlen(LOG_SUFFIX);

        folder_size = size_max((size_t) (slash - path), 1);
        place->folder = strndup(path, folder_size);
        place->log = strdup(slash + 1);
        if (asprintf(&place->head, "%.*s.head", stem, slash + 1) < 0)
                place->head = NULL;
        if (asprintf(&place->cut, "%.*s.cut", stem, slash + 1) < 0)
                place->cut = NULL;
        if (!place->folder || !place->log || !place->head || !place->cut) {
                audit_place_done(place);
                return error_origin(-ENOMEM);
        }
        return 0;
}

/* Each folder on the way, as far as it is missing. */
static int make_folders(const char *path) {
        _cleanup_(freep) char *copy = strdup(path);

        if (!copy)
                return error_origin(-ENOMEM);
        for (char *p = copy + 1;; p++) {
                char c = *p;

                if (c && c != '/')
                        continue;
                *p = 0;
                if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                        return negative_errno();
                *p = c;
                if (!c)
                        return 0;
        }
}

/* Why nobody should write there, or NULL. */
static const char *find_fault(const struct stat *st, bool folder) {
        if (folder ? !S_ISDIR(st->st_mode) : !S_ISREG(st->st_mode))
                return folder ? "it is no folder" : "it is no regular file";
        if (st->st_uid != geteuid() && !(folder && st->st_uid == 0))
                return "it belongs to somebody else";
        if (st->st_mode & (S_IWGRP | S_IWOTH))
                return "others may write to it: take that right away by chmod go-w";
        return NULL;
}

/* what is "" for the folder itself. */
static int refuse_errno(const AuditPlace *place, const char *name, int error, char **ret_text) {
        _cleanup_(strbuf_done) StrBuf path = STRBUF_NULL;
        _cleanup_(freep) char *quoted = NULL;

        if (strbuf_appendf(&path, "%s%s%s", place->folder, *name ? "/" : "", name) < 0)
                return error_origin(-ENOMEM);
        quoted = diag_quote_path(path.data);
        if (!quoted)
                return error_origin(-ENOMEM);
        if (error == ELOOP || (error == ENOTDIR && !*name))
                return unusable(ret_text,
                                "the audit log is not written by way of %s: it is a symbolic link "
                                "or no folder; set audit.path to where it leads",
                                quoted);
        return unusable(ret_text, "the audit log cannot be written: %s: %s", quoted,
                        strerrordesc_np(error) ?: "unknown error");
}

static int refuse_fault(const AuditPlace *place, const char *name, const char *fault,
                        char **ret_text) {
        _cleanup_(strbuf_done) StrBuf path = STRBUF_NULL;
        _cleanup_(freep) char *quoted = NULL;

        if (strbuf_appendf(&path, "%s%s%s", place->folder, *name ? "/" : "", name) < 0)
                return error_origin(-ENOMEM);
        quoted = diag_quote_path(path.data);
        if (!quoted)
                return error_origin(-ENOMEM);
        return unusable(ret_text, "the audit log is not written by way of %s: %s", quoted, fault);
}

int audit_place_open_folder(const AuditPlace *place, int *ret_fd, char **ret_text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        const char *fault;
        struct stat st;
        int r = 0;

        fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT) {
                r = make_folders(place->folder);
                if (r == 0)
                        fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        }
        if (r < 0 || fd < 0)
                return refuse_errno(place, "", r < 0 ? -r : errno, ret_text);

        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        fault = find_fault(&st, true);
        if (fault)
                return refuse_fault(place, "", fault, ret_text);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int audit_place_open_file(const AuditPlace *place, int folder_fd, const char *name, bool append,
                          int *ret_fd, struct stat *ret_st, char **ret_text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        const char *fault;

        /* O_NONBLOCK for what is no file at all, and is then refused. */
        fd = openat(folder_fd, name,
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK |
                            (append ? O_APPEND : 0),
                    0600);
        if (fd < 0)
                return refuse_errno(place, name, errno, ret_text);
        if (fstat(fd, ret_st) < 0)
                return error_origin(negative_errno());
        fault = find_fault(ret_st, false);
        if (fault)
                return refuse_fault(place, name, fault, ret_text);
        *ret_fd = TAKE_FD(fd);
        return 0;
}
