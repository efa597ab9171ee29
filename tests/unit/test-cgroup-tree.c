/* SPDX-License-Identifier: Apache-2.0 */

/* What is read from a cgroup's files and done with its folders, in folders that are none: the
 * kernel's part of it needs a kernel, and is tested on one. */

#include "cgroup/cgroup-internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

static int open_folder(const Scratch *scratch, const char *name) {
        _cleanup_(freep) char *path = scratch_path(scratch, name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ck_assert_int_ge(fd, 0);
        return fd;
}

static bool exists(const Scratch *scratch, const char *name) {
        _cleanup_(freep) char *path = scratch_path(scratch, name);

        return access(path, F_OK) == 0;
}

/* --- who met a ceiling of processes --- */

/* pids.current and pids.peak of each level that has a ceiling, which is 10; NULL: it has none. */
typedef struct Refusal {
        const char *current[CGROUP_LEVEL_OUTSIDE], *peak[CGROUP_LEVEL_OUTSIDE];
        CgroupLevel level;
} Refusal;

static const Refusal refusals[] = {
        {{"10"}, {"10"}, CGROUP_LEVEL_JOB},
        /* It is over when it is looked at. */
        {{"3"}, {"10"}, CGROUP_LEVEL_JOB},
        {{"3"}, {NULL}, CGROUP_LEVEL_JOB},
        {{"3", "4", "10"}, {"3", "4", "10"}, CGROUP_LEVEL_TENANT},
        {{"3", "4", "5", "2"}, {"3", "4", "6", "10"}, CGROUP_LEVEL_INSTANCE},
        /* None of ours was ever full: a ceiling above them all has refused it. */
        {{"3"}, {"9"}, CGROUP_LEVEL_OUTSIDE},
        {{"9", "9", "9", "9"}, {"9", "9", "9", "9"}, CGROUP_LEVEL_OUTSIDE},
};

static const char *const levels[] = {"jobs/t/c/exec-1", "jobs/t/c", "jobs/t", "jobs"};

static void level_init(const Scratch *root, const Refusal *refusal, size_t i, int *ret_fd,
                       CgroupLimits *limits) {
        char name[64];

        scratch_folder(root, levels[i]);
        *ret_fd = open_folder(root, levels[i]);
        *limits = CGROUP_LIMITS_NONE;
        if (!refusal->current[i])
                return;
        limits->pids = 10;
        (void) snprintf(name, sizeof(name), "%s/pids.current", levels[i]);
        scratch_file(root, name, refusal->current[i]);
        (void) snprintf(name, sizeof(name), "%s/pids.peak", levels[i]);
        if (refusal->peak[i])
                scratch_file(root, name, refusal->peak[i]);
}

START_TEST(test_refusal) {
        const Refusal *refusal = &refusals[_i];
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        CgroupTree tree = {};
        CgroupTenant tenant = {};
        CgroupCrate crate = {.tree = &tree, .tenant = &tenant};
        CgroupBreaches breaches;
        CgroupFailure failure;

        scratch_init(&root);
        level_init(&root, refusal, 3, &tree.jobs.fd, &tree.jobs.limits);
        level_init(&root, refusal, 2, &tenant.shared.fd, &tenant.shared.limits);
        level_init(&root, refusal, 1, &crate.fd, &crate.limits);
        level_init(&root, refusal, 0, &crate.exec_fd, &crate.job_limits);
        scratch_file(&root, "jobs/t/c/exec-1/pids.events", "max 7\n");
        cgroup_watch_init(&crate.watch);
        crate.watch.pids_fds[CGROUP_LEVEL_JOB] =
                openat(crate.exec_fd, "pids.events", O_RDONLY | O_CLOEXEC);

        ck_assert_int_eq(cgroup_crate_check(&crate, &breaches, &failure), 0);
        ck_assert_uint_eq(breaches.pids.hits, 7);
        ck_assert_int_eq((int) breaches.pids.level, (int) refusal->level);

        cgroup_watch_done(&crate.watch);
        fd_close(crate.exec_fd);
        fd_close(crate.fd);
        fd_close(tenant.shared.fd);
        fd_close(tree.jobs.fd);
}
END_TEST

/* --- what is made, and for whom --- */

/* With a lock on it anybody could keep its owner from it. */
START_TEST(test_jobs_are_closed) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        _cleanup_(freep) char *reason = NULL, *path = NULL;
        struct stat st;

        scratch_init(&root);
        ck_assert_int_eq(cgroup_tree_new_scope(open_folder(&root, "."), &tree, &reason), 0);
        path = scratch_path(&root, "jobs");
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0700);
}
END_TEST

/* Whoever comes second leaves it as it is. */
START_TEST(test_jobs_of_another) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        _cleanup_(freep) char *reason = NULL;
        _cleanup_(fd_closep) int lock_fd = -EBADF;

        scratch_init(&root);
        scratch_folder(&root, "jobs/t-0");
        scratch_file(&root, "jobs/cgroup.procs", "");
        lock_fd = open_folder(&root, "jobs");
        ck_assert_int_eq(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
        ck_assert_int_eq(cgroup_tree_new_service(open_folder(&root, "jobs"), &tree, &reason),
                         CGROUP_E_UNAVAILABLE);
        ck_assert_ptr_null(tree);
        ck_assert(exists(&root, "jobs/t-0"));

        /* It is free: what its owner has left is removed. */
        lock_fd = fd_close(lock_fd);
        ck_assert_int_eq(cgroup_tree_new_service(open_folder(&root, "jobs"), &tree, &reason), 0);
        ck_assert(!exists(&root, "jobs/t-0"));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("cgroup-tree");

        tcase_add_loop_test(tcase, test_refusal, 0, ELEMENTSOF(refusals));
        tcase_add_test(tcase, test_jobs_are_closed);
        tcase_add_test(tcase, test_jobs_of_another);
        return suite_run("cgroup-tree", tcase);
}
