/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "cgroup/cgroup-path.h"

#define HYBRID "12:cpu,cpuacct:/x\n1:name=systemd:/y\n"
#define V1_MOUNT "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"

typedef struct Case {
        const char *cgroup, *mountinfo, *path; /* path NULL: none */
} Case;

static const Case cases[] = {
        {"0::/a/b\n", "29 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
         "/sys/fs/cgroup/a/b"},
        {"0::/\n", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
        {HYBRID "0::/a\n", V1_MOUNT "40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n",
         "/sys/fs/cgroup/unified/a"},
        {"0::/a b\n", "29 23 0:26 / /mnt/c\\040d rw - cgroup2 cgroup2 rw\n", "/mnt/c d/a b"},
        {"0::/box/a\n", "29 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "/sys/fs/cgroup/a"},
        {"0::/box\n", "29 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
        {"0::/boxes/a\n", "29 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", NULL},
        {"0::/other\n", "29 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", NULL},
        /* A part of it may be mounted elsewhere, before the whole. */
        {"0::/other\n",
         "28 23 0:26 /box /mnt/box rw - cgroup2 cgroup2 rw\n"
         "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "/sys/fs/cgroup/other"},
        {"0::/../x\n", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", NULL},
        {"0::/a (deleted)\n", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", NULL},
        {HYBRID, "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", NULL},
        {"0::/a\n", V1_MOUNT, NULL},
        {"", "", NULL},
        {"0::/a", "29 23 0:26 / /c - cgroup2 x rw", "/c/a"},
        {"0::/a\n", "29 - cgroup2 x\n", NULL},
        {"10::/a\n", "29 23 0:26 / /c rw - cgroup2 x rw\n", NULL},
};

START_TEST(test_find) {
        const Case *c = &cases[_i];
        _cleanup_(freep) char *path = NULL;

        ck_assert_int_eq(cgroup_path_find(c->cgroup, c->mountinfo, &path),
                         c->path ? 0 : CGROUP_PATH_E_NONE);
        if (c->path)
                ck_assert_str_eq(path, c->path);
        else
                ck_assert_ptr_null(path);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("cgroup-path");
        TCase *tcase = tcase_create("cgroup-path");
        SRunner *runner;
        int n_failed;

        tcase_add_loop_test(tcase, test_find, 0, ELEMENTSOF(cases));
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
