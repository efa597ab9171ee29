/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How often something was called in the last minute, second by second; and those counts that
 * outlive a session, since the calls of all sessions of a tenant count together.
 */

#include <stdint.h>

#include "basic/macros.h"

#define COUNTS_SECONDS 60U
#define COUNTS_MAX 4096U

typedef struct MinuteCount {
        uint64_t second; /* of the last look */
        uint32_t seconds[COUNTS_SECONDS];
} MinuteCount;

/* What was counted in the minute up to that second. */
uint64_t minute_count_look(MinuteCount *count, uint64_t second);
/* One more, at the second of the last look. */
void minute_count_add(MinuteCount *count);

typedef struct CountsEntry CountsEntry;

typedef struct Counts {
        CountsEntry *first;
        size_t n;
} Counts;

void counts_done(Counts *counts);
/* The count of an operation of that tenant; NULL: there is no memory, or there are too many of
 * others that were used within the minute. It may be gone at the next call. */
MinuteCount *counts_get(Counts *counts, const char *tenant, const char *credential,
                        const char *operation, uint64_t second);
