/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The vocabulary of profiles: system calls, actions and constants, by name. */

#include <stdint.h>

#include "seccomp/parse.h"

enum {
        _SECCOMP_WORD_E_SUCCESS,
        SECCOMP_WORD_E_UNKNOWN,
};

/* The numbers of a call on all architectures. SECCOMP_WORD_E_UNKNOWN if none of them has it. */
int seccomp_call_lookup(const char *name, int ret_nr[static _SECCOMP_ARCH_MAX]);
/* "allow", "kill" or an errno name. */
int seccomp_action_lookup(const char *name, uint32_t *ret_action);
/* A constant or a number (decimal, 0x, or octal with a leading 0) of at most 32 bits. */
int seccomp_value_lookup(const char *name, uint32_t *ret_value);
