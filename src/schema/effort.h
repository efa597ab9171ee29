/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What may be spent on one check. Arguments come from whoever calls, and a schema that is cheap for
 * one argument may be dear for another: so all work is counted in steps of about the same size, and
 * ends when they are spent. The clock is the thread's own CPU time, so that a busy machine refuses
 * nothing; it is looked at only now and then, and never for a usual call.
 */

#include <stdint.h>

#define EFFORT_STEPS_MAX 1000000U
#define EFFORT_USEC_MAX 50000U

enum {
        _EFFORT_E_SUCCESS,
        EFFORT_E_SPENT,
};

typedef struct Effort {
        uint32_t left;
        uint32_t clock_at; /* how many are left when the clock is looked at next */
        uint64_t deadline_usec;
} Effort;

#define EFFORT_CLOCK_STEPS 4096U
#define EFFORT_INIT                                                                                \
        { .left = EFFORT_STEPS_MAX, .clock_at = EFFORT_STEPS_MAX - EFFORT_CLOCK_STEPS }

/* The slow way of effort_spend(). */
int effort_look_at_clock(Effort *effort);

/* 0 or EFFORT_E_SPENT, which it then is for good. */
static inline int effort_spend(Effort *effort, uint64_t steps) {
        if (steps >= effort->left) {
                effort->left = 0;
                return EFFORT_E_SPENT;
        }
        effort->left -= (uint32_t) steps;
        return effort->left <= effort->clock_at ? effort_look_at_clock(effort) : 0;
}

/* So many bytes are read from beginning to end. */
static inline int effort_spend_bytes(Effort *effort, uint64_t size) {
        return effort_spend(effort, 1 + size / 256);
}
