/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The event loop of a program that holds secrets: epoll, timers, and tasks that run once everything
 * that is ready has been looked at. What it watches is embedded in who owns it, so that a thousand
 * idle connections cost it nothing. Any callback may remove anything.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "basic/macros.h"

typedef struct Loop Loop;
typedef struct LoopTask LoopTask;

typedef struct LoopFd {
        Loop *loop; /* NULL: not watched */
        int fd;     /* borrowed; it is to be removed before it is closed */
        void (*on_ready)(void *userdata, uint32_t events);
        void *userdata;
} LoopFd;

typedef struct LoopTimer {
        Loop *loop;
        size_t place; /* in the heap, from 1 on; 0: it does not run */
        uint64_t at_usec;
        void (*on_time)(void *userdata);
        void *userdata;
} LoopTimer;

struct LoopTask {
        Loop *loop; /* NULL: it is not to run */
        LoopTask *previous, *next;
        void (*run)(void *userdata);
        void *userdata;
};

int loop_new(Loop **ret_loop);
Loop *loop_free(Loop *loop);
DEFINE_CLEANUP(Loop, loop_free);

/* Serves until loop_stop(). 0 or a negative errno. */
int loop_run(Loop *loop);
void loop_stop(Loop *loop);
/* Microseconds of the monotonic clock, as of when the loop last woke up. */
uint64_t loop_now(const Loop *loop);

/* events are epoll's. on_ready and userdata are set by the caller before. */
int loop_add(Loop *loop, LoopFd *fd, uint32_t events);
int loop_change(LoopFd *fd, uint32_t events);
void loop_remove(LoopFd *fd);

/* Starts it, or moves it. It fires once. on_time and userdata are set by the caller before. */
int loop_timer_set(Loop *loop, LoopTimer *timer, uint64_t at_usec);
void loop_timer_stop(LoopTimer *timer);

/* Once, soon; what is deferred while tasks run waits for the next round. */
void loop_defer(Loop *loop, LoopTask *task);
void loop_task_cancel(LoopTask *task);
