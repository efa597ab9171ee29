/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Newline framing: a stream of bytes, however it was split, into lines. A line ends with LF; a CR
 * right before it belongs to the end. Blank lines are skipped. No other separator counts, since a
 * message may hold U+2028, U+0085, form feeds and the like inside of its strings.
 *
 * Work is linear in the bytes: each is looked at once. Memory is bounded by the largest line that
 * is allowed plus one read. A longer line is reported once, when it has become too long, and then
 * thrown away up to its newline; the lines behind it are whole.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/string-util.h"

#define FRAMER_LINE_MAX_DEFAULT (16U << 20)

typedef struct Framer {
        StrBuf buffer;
        size_t line_max; /* bytes of one line without its end */
        size_t start;    /* where the line under construction begins */
        size_t scanned;  /* up to here no LF was found since start */
        bool skipping;   /* the rest of a line that was too long */
} Framer;

enum {
        _FRAMER_E_SUCCESS,
        FRAMER_E_MORE,     /* no whole line is there */
        FRAMER_E_OVERSIZE, /* a line is longer than line_max; what follows it comes next */
};

void framer_init(Framer *framer, size_t line_max);
void framer_done(Framer *framer);

/* Adds what was read. Call framer_next() until FRAMER_E_MORE first. 0 or -ENOMEM. */
int framer_add(Framer *framer, const void *data, size_t size);

/*
 * The next line, without its end. It points into the framer and holds until the next call of
 * framer_add(). 0, FRAMER_E_MORE or FRAMER_E_OVERSIZE.
 */
int framer_next(Framer *framer, const char **ret_line, size_t *ret_size);

/* Bytes that are held back for want of a newline. */
size_t framer_pending(const Framer *framer);
