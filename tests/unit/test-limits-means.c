/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/limits-means.h"

#include "tests/unit/suite.h"

#define GIB (1ULL << 30)

/* A host without cgroups; what a tree adds is asked where there are trees. */
static const LimitsHost bare = {.reason = "nobody delegated any", .can_sample = true};

START_TEST(test_defaults) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        _cleanup_(strv_done) StrV notes = STRV_NULL;
        LimitsMeans means;
        Limits limits;

        limits_init(&limits);
        ck_assert_int_eq(limits_means_decide(&bare, &limits, &means, &notes, &error), 0);
        ck_assert_int_eq(means.of[LIMIT_MEMORY], LIMIT_BY_SAMPLER);
        ck_assert_int_eq(means.of[LIMIT_PIDS], LIMIT_BY_RLIMIT);
        ck_assert_int_eq(means.of[LIMIT_CPUS], LIMIT_BY_NOTHING);
        ck_assert_int_eq(means.of[LIMIT_CPU_TIME], LIMIT_BY_SAMPLER);
        ck_assert_int_eq(means.of[LIMIT_WALL_TIME], LIMIT_BY_TIMER);
        ck_assert_int_eq(means.of[LIMIT_DISK], LIMIT_BY_MOUNT);
        ck_assert_int_eq(means.of[LIMIT_INODES], LIMIT_BY_MOUNT);
        ck_assert_int_eq(means.of[LIMIT_OPEN_FILES], LIMIT_BY_RLIMIT);
        ck_assert_int_eq(means.of[LIMIT_FILE_SIZE], LIMIT_BY_RLIMIT);
        ck_assert_int_eq(means.of[LIMIT_OUTPUT], LIMIT_BY_BROKER);
        ck_assert_int_eq(means.of[LIMIT_IO_READ_BPS], LIMIT_BY_NOTHING);
        ck_assert_int_eq(means.of[LIMIT_IO_WRITE_BPS], LIMIT_BY_NOTHING);

        ck_assert_uint_eq(notes.n_items, 1);
        ck_assert_str_eq(notes.items[0], "not by a cgroup: memory by sampler, pids by rlimit; "
                                         "nobody delegated any");
        ck_assert_str_eq(limit_means_to_string(LIMIT_BY_SAMPLER), "sampler");
        ck_assert_ptr_null(limit_means_to_string(LIMIT_BY_NOTHING));
}
END_TEST

START_TEST(test_refused) {
        static const LimitName names[] = {LIMIT_CPUS, LIMIT_IO_READ_BPS, LIMIT_IO_WRITE_BPS};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsMeans means = {.of = {LIMIT_BY_BROKER}}, before = means;
        Limits limits;

        limits_init(&limits);
        limits.max[names[_i]] = 1000;
        ck_assert_int_eq(limits_means_decide(&bare, &limits, &means, NULL, &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.text, limit_to_string(names[_i])));
        ck_assert_ptr_nonnull(strstr(error.text, "nothing can enforce it here"));
        ck_assert_ptr_nonnull(strstr(error.text, "nobody delegated any"));
        ck_assert_str_eq(error.step, "limits");
        ck_assert(memcmp(&means, &before, sizeof(means)) == 0);
}
END_TEST

/* Strict refuses what would be sampled, and nothing else. */
START_TEST(test_strict) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsHost host = bare;
        LimitsMeans means;
        Limits limits;

        host.enforce = ENFORCE_STRICT;
        limits_init(&limits);
        ck_assert_int_eq(limits_means_decide(&host, &limits, &means, NULL, &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.text, "limit memory: only sampling"));

        limits.max[LIMIT_MEMORY] = LIMIT_UNLIMITED;
        ck_assert_int_eq(limits_means_decide(&host, &limits, &means, NULL, &error), 0);
        ck_assert_int_eq(means.of[LIMIT_PIDS], LIMIT_BY_RLIMIT);
        limits.max[LIMIT_CPU_TIME] = 1000000;
        ck_assert_int_eq(limits_means_decide(&host, &limits, &means, NULL, &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.text, "limit cpu_time: only sampling"));
}
END_TEST

