/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of --result. It is opened before the job starts, so that a record that could not be
 * written is known in time, and it appears under its name only when it is complete.
 */

#include "crate/result.h"

typedef struct RecordFile {
        char *path; /* as it was given, for messages; NULL: there is none */
        char *name; /* its last component */
        /* The folder, held from before the job on: a job that may write there can put another
         * folder or a link under its name. */
        int folder_fd;
        char *temporary; /* its name until then; NULL while it has none or needs none */
        int fd;
        bool in_place; /* a device or a pipe, which is written to and not replaced */
} RecordFile;

#define RECORD_FILE_NULL ((RecordFile){.folder_fd = -EBADF, .fd = -EBADF})

/* 0, RUN_E_REPORTED or a negative errno. */
int record_file_open(RecordFile *file, const char *path);
int record_file_write(RecordFile *file, const CrateResult *result);
/* Removes what is not complete. */
void record_file_done(RecordFile *file);

/* The record as one line of JSON, for --json too. 0 or -ENOMEM. */
int record_format(const CrateResult *result, bool with_output, char **ret_text, size_t *ret_size);
/* Writes all of it, waiting as long as it takes. 0 or a negative errno. */
int write_all(int fd, const char *data, size_t size);
