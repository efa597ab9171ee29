/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The generated data behind profile.h. */

#include "seccomp/profile.h"

extern const SeccompProfile seccomp_table[]; /* sorted by name */
extern const size_t seccomp_table_size;
