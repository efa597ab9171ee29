/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rules to a BPF program, for one architecture.
 *
 * libseccomp gives the names and numbers; it does not write the program, for three reasons. Its
 * rules of one call know no order and no "else", so "socket: only these, anything else
 * EAFNOSUPPORT" cannot be said under a default of allow; it has no "none of these" for the low half
 * of an argument; and it does not join neighbours, so that its programs are several times as long.
 * Length matters: the kernel walks a new filter once for every call that it knows, and that is on
 * the way of each crate.
 */

#include <linux/filter.h>
#include <stdio.h>

#include "seccomp/parse.h"

enum {
        _SECCOMP_EMIT_E_SUCCESS,
        SECCOMP_EMIT_E_TOO_LONG, /* more instructions than the kernel takes */
};

/* The program is owned by the caller. */
int seccomp_emit(const SeccompSource *source, SeccompArch arch, struct sock_filter **ret_filter,
                 size_t *ret_n_filter);

typedef struct SeccompNamed {
        const char *name;
        const SeccompSource *source;
} SeccompNamed;

/* Writes the C file that holds the profiles, for all architectures, in the order given. 0, a
 * negative errno or SECCOMP_EMIT_E_X. */
int seccomp_emit_c(FILE *out, const SeccompNamed *profiles, size_t n_profiles);
