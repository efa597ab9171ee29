/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command lines by table: one row is an option, and the same rows parse, print --help and are what
 * the tests compare the man pages with.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "basic/macros.h"
#include "basic/string-util.h"

typedef struct Option Option;

enum {
        _OPTION_E_SUCCESS,
        OPTION_E_INVALID, /* ret_text tells, in one sentence; owned by the caller */
        OPTION_E_STOP,    /* of a row's function: right, and nothing behind it counts (--help) */
};

/* What a row does with its value, which is NULL for a flag. target is the caller's struct. */
typedef int (*OptionTake)(const Option *option, const char *value, void *target, char **ret_text);

struct Option {
        const char *name;     /* long name without dashes; NULL if none */
        char letter;          /* 0 if none */
        const char *argument; /* what stands behind it, for messages; NULL: a flag */
        OptionTake take;
        size_t offset; /* of a member of target, for the functions that only store */
        const char *help;
};

typedef struct OptionTable {
        const Option *options;
        size_t n_options;
        bool interleaved; /* options may stand behind words; else the first word ends them */
} OptionTable;

/*
 * Parses argv[1 …]; words are what is no option, borrowed strings are copied. 0, OPTION_E_INVALID
 * or a negative errno; on failure target may be half filled, and the caller frees it as usual.
 */
int option_table_parse(const OptionTable *table, int argc, char *const *argv, void *target,
                       StrV *ret_words, char **ret_text);

/* Sets *ret_text and gives OPTION_E_INVALID. */
int option_invalid(char **ret_text, const char *format, ...) _printf_(2, 3);

/* Sets the bool at offset. */
int option_take_flag(const Option *option, const char *value, void *target, char **ret_text);
/* The same, and ends the parsing. */
int option_take_stop(const Option *option, const char *value, void *target, char **ret_text);
/* Replaces the owned string at offset; an empty value is invalid. */
int option_take_string(const Option *option, const char *value, void *target, char **ret_text);

/* One entry an option, folded to 78 columns. */
void option_table_print(const OptionTable *table, FILE *out);
