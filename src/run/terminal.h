/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Our own terminal while the job has one of its own: raw, so that every key goes through, and given
 * back as it was however we end. A guard process does that when we are killed. The terminal's
 * foreground group is never changed: the job lives in a session of its own.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

typedef struct Terminal {
        int fd; /* borrowed; -EBADF if neither input nor output is a terminal */
        struct termios saved;
        pid_t guard;  /* 0 while there is none */
        int guard_fd; /* closed without a word: restore; a byte: all is well */
        bool is_raw;
} Terminal;

#define TERMINAL_NULL ((Terminal){.fd = -EBADF, .guard_fd = -EBADF})

/* Finds it among our standard files. */
void terminal_init(Terminal *terminal);
/* 24 by 80 if there is none. */
void terminal_get_size(const Terminal *terminal, uint16_t *ret_rows, uint16_t *ret_columns);
/* Tells the job's terminal the size of ours. */
void terminal_copy_size(const Terminal *terminal, int master);
/* Does nothing when our input is no terminal. 0 or a negative errno. */
int terminal_make_raw(Terminal *terminal);
/* Back to what it was; also when it never was raw. */
void terminal_restore(Terminal *terminal);
