/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Secrets: read by name when something needs one, kept in memory that is locked, in no core dump,
 * in no child, and wiped when it is given back.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"

/* A shorter one could not be found in a reply without finding much else; a longer one is none. */
#define SECRET_SIZE_MIN 8U
#define SECRET_SIZE_MAX 4096U
#define SECRET_NAME_MAX 64U

typedef struct Secret {
        char *data; /* printable ASCII, with a NUL behind it */
        size_t size;
        size_t capacity; /* of the mapping */
} Secret;

#define SECRET_NULL ((Secret){})

/* Where secrets lie, opened once, before this process gives up its rights. */
typedef struct SecretFolders {
        int systemd_fd;         /* $CREDENTIALS_DIRECTORY; -EBADF: there is none */
        int folder_fd;          /* credentials/ beside the configuration; -EBADF: there is none */
        char *systemd, *folder; /* their paths, for texts */
        bool is_service; /* of the machine's agentcrate-egress, which its unit gives secrets */
} SecretFolders;

#define SECRET_FOLDERS_NULL ((SecretFolders){.systemd_fd = -EBADF, .folder_fd = -EBADF})

void secret_folders_done(SecretFolders *folders);
/* Either may be NULL. A folder that is not there is none. 0 or a negative errno. */
int secret_folders_open(const char *systemd, const char *folder, SecretFolders *ret_folders);

/* Those of this process: $CREDENTIALS_DIRECTORY, and credentials/ where the administrator's (of a
 * service, and of root) or the user's configuration lies. To be called while there is an
 * environment. */
int secret_folders_find(bool is_service, SecretFolders *ret_folders);

/* Room for a secret of that size, locked. 0 or a negative errno. */
int secret_new(size_t capacity, Secret *ret_secret);
void secret_done(Secret *secret);

/* Where one was found. */
typedef enum SecretPlace {
        SECRET_NOWHERE,
        SECRET_OF_SYSTEMD,
        SECRET_OF_FOLDER,
} SecretPlace;

/* Why one cannot be used. */
typedef enum SecretFault {
        SECRET_GOOD,
        SECRET_BAD_NAME,
        SECRET_MISSING,
        SECRET_UNREADABLE,
        SECRET_LINK,
        SECRET_UNOPENED,
        SECRET_NO_FILE,
        SECRET_WORLD,
        SECRET_GROUP,
        SECRET_FOREIGN,
        SECRET_UNLOCKED,
        SECRET_BROKEN,
        SECRET_EMPTY,
        SECRET_LINES,
        SECRET_LONG,
        SECRET_BYTES,
        SECRET_SPACE,
        SECRET_SHORT,
        _SECRET_FAULT_MAX,
} SecretFault;

/* What follows "the secret NAME"; and what to do. NULL of a good one. */
const char *secret_fault_text(SecretFault fault);
const char *secret_fault_remedy(SecretFault fault);

enum {
        _SECRET_E_SUCCESS,
        SECRET_E_UNUSABLE, /* ret_text or ret_fault says why */
};

/* The one of that name: systemd's, else the file. A line end behind it is not part of it. ret_text
 * has the name and the remedy. */
int secret_load(const SecretFolders *folders, const char *name, Secret *ret_secret,
                char **ret_text);
/* The same with a reason in place of a text. Both are always set. */
int secret_find(const SecretFolders *folders, const char *name, Secret *ret_secret,
                SecretPlace *ret_place, SecretFault *ret_fault);
/* One file of a folder, whatever it is called, judged as what lies in such a place. */
int secret_load_file(int folder_fd, const char *file, SecretPlace place, Secret *ret_secret,
                     SecretFault *ret_fault);

/* Memory that held a secret, before free(). */
void secret_wipe(void *data, size_t size);
