/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The broker's own messages, on standard error: one line each. Where standard error is the
 * journal a line begins with its level in the form that the service manager reads.
 */

#include "basic/macros.h"

void log_error(const char *format, ...) _printf_(1, 2);
void log_warning(const char *format, ...) _printf_(1, 2);
void log_notice(const char *format, ...) _printf_(1, 2);
/* "what: error's text"; returns error, so that logging and returning is one line. */
int log_errno(int error, const char *format, ...) _printf_(2, 3);
