/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bytes between our own standard files and the crate, without ever blocking. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/shared-fd.h"
#include "basic/string-util.h"

enum {
        _PUMP_E_SUCCESS,
        PUMP_E_BROKEN, /* nobody reads any more */
};

/* --- output: callers hand over bytes, what cannot be written at once is kept --- */

typedef struct OutputPump {
        SharedFd file;
        bool is_broken; /* there is no place for output: what comes is thrown away */
        StrBuf pending;
} OutputPump;

#define OUTPUT_PUMP_NULL ((OutputPump){.file = SHARED_FD_NULL})

/* fd is borrowed. */
void output_pump_init(OutputPump *pump, int fd);
void output_pump_done(OutputPump *pump);
/* 0, PUMP_E_BROKEN or a negative errno. Afterwards output_pump_is_pending() says whether to hold
 * back more. */
int output_pump_write(OutputPump *pump, const void *data, size_t size);
/* Writes of what is kept as much as goes now. The same outcomes. */
int output_pump_flush(OutputPump *pump);

static inline bool output_pump_is_pending(const OutputPump *pump) {
        return pump->pending.size > 0;
}

/* --- input: from our standard input to a pipe or terminal of the crate --- */

#define INPUT_PUMP_SIZE 65536U

typedef struct InputPump {
        SharedFd source;       /* its fd is -EBADF when it has ended */
        int sink;              /* owned, non-blocking; -EBADF when closed */
        bool is_terminal;      /* the source is one */
        bool sink_is_terminal; /* end of input is a character there */
        bool is_stopped;       /* a terminal whose foreground is somebody else's */
        bool in_line;          /* the source has ended within a line, which may still be open */
        uint64_t repeat_usec;  /* when the end is to be shown again; 0 while it has not come */
        uint64_t repeat_gap_usec;
        char *buffer;
        size_t start, end;
} InputPump;

#define INPUT_PUMP_NULL ((InputPump){.source = SHARED_FD_NULL, .sink = -EBADF})

/* source is borrowed, sink is consumed. 0 or a negative errno. */
int input_pump_init(InputPump *pump, int source, int sink, bool sink_is_terminal);
void input_pump_done(InputPump *pump);
bool input_pump_wants_read(const InputPump *pump);
bool input_pump_wants_write(const InputPump *pump);
/* The job reads no more: what is left of the source is not ours to take. */
void input_pump_close_sink(InputPump *pump);
/* Moves what can be moved now, after poll has told so. 0, or a negative errno of the source, which
 * has been taken as its end. */
int input_pump_move(InputPump *pump, bool can_read);
/*
 * A terminal's end of input is a character that is for one read only, and that is lost when the job
 * changes the terminal's mode before it has read it, as shells do that edit lines. Once the source
 * has ended it is therefore shown again from time to time, as long as the job has nothing unread.
 * How many milliseconds until then, for poll; -1: never.
 */
int input_pump_repeat_msec(const InputPump *pump);
/* Does that, if it is due. */
void input_pump_repeat_end(InputPump *pump);
