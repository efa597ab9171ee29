/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Profiles from files. */

#include "seccomp/parse.h"

/* Reads and parses the file at path, includes from its folder: 0, a negative errno, or
 * SECCOMP_PARSE_E_INVALID. Diagnostics show the last part of each path. */
int seccomp_load(const char *path, DiagList *diags, SeccompSource **ret_source);
