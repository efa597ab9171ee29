/* SPDX-License-Identifier: Apache-2.0 */

/* What the record says of a ceiling that is met, by files that stand in for a cgroup's. */

#include <fcntl.h>

#include "cgroup/cgroup-internal.h"
#include "crate/crate-state.h"
#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

/* The ceiling is none of ours: the job lives on, and is refused again and again. */
START_TEST(test_outside) {
        _cleanup_(scratch_done) Scratch folder = SCRATCH_NULL;
        CgroupTree tree = {.jobs = {.limits = CGROUP_LIMITS_NONE}};
        CgroupTenant tenant = {.shared = {.limits = CGROUP_LIMITS_NONE}};
        CgroupCrate cgroup = {.tree = &tree, .tenant = &tenant, .limits = CGROUP_LIMITS_NONE};
        Crate crate = {.state = CRATE_STATE_RUNNING, .cgroup = &cgroup};

        scratch_init(&folder);
        scratch_file(&folder, "pids.events", "max 1\n");
        scratch_file(&folder, "pids.current", "3\n");
        scratch_file(&folder, "pids.peak", "9\n");
        cgroup.job_limits = CGROUP_LIMITS_NONE;
        cgroup.job_limits.pids = 10;
        cgroup.exec_fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cgroup_watch_init(&cgroup.watch);
        cgroup.watch.pids_fds[CGROUP_LEVEL_JOB] =
                openat(cgroup.exec_fd, "pids.events", O_RDONLY | O_CLOEXEC);
        crate_result_init(&crate.result);

        for (unsigned i = 1; i < 9; i++) {
                char text[16];

                (void) snprintf(text, sizeof(text), "max %u\n", i);
                scratch_file(&folder, "pids.events", text);
                crate_check_cgroup(&crate);
                ck_assert_uint_eq(crate.result.limits[LIMIT_PIDS].hits, i);
        }
        ck_assert_int_eq((int) crate.result.limit.name, (int) _LIMIT_INVALID);
        ck_assert_int_eq((int) crate.ladder, (int) LADDER_NONE);
        ck_assert_uint_eq(crate.result.n_evidence, 2);

        crate_result_done(&crate.result);
        cgroup_watch_done(&cgroup.watch);
        fd_close(cgroup.exec_fd);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("crate-sample");

        tcase_add_test(tcase, test_outside);
        return suite_run("crate-sample", tcase);
}
