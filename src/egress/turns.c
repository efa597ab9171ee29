/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/turns.h"

#include "basic/time-util.h"

/* What takes no longer than this is not worth a timer. */
#define SHORT_USEC USEC_PER_MSEC

static void turns_schedule(Turns *turns, uint64_t took_usec) {
        if (TAILQ_EMPTY(&turns->queue) || turns->runs || turns->pause.place > 0)
                return;
        if (took_usec <= SHORT_USEC ||
            loop_timer_set(turns->loop, &turns->pause, now_usec() + took_usec) < 0)
                loop_defer(turns->loop, &turns->next);
}

static void on_next(void *userdata) {
        Turns *turns = userdata;
        Turn *turn = TAILQ_FIRST(&turns->queue);
        uint64_t begin = now_usec();

        if (!turn)
                return;
        turn_cancel(turn);
        turns->runs = true;
        turn->run(turn->userdata);
        turns->runs = false;
        turns_schedule(turns, now_usec() - begin);
}

static void on_pause_end(void *userdata) {
        turns_schedule(userdata, 0);
}

void turns_init(Turns *turns, Loop *loop) {
        *turns = (Turns){.loop = loop,
                         .next = {.run = on_next, .userdata = turns},
                         .pause = {.on_time = on_pause_end, .userdata = turns}};
        TAILQ_INIT(&turns->queue);
}

void turns_done(Turns *turns) {
        if (!turns->loop)
                return;
        while (!TAILQ_EMPTY(&turns->queue))
                turn_cancel(TAILQ_FIRST(&turns->queue));
        loop_task_cancel(&turns->next);
        loop_timer_stop(&turns->pause);
}

void turns_wait(Turns *turns, Turn *turn) {
        if (turn->turns)
                return;
        turn->turns = turns;
        TAILQ_INSERT_TAIL(&turns->queue, turn, entry);
        turns_schedule(turns, 0);
}

void turn_cancel(Turn *turn) {
        if (!turn->turns)
                return;
        TAILQ_REMOVE(&turn->turns->queue, turn, entry);
        turn->turns = NULL;
}
