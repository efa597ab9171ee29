/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The log's file and the file of its head: opened, locked, mended, appended to, replaced.
 *
 * The head is a line of fixed size that is written over in place: that needs no room on a full
 * disk, and fits into one sector. It is written after the line that it tells of. So a head that is
 * behind its log is what a kill between the two leaves, and one that is ahead says that lines are
 * gone: the chain then goes on from the head, and the gap stays for audit verify to see.
 */

#include "record/audit-line.h"
#include "record/audit-path.h"

typedef struct AuditStore {
        AuditPlace place;
        int folder_fd, log_fd, head_fd;
        AuditHead head;   /* with n_open as the next line leaves it */
        bool unclean;     /* of open: a broker was killed, and calls may lack their ends */
        off_t torn_at;    /* a part of a line behind this size could not be taken back; -1: none */
        bool head_failed; /* it was said that the head cannot be written */
        uint64_t flushed_usec;
        void (*warn)(const char *text);
} AuditStore;

#define AUDIT_STORE_NULL                                                                           \
        ((AuditStore){.folder_fd = -EBADF, .log_fd = -EBADF, .head_fd = -EBADF, .torn_at = -1})

enum {
        _AUDIT_STORE_E_SUCCESS,
        AUDIT_STORE_E_UNUSABLE, /* of open and reopen: ret_text tells what is wrong */
        AUDIT_STORE_E_FAILED,   /* of append: ret_text tells why nothing was written */
};

/* Brings the store to the place; on failure it has its place, but no files, and reopen may try
 * again. */
int audit_store_open(AuditStore *store, const char *path, void (*warn)(const char *text),
                     char **ret_text);
/* Writes all to disk. */
void audit_store_done(AuditStore *store);

/* Takes the files that are at the place now. On failure those that were in use stay. */
int audit_store_reopen(AuditStore *store, char **ret_text);

/* Writes a line made behind store->head, which becomes head; open is what it does to n_open. */
int audit_store_append(AuditStore *store, const StrBuf *line, const AuditHead *head, int open,
                       char **ret_text);
/* Whether one of the files was removed, or there is none: only reopen helps. */
bool audit_store_is_gone(const AuditStore *store);
