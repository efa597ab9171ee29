/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ownership on the line: a local that owns carries a cleanup attribute and an initial value, and
 * TAKE_PTR or TAKE_FD stands on the one line where ownership moves.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _public_ __attribute__((visibility("default")))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))
#define _noreturn_ __attribute__((noreturn))
/* For large buffers on hot ways, which -ftrivial-auto-var-init would clear each time. */
#if __has_attribute(uninitialized)
#define _uninitialized_ __attribute__((uninitialized))
#else
#define _uninitialized_
#endif
#define _always_inline_ __attribute__((always_inline)) inline

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define CONST_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CONST_MAX(a, b) ((a) > (b) ? (a) : (b))

static inline size_t size_min(size_t a, size_t b) {
        return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b) {
        return a > b ? a : b;
}

#define TAKE_PTR(p)                                                                                \
        ({                                                                                         \
                typeof(p) *_pp = &(p);                                                             \
                typeof(p) _p = *_pp;                                                               \
                *_pp = NULL;                                                                       \
                _p;                                                                                \
        })

#define TAKE_FD(fd)                                                                                \
        ({                                                                                         \
                int *_pp = &(fd);                                                                  \
                int _fd = *_pp;                                                                    \
                *_pp = -EBADF;                                                                     \
                _fd;                                                                               \
        })

/* Defines f##p(T **p), for use with _cleanup_. */
#define DEFINE_CLEANUP(T, f)                                                                       \
        static inline void f##p(T **p) {                                                           \
                if (*p)                                                                            \
                        (void) f(*p);                                                              \
        }

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Closes fd unless it is negative, keeps errno. Returns -EBADF, so that "x = fd_close(x)" leaves an
 * empty one. */
static inline int fd_close(int fd) {
        if (fd >= 0) {
                int saved = errno;

                (void) close(fd);
                errno = saved;
        }
        return -EBADF;
}

static inline void fd_closep(int *fd) {
        (void) fd_close(*fd);
}

static inline bool string_empty(const char *s) {
        return !s || !*s;
}
