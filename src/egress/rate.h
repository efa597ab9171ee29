/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How often something may happen: so many at once, and then so many a second. */

#include <stdbool.h>
#include <stdint.h>

#include "basic/time-util.h"

typedef struct Rate {
        uint32_t burst, per_second;
        uint64_t since_usec; /* when all of burst was last there, or would have been */
} Rate;

static inline bool rate_take(Rate *rate, uint64_t now_usec_) {
        uint64_t step = USEC_PER_SEC / rate->per_second, full = step * rate->burst;

        if (rate->since_usec + full < now_usec_)
                rate->since_usec = now_usec_ - full;
        if (rate->since_usec + step > now_usec_)
                return false;
        rate->since_usec += step;
        return true;
}

/* Nothing happened after all. */
static inline void rate_give_back(Rate *rate) {
        rate->since_usec -= USEC_PER_SEC / rate->per_second;
}
