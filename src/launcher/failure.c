/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/failure.h"

#include <stdio.h>

#include "basic/error.h"

int failure_set(ProtoFailure *failure, int error, const char *step, const char *path) {
        *failure = (ProtoFailure){.error = error};
        (void) snprintf(failure->step, sizeof(failure->step), "%s", step);
        (void) snprintf(failure->path, sizeof(failure->path), "%s", path);
        return error_origin(-error);
}

int failure_here(ProtoFailure *failure, const char *step, const char *path) {
        return failure_set(failure, -negative_errno(), step, path);
}
