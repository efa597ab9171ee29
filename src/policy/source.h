/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The files that policy is read from: which there are, and their text. */

#include <stdbool.h>

#include "basic/diag.h"
#include "basic/string-util.h"

enum {
        _SOURCE_E_SUCCESS,
        SOURCE_E_MISSING, /* there is no such file or folder, which is no fault */
        SOURCE_E_INVALID, /* diags tell */
};

/* Whom a file may come from. */
typedef enum SourceTrust {
        SOURCE_TRUST_USER, /* the user's own: anything that not everybody can write */
        /* A system instance's: a file or folder of root's, itself and no link to it, which no
         * other group or user can write. */
        SOURCE_TRUST_ROOT,
} SourceTrust;

/* A folder of configuration: DIR/NAME with one file for each thing. */
typedef struct SourceFolder {
        const char *name; /* such as "templates.d" */
        const char *kind; /* one of its files, such as "template" */
} SourceFolder;

extern const SourceFolder source_templates, source_tenants, source_credentials;

/* What a file of such a folder may be called, without ".json": 1 to 32 of a-z, 0-9 and -. */
bool source_name_is_valid(const char *name);
/*
 * Reads a whole file: a regular one of at most 1 MiB that is trusted. *ret_text is owned by the
 * caller, and ends with a NUL, which *ret_size does not count.
 */
int source_read(const char *file, SourceTrust trust, DiagList *diags, char **ret_text,
                size_t *ret_size);
/*
 * Adds the names, sorted, of the files in that folder of DIR, without ".json". What an editor or a
 * package manager leaves behind is skipped; other names that can be none are faults.
 */
int source_list(const char *dir, const SourceFolder *folder, SourceTrust trust, DiagList *diags,
                StrV *names);
