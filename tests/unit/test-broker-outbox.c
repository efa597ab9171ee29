/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/batch.h"
#include "broker/outbox.h"

static int pair[2];

static void setup(void) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void teardown(void) {
        fd_close(pair[0]);
        fd_close(pair[1]);
}

/* Frames of one letter each, in the order of the alphabet. */
static char expected_byte(size_t position, size_t frame_size) {
        size_t in_frame = position % (frame_size + 1);

        if (in_frame == frame_size)
                return '\n';
        return (char) ('a' + position / (frame_size + 1) % 26);
}

/* What is sent bit by bit arrives whole and in order, and the buffer does not keep what has left.
 */
START_TEST(test_slow_reader) {
        _cleanup_(outbox_done) Outbox outbox = {};
        static char frame[100000], buffer[4096];
        size_t n_frames = 50, received = 0, total = n_frames * (sizeof(frame) + 1);
        size_t n_wrong = 0;

        for (size_t i = 0; i < n_frames; i++) {
                memset(frame, (int) ('a' + i % 26), sizeof(frame));
                ck_assert_int_eq(outbox_add(&outbox, frame, sizeof(frame)), 0);
        }
        ck_assert_int_eq(outbox_flush(&outbox, pair[0]), OUTBOX_E_AGAIN);
        ck_assert_uint_lt(outbox_pending(&outbox), total);

        while (received < total) {
                ssize_t n;

                n = recv(pair[1], buffer, sizeof(buffer), 0);
                ck_assert_int_gt(n, 0);
                for (ssize_t i = 0; i < n; i++, received++)
                        n_wrong += buffer[i] != expected_byte(received, sizeof(frame));
                ck_assert_int_ge(outbox_flush(&outbox, pair[0]), 0);
        }
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_uint_eq(outbox_pending(&outbox), 0);
        ck_assert_uint_le(outbox.buffer.capacity, 65536);
}
END_TEST

START_TEST(test_gone) {
        _cleanup_(outbox_done) Outbox outbox = {};

        pair[1] = fd_close(pair[1]);
        ck_assert_int_eq(outbox_flush(&outbox, pair[0]), 0);
        ck_assert_int_eq(outbox_add(&outbox, "x", 1), 0);
        ck_assert_int_eq(outbox_flush(&outbox, pair[0]), OUTBOX_E_GONE);
}
END_TEST

START_TEST(test_batch) {
        Batch *batch = batch_new();
        char *frame;
        size_t size;

        ck_assert_ptr_nonnull(batch);
        ck_assert_ptr_eq(batch_ref(batch), batch);
        ck_assert_int_eq(batch_add(batch, "1", 1), 0);
        batch_unref(batch, &frame, &size);
        ck_assert_ptr_null(frame);
        ck_assert_int_eq(batch_add(batch, "{}", 2), 0);
        batch_unref(batch, &frame, &size);
        ck_assert_uint_eq(size, 6);
        ck_assert_str_eq(frame, "[1,{}]");
        free(frame);

        /* Without an answer there is no array. */
        batch = batch_new();
        batch_unref(batch, &frame, &size);
        ck_assert_ptr_null(frame);
        batch_unref(NULL, &frame, &size);
        ck_assert_ptr_null(frame);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("broker-outbox");
        TCase *tcase = tcase_create("broker-outbox");
        SRunner *runner;
        int n_failed;

        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_add_test(tcase, test_slow_reader);
        tcase_add_test(tcase, test_gone);
        tcase_add_test(tcase, test_batch);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
