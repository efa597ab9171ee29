/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A temporary folder of a test, with helpers that make files in it. Whatever fails here fails the
 * test. */

#include "basic/macros.h"

typedef struct Scratch {
        char *path; /* real path, without links */
} Scratch;

#define SCRATCH_NULL ((Scratch){})

void scratch_init(Scratch *scratch);
/* Removes the folder and all that is in it. */
void scratch_done(Scratch *scratch);
/* Removes what name names; all that is in the folder. */
void scratch_remove(const Scratch *scratch, const char *name);
void scratch_clear(const Scratch *scratch);
/* The path of name in the folder. Owned by the caller. */
char *scratch_path(const Scratch *scratch, const char *name);
/* These make missing folders on the way. */
void scratch_folder(const Scratch *scratch, const char *name);
void scratch_file(const Scratch *scratch, const char *name, const char *text);
void scratch_link(const Scratch *scratch, const char *name, const char *target);
