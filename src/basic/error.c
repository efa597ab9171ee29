/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int error_report(int error, const char *how, const char *file, int line) {
        if (secure_getenv("AGENTCRATE_DEBUG"))
                fprintf(stderr, "%s:%d: %s: %s\n", file, line, how, strerrorname_np(-error) ?: "?");

        return error;
}
