/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The files that policy is read from: which there are, and their text. */

#include "basic/diag.h"
#include "basic/string-util.h"

enum {
        _SOURCE_E_SUCCESS,
        SOURCE_E_MISSING, /* there is no such file or folder, which is no fault */
        SOURCE_E_INVALID, /* diags tell */
};

/*
 * Reads a whole file: a regular one of at most 1 MiB that not everybody can write. *ret_text is
 * owned by the caller.
 */
int source_read(const char *file, DiagList *diags, char **ret_text, size_t *ret_size);
/*
 * Adds the templates' names, sorted, of DIR/templates.d, without ".json". What an editor or a
 * package manager leaves behind is skipped; other names that are no template's are faults.
 */
int source_list_templates(const char *dir, DiagList *diags, StrV *names);
