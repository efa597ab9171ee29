/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bind roots: the folders and files of the host that a plan may show, as the administrator says and
 * not as the broker does. One line of the file is "ro PATH" or "rw PATH"; empty lines and lines
 * that begin with # mean nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"

#define BIND_ROOTS_MAX 256U
#define BIND_ROOTS_FILE_MAX 65536U

typedef struct BindRoot {
        const char *path; /* within text */
        bool writable;
} BindRoot;

typedef struct BindRoots {
        char *text;
        BindRoot roots[BIND_ROOTS_MAX];
        size_t n_roots;
} BindRoots;

#define BIND_ROOTS_NULL ((BindRoots){})

void bind_roots_done(BindRoots *roots);

enum {
        _BIND_ROOTS_E_SUCCESS,
        BIND_ROOTS_E_INVALID, /* ret_line and ret_fault tell */
};

/* Parses the content of such a file. ret_fault is a clause behind the line's number. */
int bind_roots_parse(const char *text, size_t size, BindRoots *ret_roots, size_t *ret_line,
                     const char **ret_fault);
/*
 * The same from a file, which must be root's, and for nobody else to write: else line 0 and a fault
 * that says so. A negative errno if it cannot be read.
 */
int bind_roots_read(const char *path, BindRoots *ret_roots, size_t *ret_line,
                    const char **ret_fault);

/*
 * The root that a path is below of; *ret_rest is what is left of the path, "" for the root itself.
 * NULL: there is none, or none that may be written to.
 */
const BindRoot *bind_roots_find(const BindRoots *roots, const char *path, bool writable,
                                const char **ret_rest);
