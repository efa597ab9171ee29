/* SPDX-License-Identifier: Apache-2.0 */

#include <check.h>

#include "basic/macros.h"
#include "cgroup/cgroup-text.h"
#include "cgroup/cgroup.h"
#include "tests/unit/suite.h"

#define EVENTS "low 0\nhigh 0\nmax 20\noom 1\noom_kill 3\noom_group_kill 2\n"

START_TEST(test_value) {
        static const struct {
                const char *text;
                bool found;
                uint64_t value;
        } cases[] = {
                {"0\n", true, 0},
                {"4096\n", true, 4096},
                {"17", true, 17},
                {"max\n", true, UINT64_MAX},
                {"18446744073709551615\n", true, UINT64_MAX},
                {"99999999999999999999999\n", true, UINT64_MAX},
                {"", false, 0},
                {"\n", false, 0},
                {"-1\n", false, 0},
                {"maximum\n", false, 0},
                {"12 34\n", false, 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t value = 7;

                ck_assert_int_eq(cgroup_text_value(cases[i].text, &value),
                                 cases[i].found ? 0 : CGROUP_TEXT_E_NONE);
                ck_assert_uint_eq(value, cases[i].found ? cases[i].value : 7);
        }
}
END_TEST

START_TEST(test_get) {
        static const struct {
                const char *text, *key;
                bool found;
                uint64_t value;
        } cases[] = {
                {EVENTS, "oom", true, 1},
                {EVENTS, "oom_kill", true, 3},
                {EVENTS, "oom_group_kill", true, 2},
                {EVENTS, "max", true, 20},
                {EVENTS, "kill", false, 0},
                {EVENTS, "", false, 0},
                {"populated 1\nfrozen 0", "frozen", true, 0},
                {"usage_usec 12", "usage_usec", true, 12},
                {"usage_usec ", "usage_usec", false, 0},
                {"usage_usec", "usage_usec", false, 0},
                {"", "max", false, 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t value = 0;

                ck_assert_int_eq(cgroup_text_get(cases[i].text, cases[i].key, &value),
                                 cases[i].found ? 0 : CGROUP_TEXT_E_NONE);
                ck_assert_uint_eq(value, cases[i].value);
        }
}
END_TEST

START_TEST(test_controllers) {
        ck_assert_uint_eq(cgroup_text_controllers("cpuset cpu io memory hugetlb pids rdma misc\n"),
                          _CGROUP_ALL);
        ck_assert_uint_eq(cgroup_text_controllers("cpuset hugetlb\n"), 0);
        ck_assert_uint_eq(cgroup_text_controllers("memory"), CGROUP_MEMORY);
        ck_assert_uint_eq(cgroup_text_controllers("pids cpu\n"), CGROUP_PIDS | CGROUP_CPU);
        ck_assert_uint_eq(cgroup_text_controllers("mem memoryx i\n"), 0);
        ck_assert_uint_eq(cgroup_text_controllers("\n"), 0);
        ck_assert_uint_eq(cgroup_text_controllers(""), 0);
}
END_TEST

START_TEST(test_io) {
        uint64_t in, out;

        cgroup_text_io("254:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n"
                       "8:16 rbytes=5 wbytes=7 rios=1 wios=2 dbytes=9 dios=0\n"
                       "8:0 \n",
                       &in, &out);
        ck_assert_uint_eq(in, 105);
        ck_assert_uint_eq(out, 27);
        cgroup_text_io("", &in, &out);
        ck_assert_uint_eq(in, 0);
        ck_assert_uint_eq(out, 0);
        cgroup_text_io("8:0 rbytes=18446744073709551615 wbytes=x\n8:1 rbytes=2 wbytes", &in, &out);
        ck_assert_uint_eq(in, UINT64_MAX);
        ck_assert_uint_eq(out, 0);
}
END_TEST

START_TEST(test_io_max) {
        static const char text[] = "8:0 rbps=1000 wbps=max riops=max wiops=max\n"
                                   "8:16 rbps=max wbps=20 riops=max wiops=max\n";
        uint64_t in, out;

        cgroup_text_io_max(text, "8:0", &in, &out);
        ck_assert_uint_eq(in, 1000);
        ck_assert_uint_eq(out, UINT64_MAX);
        cgroup_text_io_max(text, "8:16", &in, &out);
        ck_assert_uint_eq(in, UINT64_MAX);
        ck_assert_uint_eq(out, 20);
        cgroup_text_io_max(text, "8:1", &in, &out);
        ck_assert_uint_eq(in, UINT64_MAX);
        ck_assert_uint_eq(out, UINT64_MAX);
}
END_TEST

START_TEST(test_v1) {
        static const char text[] = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
                                   "cpu\t3\t1\t1\n"
                                   "cpuacct\t0\t1\t1\n"
                                   "memory\t0\t99\t0\n"
                                   "pids\t4\n";
        CgroupTextV1 v1;

        ck_assert_int_eq(cgroup_text_v1(text, "cpu", &v1), 0);
        ck_assert_uint_eq(v1.hierarchy, 3);
        ck_assert_uint_eq(v1.enabled, 1);
        ck_assert_int_eq(cgroup_text_v1(text, "memory", &v1), 0);
        ck_assert_uint_eq(v1.hierarchy, 0);
        ck_assert_uint_eq(v1.enabled, 0);
        ck_assert_int_eq(cgroup_text_v1(text, "pids", &v1), CGROUP_TEXT_E_NONE);
        ck_assert_int_eq(cgroup_text_v1(text, "blkio", &v1), CGROUP_TEXT_E_NONE);
}
END_TEST

START_TEST(test_release) {
        unsigned major = 0, minor = 0;

        ck_assert_int_eq(cgroup_text_release("6.1.0-57-amd64", &major, &minor), 0);
        ck_assert_uint_eq(major, 6);
        ck_assert_uint_eq(minor, 1);
        ck_assert_int_eq(cgroup_text_release("5.15", &major, &minor), 0);
        ck_assert_uint_eq(minor, 15);
        ck_assert_int_eq(cgroup_text_release("6", &major, &minor), CGROUP_TEXT_E_NONE);
        ck_assert_int_eq(cgroup_text_release("v6.1", &major, &minor), CGROUP_TEXT_E_NONE);
        ck_assert_int_eq(cgroup_text_release("", &major, &minor), CGROUP_TEXT_E_NONE);
}
END_TEST

START_TEST(test_failure_text) {
        static const struct {
                CgroupFailure failure;
                const char *text;
        } cases[] = {
                {{0, "jobs/memory.max", "4096", "max"},
                 "jobs/memory.max did not take \"4096\": it reads \"max\""},
                {{EROFS, "jobs/pids.max", "5", ""},
                 "\"5\" cannot be written to jobs/pids.max: the cgroup file system is mounted "
                 "read-only (EROFS)"},
                {{ENODEV, "jobs/t-0/c-1", "", ""},
                 "the cgroup jobs/t-0/c-1 cannot be used: the cgroup has vanished: another program "
                 "has removed it (ENODEV)"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(freep) char *text = cgroup_failure_format(&cases[i].failure);

                ck_assert_str_eq(text, cases[i].text);
        }
}
END_TEST

START_TEST(test_needed_controllers) {
        CgroupLimits limits = CGROUP_LIMITS_NONE;

        ck_assert_uint_eq(cgroup_limits_controllers(&limits), 0);
        limits.io_write_bps = 1;
        ck_assert_uint_eq(cgroup_limits_controllers(&limits), CGROUP_IO);
        limits.memory = limits.pids = limits.cpus = 1;
        ck_assert_uint_eq(cgroup_limits_controllers(&limits), _CGROUP_ALL);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("cgroup-text");

        tcase_add_test(tcase, test_value);
        tcase_add_test(tcase, test_get);
        tcase_add_test(tcase, test_controllers);
        tcase_add_test(tcase, test_io);
        tcase_add_test(tcase, test_io_max);
        tcase_add_test(tcase, test_v1);
        tcase_add_test(tcase, test_release);
        tcase_add_test(tcase, test_failure_text);
        tcase_add_test(tcase, test_needed_controllers);
        return suite_run("cgroup-text", tcase);
}
