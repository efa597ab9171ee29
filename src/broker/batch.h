/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The answers to an array of messages, which go out together as one array when the last is there.
 * Shared by the calls that are still to answer. */

#include <stdbool.h>
#include <stddef.h>

#include "basic/string-util.h"

typedef struct Batch {
        unsigned n_refs;
        StrBuf out;
} Batch;

Batch *batch_new(void);
Batch *batch_ref(Batch *batch);
/* Adds one answer. 0 or -ENOMEM. */
int batch_add(Batch *batch, const char *frame, size_t size);
/*
 * Gives up one reference. When it was the last one and there is an answer, the array is handed out
 * in *ret_frame, owned by the caller; else that is set to NULL.
 */
void batch_unref(Batch *batch, char **ret_frame, size_t *ret_size);
