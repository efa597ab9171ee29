/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "basic/macros.h"

#define EXIT_RUNNER_FAILED 125

enum {
        _RUN_E_SUCCESS,
        RUN_E_REPORTED, /* it cannot go on, and the user was told why */
};

/* "agentcrate-run: TEXT" and a newline to standard error, in one write. */
void report(const char *format, ...) _printf_(1, 2);

/* The same, for returning: gives RUN_E_REPORTED. */
#define report_failure(...) (report(__VA_ARGS__), (int) RUN_E_REPORTED)
