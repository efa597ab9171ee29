/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What went wrong while a tree or a crate was made: the step, the path, the errno. The host turns
 * it into a sentence.
 */

#include "ipc/proto.h"

/* Fills the failure with errno (or EIO) and returns it as a negative number, so that "return
 * failure_here(…)" is one line. */
int failure_here(ProtoFailure *failure, const char *step, const char *path);
/* The same with a given positive errno. */
int failure_set(ProtoFailure *failure, int error, const char *step, const char *path);
