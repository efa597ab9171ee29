/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is kept of one output stream: the first half and the last half of a bound, and the count of
 * all bytes. Memory stays within the bound, whatever the job writes.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"

typedef struct Capture {
        size_t bound;   /* bytes to keep at most; 0 keeps none */
        uint64_t total; /* bytes seen */
        char *head;
        size_t head_size, head_max;
        char *tail; /* ring */
        size_t tail_size, tail_max, tail_start;
        bool ended; /* by the owner, in the middle of the stream */
} Capture;

#define CAPTURE_DEFAULT 262144U
#define CAPTURE_MAX (8U << 20)

void capture_init(Capture *capture, size_t bound);
void capture_done(Capture *capture);
int capture_add(Capture *capture, const void *data, size_t size); /* 0 or -ENOMEM */
/* The owner stopped to take the stream, say for a limit: what follows is neither counted nor kept.
 */
void capture_end(Capture *capture);
/* The last bytes of what was kept; returns how many. */
size_t capture_last(const Capture *capture, char *ret_data, size_t size);
/* Whether less than the whole stream was kept. */
bool capture_truncated(const Capture *capture);

/*
 * What was kept, as text for JSON: UTF-8, cut only between characters, with a line between the
 * halves that says how many bytes are missing when truncated. Bytes that are not UTF-8 make it
 * base64 of exactly the kept bytes (then no line is put in). Owned by the caller; size excludes the
 * final NUL. ret_encoding is "utf-8" or "base64" (static).
 */
int capture_text(const Capture *capture, char **ret_text, size_t *ret_size,
                 const char **ret_encoding);
/* What is done with bytes that are no text: text becomes their base64. 0 or -ENOMEM. */
int bytes_to_base64(const StrBuf *bytes, StrBuf *text);
