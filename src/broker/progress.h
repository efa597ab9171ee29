/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stream of a running call: output that comes is collected as text and goes out in
 * notifications/progress when the client can take one. What does not fit in between is left out,
 * and said so: the result has it all.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"
#include "mcp/revision.h"

#define PROGRESS_TEXT_MAX (64U << 10)
#define PROGRESS_INTERVAL_USEC 50000ULL
#define PROGRESS_STREAMS 2U

typedef struct Progress {
        char *token; /* raw; NULL: the client wants none */
        size_t token_size;
        McpRevision revision;
        StrBuf text;
        char carry[PROGRESS_STREAMS][4]; /* the beginning of a character whose rest is to come */
        size_t carry_size[PROGRESS_STREAMS];
        uint64_t n_left_out;
        uint64_t n_bytes;  /* of output so far; the progress that is told */
        uint64_t n_told;   /* the last one that was */
        uint64_t due_usec; /* not before, monotonic */
} Progress;

int progress_init(Progress *progress, McpRevision revision, const char *token, size_t token_size);
void progress_done(Progress *progress);
int progress_add(Progress *progress, unsigned stream, const char *data, size_t size);
/* Output that is only told of, as left out. */
void progress_skip(Progress *progress, size_t size);
bool progress_pending(const Progress *progress);
/* Makes the notification of all that is pending, and sets when the next is due. */
int progress_take(Progress *progress, uint64_t now, StrBuf *out);
