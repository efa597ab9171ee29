/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many refused connections are put on record. Anybody on the host can connect again and again,
 * so it is no more than some in a while: the log would be theirs to fill otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#define REFUSALS_MAX 20U
#define REFUSALS_WHILE_USEC (10 * 1000000ULL)

typedef struct Refusals {
        uint64_t begun_usec; /* of the present while */
        uint64_t n;          /* in it */
} Refusals;

/* One more. Returns whether it is to be recorded; *ret_missed is how many before it were not. */
bool refusals_admit(Refusals *refusals, uint64_t now_usec, uint64_t *ret_missed);