/* Who may not look cannot sample. */
START_TEST(test_blind) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsHost host = bare;
        LimitsMeans means;
        Limits limits;

        host.can_sample = false;
        limits_init(&limits);
        ck_assert_int_eq(limits_means_decide(&host, &limits, &means, NULL, &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.text, "limit memory: nothing can enforce it here"));
        /* Nobody asked for it, so nobody can leave it out. */
        ck_assert_ptr_null(strstr(error.remedy, "leave the limit out"));
        crate_error_done(&error);
        limits_set(&limits, LIMIT_MEMORY, GIB);
        ck_assert_int_eq(limits_means_decide(&host, &limits, &means, NULL, &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.remedy, "leave the limit out"));
}
END_TEST

/* Of several jobs together the processes are counted by a cgroup, or by looking. */
START_TEST(test_ceilings) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LimitsMeans means = {.of = {[LIMIT_PIDS] = LIMIT_BY_RLIMIT}};
        LimitsHost host = bare;
        Limits ceilings;

        limits_init(&ceilings);
        ck_assert_int_eq(limits_means_check_ceilings(&host, &means, &ceilings, "x", &error), 0);
        host.can_sample = false;
        ck_assert_int_eq(limits_means_check_ceilings(&host, &means, &ceilings, "x", &error),
                         LIMITS_MEANS_E_REFUSED);
        ck_assert_ptr_nonnull(strstr(error.text, "x.pids"));
        means.of[LIMIT_PIDS] = LIMIT_BY_CGROUP;
        ck_assert_int_eq(limits_means_check_ceilings(&host, &means, &ceilings, "x", &error), 0);
        means.of[LIMIT_PIDS] = LIMIT_BY_RLIMIT;
        ceilings.max[LIMIT_PIDS] = LIMIT_UNLIMITED;
        ck_assert_int_eq(limits_means_check_ceilings(&host, &means, &ceilings, "x", &error), 0);
        ceilings.max[LIMIT_PIDS] = 9;
        host.can_sample = true;
        host.enforce = ENFORCE_STRICT;
        crate_error_done(&error);
        ck_assert_int_eq(limits_means_check_ceilings(&host, &means, &ceilings, "x", &error),
                         LIMITS_MEANS_E_REFUSED);
}
END_TEST

/* What a job's cgroup, its crate's and the levels above are given. */
START_TEST(test_cgroup_limits) {
        LimitsMeans means = {};
        CgroupLimits job, crate;
        Limits limits;

        limits_init(&limits);
        limits.max[LIMIT_CPUS] = 1500;
        means.of[LIMIT_MEMORY] = means.of[LIMIT_CPUS] = LIMIT_BY_CGROUP;
        means.of[LIMIT_PIDS] = LIMIT_BY_RLIMIT;

        job = limits_of_job(&limits, &means);
        ck_assert_uint_eq(job.memory, 2 * GIB);
        ck_assert_uint_eq(job.cpus, 1500);
        ck_assert_uint_eq(job.pids, CGROUP_UNLIMITED);
        ck_assert_uint_eq(job.io_read_bps, CGROUP_UNLIMITED);

        /* Room for the private files and for init. */
        crate = limits_of_crate(&limits, &means);
        ck_assert_uint_gt(crate.memory, 3 * GIB);
        ck_assert_uint_eq(crate.cpus, CGROUP_UNLIMITED);
        limits.max[LIMIT_MEMORY] = LIMIT_UNLIMITED;
        crate = limits_of_crate(&limits, &means);
        ck_assert_uint_eq(crate.memory, CGROUP_UNLIMITED);

        limits.max[LIMIT_MEMORY] = GIB;
        job = limits_of_ceilings(&limits, CGROUP_MEMORY | CGROUP_PIDS);
        ck_assert_uint_eq(job.memory, GIB);
        ck_assert_uint_eq(job.pids, 512);
        ck_assert_uint_eq(job.cpus, CGROUP_UNLIMITED);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("limits-means");

        tcase_add_test(tcase, test_defaults);
        tcase_add_loop_test(tcase, test_refused, 0, 3);
        tcase_add_test(tcase, test_strict);
        tcase_add_test(tcase, test_blind);
        tcase_add_test(tcase, test_ceilings);
        tcase_add_test(tcase, test_cgroup_limits);
        return suite_run("limits-means", tcase);
}
