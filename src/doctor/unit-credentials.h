/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The credentials that a unit of systemd's is given, as its files on disk say: of the unit, and of
 * its drop-ins. systemd itself is not asked, so that this works where it does not run, too.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct UnitCredential {
        char *id;
        char *source;   /* as it is written; NULL: the value itself stands in the unit */
        bool encrypted; /* with a key of this machine's */
} UnitCredential;

typedef struct UnitCredentials {
        UnitCredential *items;
        size_t n_items;
} UnitCredentials;

#define UNIT_CREDENTIALS_NULL ((UnitCredentials){})

void unit_credentials_done(UnitCredentials *credentials);

/* Applies one file's text: what it names is added or replaced, and an empty value takes away what
 * came before. 0 or -ENOMEM. */
int unit_credentials_parse(const char *text, UnitCredentials *credentials);

/* All files of that unit, in systemd's order. Nothing is found if there is no such unit. 0 or
 * -ENOMEM. */
int unit_credentials_read(const char *unit, UnitCredentials *ret_credentials);

/*
 * The entry that gives the credential of that name: of its id, else a folder with its files, each
 * ID_FILE. NULL if there is none. *ret_path is the file that it comes from, with relative ones
 * looked up where systemd does, and owned by the caller; NULL if it cannot be told from here.
 * 0 or -ENOMEM.
 */
int unit_credentials_find(const UnitCredentials *credentials, const char *name,
                          const UnitCredential **ret_credential, char **ret_path);
