/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The host's texts: small files of /proc and /sys, and the table of mounts. */

#include "basic/string-util.h"

/* The whole of a file; "" if it cannot be read. Owned by the caller, NULL only without memory. */
char *read_text(const char *path);
/* The first line, cut to the buffer; false if there is none. */
bool read_line(const char *path, char *buffer, size_t size);
/* The number in a file; -1 if it is not there. */
long read_number(const char *path);
/* The number behind "NAME:" in a text of lines, in that base; fallback if there is none. */
unsigned long long text_number(const char *text, const char *name, int base,
                               unsigned long long fallback);

/* One line of /proc/self/mountinfo. The strings are the reader's, and escaped as there. */
typedef struct MountLine {
        unsigned id;
        char *root, *point, *options, *type, *super;
} MountLine;

/* Splits the text in place; *text is moved behind the line. False at the end. Lines that are not
 * understood are passed over. */
bool mount_line_next(char **text, MountLine *ret_line);
/* Whether one of the comma-separated words is that. */
bool has_word(const char *words, const char *word);
/* The type of the file system that path lies on; NULL if unknown. Owned by the caller. */
char *read_file_system_type(const char *path);
