/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What waits to be sent to one client. Each byte is moved a bounded number of times, however slow
 * the client is. */

#include <stddef.h>

#include "basic/string-util.h"

/* Above HIGH nothing more is read from the client and its jobs' streamed output waits; below LOW
 * both go on. */
#define OUTBOX_HIGH (1U << 20)
#define OUTBOX_LOW (256U << 10)

typedef struct Outbox {
        StrBuf buffer;
        size_t sent;
} Outbox;

enum {
        _OUTBOX_E_SUCCESS,
        OUTBOX_E_AGAIN, /* the client does not take more now */
        OUTBOX_E_GONE,  /* the client has closed */
};

void outbox_done(Outbox *outbox);
size_t outbox_pending(const Outbox *outbox);
/* 0 or -ENOMEM. */
int outbox_add_bytes(Outbox *outbox, const char *data, size_t size);
/* Adds a frame and its newline. 0 or -ENOMEM. */
int outbox_add(Outbox *outbox, const char *frame, size_t size);
/* Sends what the socket takes. 0 when empty, OUTBOX_E_X, or a negative errno. */
int outbox_flush(Outbox *outbox, int fd);
