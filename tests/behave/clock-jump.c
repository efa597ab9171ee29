/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Preloaded into a program, makes the wall clock step by an hour forwards and back at each look.
 * The monotonic clocks stay. A timer that the kernel would run by the wall clock ends the program:
 * no deadline may hang on it.
 */

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#define STEP_SEC 3600

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret);
__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict ret,
                                                        void *restrict zone);
__attribute__((visibility("default"))) time_t time(time_t *ret);
__attribute__((visibility("default"))) int timerfd_create(clockid_t clock, int flags);

static time_t step(void) {
        static bool forwards;

        forwards = !forwards;
        return forwards ? STEP_SEC : -STEP_SEC;
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
        int r = (int) syscall(SYS_clock_gettime, clock, ret);

        if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
                ret->tv_sec += step();
        return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
        struct timespec now;

        (void) zone;
        (void) clock_gettime(CLOCK_REALTIME, &now);
        *ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
        return 0;
}

time_t time(time_t *ret) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (ret)
                *ret = now.tv_sec;
        return now.tv_sec;
}

int timerfd_create(clockid_t clock, int flags) {
        if (clock == CLOCK_REALTIME)
                abort();
        return (int) syscall(SYS_timerfd_create, clock, flags);
}
