/* SPDX-License-Identifier: Apache-2.0 */
#include "run/report.h"

#include <stdarg.h>

void report(const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        (void) dprintf(STDERR_FILENO, "agentcrate-run: %s\n", text ?: "out of memory");
}
