/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * crate-probe: runs inside a crate and answers questions, one line each:
 *
 *   crate-probe QUESTION[=ARG[,ARG]…]…
 *
 * prints for each question the question as it was asked, a tab, and the answer: "OK", the name of
 * an errno, or facts. Each question but those marked alone is answered by a child of its own, so
 * that it may die of it ("killed SIGSYS") and leaves nothing to the next.
 *
 * A question is one row in the table of its subject's file. Every attempt is harmless where it is
 * not refused: the same program is run outside of a crate to show that refusals are ours.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/macros.h"

#define PROBE_ARGS_MAX 4

typedef struct Question {
        const char *name;
        int n_args; /* exactly so many */
        bool alone; /* answered by the process itself */
        void (*answer)(char *const *args);
} Question;

/* The tables, each ended by a row without a name. */
extern const Question probe_calls[];
extern const Question probe_files[];
extern const Question probe_ipc[];
extern const Question probe_job[];
extern const Question probe_machine[];
extern const Question probe_proc[];
extern const Question probe_sockets[];

/* Prints the answer: facts, or what errno-style result says ("OK" for 0 and above). */
void say(const char *format, ...) _printf_(1, 2);
void say_result(long result);
/* What a libc call's -1 means, as a negative errno. */
long result_of(long returned);
/* Parses a number in C notation; ends the program if it is none. */
unsigned long long number(const char *s);
