/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a function's int return value means, everywhere in this tree:
 *
 *   0          done
 *   negative   -errno: something broke. It is only ever passed up; nobody reads meaning into it.
 *   positive   MODULE_E_X: a documented outcome of that one function (denied, not found, malformed
 * …). The direct caller handles it. It is never passed on, since the next caller would read another
 * module's number.
 *
 * The three wrappers cost nothing on success and, when AGENTCRATE_DEBUG is set, print a poor man's
 * backtrace: error_origin() where an errno is raised, error_trace() where it is passed on,
 * error_fold() where a positive outcome that cannot happen here is turned into -ENOTRECOVERABLE.
 */

#include <errno.h>

int error_report(int error, const char *how, const char *file, int line);

static inline int error_origin_at(int error, const char *file, int line) {
        return error < 0 ? error_report(error, "origin", file, line) : error;
}

static inline int error_trace_at(int error, const char *file, int line) {
        return error < 0 ? error_report(error, "trace", file, line) : error;
}

static inline int error_fold_at(int error, const char *file, int line) {
        return error > 0 ? error_report(-ENOTRECOVERABLE, "fold", file, line)
                         : error_trace_at(error, file, line);
}

#define error_origin(e) error_origin_at((e), __FILE__, __LINE__)
#define error_trace(e) error_trace_at((e), __FILE__, __LINE__)
#define error_fold(e) error_fold_at((e), __FILE__, __LINE__)

/* -errno of the call that just failed; -EIO if errno is not set, so that a failure is never read as
 * success. */
static inline int negative_errno(void) {
        return errno > 0 ? -errno : -EIO;
}
