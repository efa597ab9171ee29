/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Logs as they are read: the files that belong together, in their order, line by line. */

#include "record/audit-line.h"

typedef struct AuditReader {
        int fd;
        char *buffer;
        size_t size, done; /* bytes in the buffer, and of them given out */
        uint64_t line;     /* number of the last line that was given out */
        bool ended;
} AuditReader;

#define AUDIT_READER_NULL ((AuditReader){.fd = -EBADF})

typedef struct AuditText {
        const char *data; /* without the newline; valid until the next one is read */
        size_t size;
        bool unfinished; /* the file ends in it */
        bool too_long;   /* data is its beginning only */
} AuditText;

enum {
        _AUDIT_READER_E_SUCCESS,
        AUDIT_READER_E_END,      /* there is no further line now */
        AUDIT_READER_E_UNUSABLE, /* ret_text tells */
};

/* Opens a regular file, also through a link. */
int audit_reader_open(AuditReader *reader, const char *path, char **ret_text);
void audit_reader_done(AuditReader *reader);
/* 0, AUDIT_READER_E_END or a negative errno. What is unfinished is given only if take_unfinished,
 * else it is the end until its rest has come. */
int audit_reader_next(AuditReader *reader, bool take_unfinished, AuditText *ret_text);
/* Skips to the last n lines. 0 or a negative errno. */
int audit_reader_seek_last(AuditReader *reader, uint64_t n);

/* A log and those that it was renamed to (LOG.1, LOG-20261129 …, not those that were compressed),
 * the oldest first by their sequence numbers. AUDIT_READER_E_UNUSABLE if there is none. */
int audit_find_files(const char *path, StrV *ret_files, char **ret_text);
/* Sorts by the number of the first record; files without one come first. */
int audit_sort_files(StrV *files);
