/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the unit tests of ipc, plan and crate share. */

#include <check.h>
#include <dirent.h>

/* Runs the tests of one program; the return value of main(). */
static inline int suite_run(const char *name, TCase *tcase) {
        Suite *suite = suite_create(name);
        SRunner *runner;
        int n_failed;

        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}

/* How many file descriptors this process has, but for the one that is needed to count. */
static inline size_t count_open_fds(void) {
        DIR *directory = opendir("/proc/self/fd");
        size_t n = 0;

        ck_assert_ptr_nonnull(directory);
        for (struct dirent *entry; (entry = readdir(directory));)
                n += entry->d_name[0] != '.';
        closedir(directory);
        return n - 1;
}
