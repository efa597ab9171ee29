/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <unistd.h>

#include "basic/time-util.h"
#include "egress/turns.h"
#include "tests/unit/suite.h"

/* One who waits, again and again. */
typedef struct Waiter {
        Turn turn;
        struct Scene *scene;
        unsigned n_left; /* turns that it still wants */
        unsigned slow_usec;
        unsigned n_turns;
} Waiter;

typedef struct Scene {
        Loop *loop;
        Turns turns, others;
        LoopTask round; /* of the loop: runs in each */
        LoopTimer later;
        unsigned n_rounds;
        unsigned n_turns, n_turns_before; /* of all, and of all in the rounds before this one */
        unsigned most_in_one;
        Waiter many[5], other;
} Scene;

static void on_turn(void *userdata) {
        Waiter *waiter = userdata;

        waiter->n_turns++;
        waiter->scene->n_turns++;
        if (waiter->slow_usec > 0)
                usleep(waiter->slow_usec);
        if (--waiter->n_left > 0)
                turns_wait(&waiter->scene->turns, &waiter->turn);
}

static void on_round(void *userdata) {
        Scene *scene = userdata;
        unsigned n = scene->n_turns - scene->n_turns_before;

        scene->n_turns_before = scene->n_turns;
        scene->most_in_one = n > scene->most_in_one ? n : scene->most_in_one;
        if (++scene->n_rounds == 20)
                loop_stop(scene->loop);
        loop_defer(scene->loop, &scene->round);
}

static void scene_init(Scene *scene) {
        *scene = (Scene){.round = {.run = on_round, .userdata = scene}};
        ck_assert_int_eq(loop_new(&scene->loop), 0);
        turns_init(&scene->turns, scene->loop);
        turns_init(&scene->others, scene->loop);
        loop_defer(scene->loop, &scene->round);
        for (size_t i = 0; i < ELEMENTSOF(scene->many); i++)
                scene->many[i] = (Waiter){.turn = {.run = on_turn, .userdata = &scene->many[i]},
                                          .scene = scene,
                                          .n_left = 2};
        scene->other = (Waiter){
                .turn = {.run = on_turn, .userdata = &scene->other}, .scene = scene, .n_left = 1};
}

static void scene_done(Scene *scene) {
        turns_done(&scene->turns);
        turns_done(&scene->others);
        loop_task_cancel(&scene->round);
        loop_timer_stop(&scene->later);
        loop_free(scene->loop);
}

START_TEST(one_in_a_round) {
        Scene scene;

        scene_init(&scene);
        for (size_t i = 0; i < ELEMENTSOF(scene.many); i++) {
                turns_wait(&scene.turns, &scene.many[i].turn);
                turns_wait(&scene.turns, &scene.many[i].turn);
        }
        ck_assert_int_eq(loop_run(scene.loop), 0);
        ck_assert_uint_eq(scene.most_in_one, 1);
        for (size_t i = 0; i < ELEMENTSOF(scene.many); i++)
                ck_assert_uint_eq(scene.many[i].n_turns, 2);
        scene_done(&scene);
}
END_TEST

START_TEST(none_when_it_was_cancelled) {
        Scene scene;

        scene_init(&scene);
        turns_wait(&scene.turns, &scene.many[0].turn);
        turns_wait(&scene.turns, &scene.many[1].turn);
        turn_cancel(&scene.many[0].turn);
        turn_cancel(&scene.many[0].turn);
        ck_assert_int_eq(loop_run(scene.loop), 0);
        ck_assert_uint_eq(scene.many[0].n_turns, 0);
        ck_assert_uint_eq(scene.many[1].n_turns, 2);
        scene_done(&scene);
}
END_TEST

static void on_later(void *userdata) {
        Scene *scene = userdata;

        turns_wait(&scene->others, &scene->other.turn);
}

/* While the slow one's job has its pause, rounds go by in which others are served. */
START_TEST(others_after_a_slow_one) {
        Scene scene;

        scene_init(&scene);
        scene.many[0].slow_usec = 50000;
        scene.later = (LoopTimer){.on_time = on_later, .userdata = &scene};
        ck_assert_int_eq(loop_timer_set(scene.loop, &scene.later, now_usec() + 1000), 0);
        turns_wait(&scene.turns, &scene.many[0].turn);
        ck_assert_int_eq(loop_run(scene.loop), 0);
        ck_assert_uint_eq(scene.many[0].n_turns, 1);
        ck_assert_uint_eq(scene.other.n_turns, 1);
        scene_done(&scene);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("turns");

        tcase_add_test(tcase, one_in_a_round);
        tcase_add_test(tcase, none_when_it_was_cancelled);
        tcase_add_test(tcase, others_after_a_slow_one);
        return suite_run("egress-turns", tcase);
}
