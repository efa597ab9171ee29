/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/loop.h"

#include "basic/error.h"
#include "basic/time-util.h"

#define LOOP_BATCH 64

struct Loop {
        int epoll_fd;
        bool stopped;
        uint64_t now_usec;
        struct epoll_event events[LOOP_BATCH];
        int n_events;
        LoopTask tasks; /* head of a ring */
        LoopTask mark;  /* where the round under way ends */
        LoopTimer **heap;
        size_t n_heap, n_allocated; /* the heap's first entry has index 1 */
};

int loop_new(Loop **ret_loop) {
        _cleanup_(loop_freep) Loop *loop = calloc(1, sizeof(Loop));

        if (!loop)
                return error_origin(-ENOMEM);
        loop->tasks.previous = loop->tasks.next = &loop->tasks;
        loop->now_usec = now_usec();
        loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epoll_fd < 0)
                return error_origin(negative_errno());
        *ret_loop = TAKE_PTR(loop);
        return 0;
}

Loop *loop_free(Loop *loop) {
        if (!loop)
                return NULL;

        fd_close(loop->epoll_fd);
        free(loop->heap);
        free(loop);
        return NULL;
}

void loop_stop(Loop *loop) {
        loop->stopped = true;
}

uint64_t loop_now(const Loop *loop) {
        return loop->now_usec;
}

/* --- file descriptors --- */

int loop_add(Loop *loop, LoopFd *fd, uint32_t events) {
        struct epoll_event event = {.events = events, .data.ptr = fd};

        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd->fd, &event) < 0)
                return error_origin(negative_errno());
        fd->loop = loop;
        return 0;
}

int loop_change(LoopFd *fd, uint32_t events) {
        struct epoll_event event = {.events = events, .data.ptr = fd};

        if (epoll_ctl(fd->loop->epoll_fd, EPOLL_CTL_MOD, fd->fd, &event) < 0)
                return error_origin(negative_errno());
        return 0;
}

void loop_remove(LoopFd *fd) {
        Loop *loop = fd->loop;

        if (!loop)
                return;
        (void) epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd->fd, NULL);
        /* The batch under way may still name it. */
        for (int i = 0; i < loop->n_events; i++)
                if (loop->events[i].data.ptr == fd)
                        loop->events[i].data.ptr = NULL;
        fd->loop = NULL;
}

/* --- timers: a binary heap, the earliest first --- */

static void heap_put(Loop *loop, size_t place, LoopTimer *timer) {
        loop->heap[place] = timer;
        timer->place = place;
}

static void heap_rise(Loop *loop, size_t place, LoopTimer *timer) {
        for (; place > 1 && loop->heap[place / 2]->at_usec > timer->at_usec; place /= 2)
                heap_put(loop, place, loop->heap[place / 2]);
        heap_put(loop, place, timer);
}

static void heap_sink(Loop *loop, size_t place, LoopTimer *timer) {
        for (;;) {
                size_t child = place * 2;

                if (child > loop->n_heap)
                        break;
                if (child < loop->n_heap &&
                    loop->heap[child + 1]->at_usec < loop->heap[child]->at_usec)
                        child++;
                if (loop->heap[child]->at_usec >= timer->at_usec)
                        break;
                heap_put(loop, place, loop->heap[child]);
                place = child;
        }
        heap_put(loop, place, timer);
}

static int heap_reserve(Loop *loop) {
        size_t n = loop->n_allocated ? loop->n_allocated * 2 : 64;
        LoopTimer **heap;

        if (loop->n_heap + 1 < loop->n_allocated)
                return 0;
        heap = reallocarray(loop->heap, n, sizeof(LoopTimer *));
        if (!heap)
                return error_origin(-ENOMEM);
        loop->heap = heap;
        loop->n_allocated = n;
        return 0;
}

int loop_timer_set(Loop *loop, LoopTimer *timer, uint64_t at_usec) {
        int r;

        loop_timer_stop(timer);
        r = heap_reserve(loop);
        if (r < 0)
                return error_trace(r);
        timer->loop = loop;
        timer->at_usec = at_usec;
        heap_rise(loop, ++loop->n_heap, timer);
        return 0;
}

void loop_timer_stop(LoopTimer *timer) {
        Loop *loop = timer->loop;
        size_t place = timer->place;
        LoopTimer *last;

        if (place == 0)
                return;
        timer->place = 0;
        last = loop->heap[loop->n_heap--];
        if (last == timer)
                return;
        if (place > 1 && loop->heap[place / 2]->at_usec > last->at_usec)
                heap_rise(loop, place, last);
        else
                heap_sink(loop, place, last);
}

static void run_timers(Loop *loop) {
        while (loop->n_heap > 0 && loop->heap[1]->at_usec <= loop->now_usec) {
                LoopTimer *timer = loop->heap[1];

                loop_timer_stop(timer);
                timer->on_time(timer->userdata);
        }
}

/* --- tasks --- */

void loop_defer(Loop *loop, LoopTask *task) {
        if (task->loop)
                return;
        task->loop = loop;
        task->previous = loop->tasks.previous;
        task->next = &loop->tasks;
        task->previous->next = loop->tasks.previous = task;
}

void loop_task_cancel(LoopTask *task) {
        if (!task->loop)
                return;
        task->previous->next = task->next;
        task->next->previous = task->previous;
        task->loop = NULL;
}

/* A mark behind the last one: what is added from now on is for the next round. */
static void run_tasks(Loop *loop) {
        loop_defer(loop, &loop->mark);
        while (loop->tasks.next != &loop->mark) {
                LoopTask *task = loop->tasks.next;

                loop_task_cancel(task);
                task->run(task->userdata);
        }
        loop_task_cancel(&loop->mark);
}

/* --- the loop --- */

/* A timer's last microseconds are slept through, too: waking up early would be a busy wait. */
static int wait_msec(const Loop *loop) {
        uint64_t now = now_usec(), left;

        if (loop->tasks.next != &loop->tasks)
                return 0;
        if (loop->n_heap == 0)
                return -1;
        if (loop->heap[1]->at_usec <= now)
                return 0;
        left = (loop->heap[1]->at_usec - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
        return left > 60000 ? 60000 : (int) left;
}

int loop_run(Loop *loop) {
        while (!loop->stopped) {
                int n = epoll_wait(loop->epoll_fd, loop->events, LOOP_BATCH, wait_msec(loop));

                if (n < 0 && errno != EINTR)
                        return error_origin(negative_errno());
                loop->now_usec = now_usec();
                loop->n_events = n < 0 ? 0 : n;
                for (int i = 0; i < loop->n_events; i++) {
                        LoopFd *fd = loop->events[i].data.ptr;

                        if (fd)
                                fd->on_ready(fd->userdata, loop->events[i].events);
                }
                loop->n_events = 0;
                run_timers(loop);
                run_tasks(loop);
        }
        return 0;
}
