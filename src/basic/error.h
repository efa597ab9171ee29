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

#define error_origin(e)                                                                            \
        ({                                                                                         \
                int _e = (e);                                                                      \
                _e < 0 ? error_report(_e, "origin", __FILE__, __LINE__) : _e;                      \
        })

#define error_trace(e)                                                                             \
        ({                                                                                         \
                int _e = (e);                                                                      \
                _e < 0 ? error_report(_e, "trace", __FILE__, __LINE__) : _e;                       \
        })

#define error_fold(e)                                                                              \
        ({                                                                                         \
                int _e = (e);                                                                      \
                _e > 0 ? error_report(-ENOTRECOVERABLE, "fold", __FILE__, __LINE__)                \
                       : error_trace(_e);                                                          \
        })

/* -errno of the call that just failed; -EIO if errno is not set, so that a failure is never read as
 * success. */
static inline int negative_errno(void) {
        return errno > 0 ? -errno : -EIO;
}
