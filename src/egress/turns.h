/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Work of one job that waits for its turn. In a round of the loop one piece of it is done, whoever
 * of the job's connections it is for, and after one that took long the others are served for as
 * long: a job with many connections is not served more than one with few.
 */

#include <sys/queue.h>

#include "egress/loop.h"

typedef struct Turns Turns;

/* Embedded in who waits. run may wait again. */
typedef struct Turn {
        Turns *turns; /* NULL: it does not wait */
        TAILQ_ENTRY(Turn) entry;
        void (*run)(void *userdata);
        void *userdata;
} Turn;

struct Turns {
        Loop *loop;
        TAILQ_HEAD(TurnQueue, Turn) queue;
        LoopTask next;
        LoopTimer pause;
        bool runs; /* one of them, just now */
};

/* It does not move from here on. */
void turns_init(Turns *turns, Loop *loop);
/* Nobody waits any more. */
void turns_done(Turns *turns);

/* Puts it at the end; one that waits already keeps its place. */
void turns_wait(Turns *turns, Turn *turn);
void turn_cancel(Turn *turn);
