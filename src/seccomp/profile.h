/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Seccomp profiles. Their text lies in policies/seccomp/NAME.profile; they are compiled when the
 * project is built (libseccomp takes 2 to 3 ms for one, more than a whole crate) and are data of
 * the programs that build plans.
 */

#include <linux/filter.h>
#include <stddef.h>

typedef struct SeccompProfile {
        const char *name;
        const char *description;
        /* What init wears from its seal on: everything, with clone3 and seccomp still open. */
        const struct sock_filter *filter;
        size_t n_filter;
        int landlock;    /* path rules wanted (strict) */
        int proc_subset; /* /proc with pids only (strict) */
} SeccompProfile;

/* The profile of that name, or NULL. */
const SeccompProfile *seccomp_profile_find(const char *name);
/* All of them, in the order of their names. */
const SeccompProfile *seccomp_profiles(size_t *ret_n);
