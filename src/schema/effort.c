/* SPDX-License-Identifier: Apache-2.0 */

#include "schema/effort.h"

#include <time.h>

#include "basic/time-util.h"

static uint64_t cpu_usec(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

int effort_look_at_clock(Effort *effort) {
        uint64_t now = cpu_usec();

        /* Time begins with the first look: what was done before is little. */
        if (effort->deadline_usec == 0)
                effort->deadline_usec = now + EFFORT_USEC_MAX;
        if (now >= effort->deadline_usec) {
                effort->left = 0;
                return EFFORT_E_SPENT;
        }

        effort->clock_at =
                effort->left > EFFORT_CLOCK_STEPS ? effort->left - EFFORT_CLOCK_STEPS : 0;
        return 0;
}
