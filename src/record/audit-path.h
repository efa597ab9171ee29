/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a log and its companions lie, and whether that place can be trusted: the folder and the
 * files belong to the one who writes (the folder may be root's), nobody else may write there, and
 * the last step to each of them is no link.
 */

#include <sys/stat.h>

#include "record/audit.h"

typedef struct AuditPlace {
        char *folder; /* absolute */
        char *log;    /* names in the folder */
        char *head;   /* X.head for X.jsonl */
        char *cut;    /* X.cut: what lines that were never finished are kept as begins so */
} AuditPlace;

void audit_place_done(AuditPlace *place);
/* Splits an absolute path. 0, AUDIT_E_UNUSABLE or -ENOMEM. */
int audit_place_init(AuditPlace *place, const char *path, char **ret_text);

/* Opens the folder; one that is missing is made, mode 0700, and those above it too. */
int audit_place_open_folder(const AuditPlace *place, int *ret_fd, char **ret_text);
/* Opens a file in it for reading and appending, or only reading and writing; a missing one is made,
 * mode 0600. */
int audit_place_open_file(const AuditPlace *place, int folder_fd, const char *name, bool append,
                          int *ret_fd, struct stat *ret_st, char **ret_text);
