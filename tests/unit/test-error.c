/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/error.h"

#include "basic/macros.h"
#include "tests/unit/suite.h"

/* What the calls of report() write to standard error. */
static void capture_report(void (*report)(void), char *ret_text, size_t size) {
        FILE *file = tmpfile();
        int saved = dup(STDERR_FILENO);
        size_t n;

        ck_assert_ptr_nonnull(file);
        fflush(stderr);
        ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
        report();
        fflush(stderr);
        ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
        close(saved);
        rewind(file);
        n = fread(ret_text, 1, size - 1, file);
        ret_text[n] = 0;
        fclose(file);
}

START_TEST(test_values) {
        ck_assert_int_eq(error_origin(0), 0);
        ck_assert_int_eq(error_origin(-EPERM), -EPERM);
        ck_assert_int_eq(error_origin(3), 3);
        ck_assert_int_eq(error_trace(0), 0);
        ck_assert_int_eq(error_trace(-ENOMEM), -ENOMEM);
        ck_assert_int_eq(error_trace(3), 3);
        ck_assert_int_eq(error_fold(0), 0);
        ck_assert_int_eq(error_fold(-EIO), -EIO);
        ck_assert_int_eq(error_fold(1), -ENOTRECOVERABLE);
        ck_assert_int_eq(error_fold(INT32_MAX), -ENOTRECOVERABLE);
}
END_TEST

static int count_up(int *n) {
        (*n)++;
        return -EIO;
}

START_TEST(test_evaluated_once) {
        int n = 0;

        ck_assert_int_eq(error_origin(count_up(&n)), -EIO);
        ck_assert_int_eq(error_trace(count_up(&n)), -EIO);
        ck_assert_int_eq(error_fold(count_up(&n)), -EIO);
        ck_assert_int_eq(n, 3);
}
END_TEST

START_TEST(test_negative_errno) {
        errno = ENOENT;
        ck_assert_int_eq(negative_errno(), -ENOENT);
        errno = 0;
        ck_assert_int_eq(negative_errno(), -EIO);
        errno = -5;
        ck_assert_int_eq(negative_errno(), -EIO);
}
END_TEST

static void report_all(void) {
        (void) error_origin(-ENOENT);
        (void) error_trace(-ENOENT);
        (void) error_fold(2);
        (void) error_trace(0);
        (void) error_trace(2);
        (void) error_origin(-99999);
}

START_TEST(test_silent) {
        char text[1024];

        ck_assert_int_eq(unsetenv("AGENTCRATE_DEBUG"), 0);
        capture_report(report_all, text, sizeof(text));
        ck_assert_str_eq(text, "");
}
END_TEST

/* Only failures are told, each in a line with its place. */
START_TEST(test_debug) {
        static const char *const ends[] = {": origin: ENOENT", ": trace: ENOENT",
                                           ": fold: ENOTRECOVERABLE", ": origin: ?"};
        char text[1024], *p = text;

        ck_assert_int_eq(setenv("AGENTCRATE_DEBUG", "1", 1), 0);
        capture_report(report_all, text, sizeof(text));
        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                const char *line = strsep(&p, "\n");

                ck_assert_ptr_nonnull(line);
                ck_assert_ptr_nonnull(strstr(line, "test-error.c:"));
                ck_assert_uint_gt(strlen(line), strlen(ends[i]));
                ck_assert_str_eq(line + strlen(line) - strlen(ends[i]), ends[i]);
        }
        ck_assert_str_eq(p, "");
}
END_TEST

START_TEST(test_fd_close) {
        int fds[2];

        ck_assert_int_eq(pipe(fds), 0);
        errno = 7;
        ck_assert_int_eq(fd_close(fds[0]), -EBADF);
        ck_assert_int_eq(fd_close(fds[0]), -EBADF);
        ck_assert_int_eq(fd_close(-EBADF), -EBADF);
        ck_assert_int_eq(errno, 7);
        ck_assert_int_eq(TAKE_FD(fds[1]) < 0, 0);
        ck_assert_int_eq(fds[1], -EBADF);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("error");

        tcase_add_test(tcase, test_values);
        tcase_add_test(tcase, test_evaluated_once);
        tcase_add_test(tcase, test_negative_errno);
        tcase_add_test(tcase, test_silent);
        tcase_add_test(tcase, test_debug);
        tcase_add_test(tcase, test_fd_close);
        return suite_run("error", tcase);
}
