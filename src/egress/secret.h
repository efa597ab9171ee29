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
        int systemd_fd; /* $CREDENTIALS_DIRECTORY; -EBADF: there is none */
        int folder_fd;  /* credentials/ beside the configuration; -EBADF: there is none */
        char *folder;   /* its path, for texts */
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

enum {
        _SECRET_E_SUCCESS,
        SECRET_E_UNUSABLE, /* ret_text says why, with the name and the remedy */
};

/* The one of that name: systemd's, else the file. A line end behind it is not part of it. */
int secret_load(const SecretFolders *folders, const char *name, Secret *ret_secret,
                char **ret_text);

/* Memory that held a secret, before free(). */
void secret_wipe(void *data, size_t size);
