/* SPDX-License-Identifier: Apache-2.0 */

/* What is read from a cgroup's files and done with its folders, in folders that are none: the
 * kernel's part of it needs a kernel, and is tested on one. */

#include "cgroup/cgroup-internal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

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

/* --- ceilings that change --- */

static CgroupTree *open_tree(const Scratch *root) {
        CgroupTree *tree = NULL;
        char *reason = NULL;

        scratch_folder(root, "jobs");
        scratch_file(root, "jobs/cgroup.procs", "");
        ck_assert_int_eq(cgroup_tree_new_service(open_folder(root, "jobs"), &tree, &reason), 0);
        return tree;
}

/* What a crate is made in; the crate itself cannot be, since new folders have no files here. */
static void try_crate(CgroupTree *tree, uint32_t tenant, const CgroupLimits *limits,
                      CgroupFailure *ret_failure) {
        const CgroupCrateSpec spec = {.tenant = tenant, .tenant_limits = limits};
        CgroupCrate *crate;

        ck_assert_int_eq(cgroup_crate_make(tree, &spec, &crate, ret_failure), CGROUP_E_FAILED);
}

static void expect_text(const Scratch *root, const char *name, const char *wanted) {
        _cleanup_(freep) char *path = scratch_path(root, name);
        char text[64] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        ck_assert_int_ge(fd, 0);
        ck_assert_int_ge(read(fd, text, sizeof(text) - 1), 0);
        fd_close(fd);
        ck_assert_str_eq(text, wanted);
}

START_TEST(test_changed_ceilings) {
        static const uint64_t values[] = {100, 200, CGROUP_UNLIMITED, 300};
        static const char *const texts[] = {"100", "200", "max", "300"};
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;

        scratch_init(&root);
        tree = open_tree(&root);
        tree->controllers = CGROUP_PIDS;
        scratch_file(&root, "jobs/pids.max", "999");
        scratch_folder(&root, "jobs/t-5");
        scratch_file(&root, "jobs/t-5/cgroup.subtree_control", "");
        scratch_file(&root, "jobs/t-5/pids.max", "999");
        for (size_t i = 0; i < ELEMENTSOF(values); i++) {
                limits.pids = values[i];
                ck_assert_int_eq(cgroup_tree_set_limits(tree, &limits, &failure), 0);
                expect_text(&root, "jobs/pids.max", texts[i]);
                try_crate(tree, 5, &limits, &failure);
                ck_assert_ptr_nonnull(strstr(failure.file, "jobs/t-5/c-"));
                expect_text(&root, "jobs/t-5/pids.max", texts[i]);
        }
        /* For what runs, and for nobody else. */
        limits.pids = 400;
        ck_assert_int_eq(cgroup_tenant_set_limits(tree, 5, &limits, &failure), 0);
        expect_text(&root, "jobs/t-5/pids.max", "400");
        ck_assert_int_eq(cgroup_tenant_set_limits(tree, 6, &limits, &failure), 0);
        ck_assert(!exists(&root, "jobs/t-6"));
}
END_TEST

/* Nothing is made below a ceiling that was not taken, until it is. */
START_TEST(test_ceiling_not_taken) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;

        scratch_init(&root);
        tree = open_tree(&root);
        tree->controllers = CGROUP_PIDS;
        limits.pids = 100;
        ck_assert_int_eq(cgroup_tree_set_limits(tree, &limits, &failure), CGROUP_E_FAILED);
        ck_assert_str_eq(failure.file, "jobs/pids.max");
        try_crate(tree, 0, NULL, &failure);
        ck_assert_str_eq(failure.file, "jobs/pids.max");
        ck_assert(!exists(&root, "jobs/t-0"));

        scratch_file(&root, "jobs/pids.max", "");
        try_crate(tree, 0, NULL, &failure);
        ck_assert_str_ne(failure.file, "jobs/pids.max");
        expect_text(&root, "jobs/pids.max", "100");
}
END_TEST

/* Somebody has removed the folder of a tenant: it is made anew. */
START_TEST(test_tenant_vanished) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        CgroupFailure failure;

        scratch_init(&root);
        tree = open_tree(&root);
        try_crate(tree, 5, NULL, &failure);
        ck_assert(exists(&root, "jobs/t-5"));
        scratch_remove(&root, "jobs/t-5");
        try_crate(tree, 5, NULL, &failure);
        ck_assert(exists(&root, "jobs/t-5"));
        ck_assert_ptr_nonnull(strstr(failure.file, "/cgroup.procs"));
}
END_TEST

/* A host that swaps, and whose kernel does not count it, holds no limit of memory. */
START_TEST(test_swap_is_counted) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        _cleanup_(freep) char *text = NULL;
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;
        struct sysinfo info;
        int r;

        scratch_init(&root);
        tree = open_tree(&root);
        tree->controllers = CGROUP_MEMORY;
        scratch_file(&root, "jobs/memory.max", "");
        limits.memory = 1U << 20;
        ck_assert_int_eq(sysinfo(&info), 0);
        r = cgroup_tree_set_limits(tree, &limits, &failure);
        if (info.totalswap == 0) {
                ck_assert_int_eq(r, 0);
                return;
        }
        ck_assert_int_eq(r, CGROUP_E_FAILED);
        text = cgroup_failure_format(&failure);
        ck_assert_ptr_nonnull(strstr(text, "swapaccount=0"));
}
END_TEST

/* --- the end --- */

/* What cannot be removed, though nothing lives in it, is not waited for. */
START_TEST(test_end_is_no_spin) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        CgroupTree *tree;
        CgroupFailure failure;
        struct rusage before, after;

        scratch_init(&root);
        tree = open_tree(&root);
        try_crate(tree, 5, NULL, &failure);
        ck_assert(!LIST_EMPTY(&tree->dying));
        ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
        cgroup_tree_free(tree);
        ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);
        ck_assert_int_le(after.ru_utime.tv_sec + after.ru_stime.tv_sec,
                         before.ru_utime.tv_sec + before.ru_stime.tv_sec + 1);
}
END_TEST

/* --- memory that several share --- */

/* Three crates of a tenant with a ceiling. The first and the second fall to it; the third lives on,
 * and falls later to something that is none of ours. */
START_TEST(test_shared_memory) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        CgroupTree tree = {.jobs = CGROUP_SHARED_NULL, .controllers = CGROUP_MEMORY};
        CgroupTenant tenant = {.shared = CGROUP_SHARED_NULL};
        CgroupCrate crates[3] = {};
        CgroupBreaches breaches;
        CgroupFailure failure;
        char name[64];

        scratch_init(&root);
        LIST_INIT(&tree.crates);
        scratch_folder(&root, "jobs/t");
        scratch_file(&root, "jobs/memory.events.local", "oom 0\n");
        scratch_file(&root, "jobs/t/memory.events.local", "oom 0\n");
        tree.jobs.fd = open_folder(&root, "jobs");
        tenant.shared.fd = open_folder(&root, "jobs/t");
        for (size_t i = 0; i < ELEMENTSOF(crates); i++) {
                (void) snprintf(name, sizeof(name), "jobs/t/%zu/exec-1", i);
                scratch_folder(&root, name);
                (void) snprintf(name, sizeof(name), "jobs/t/%zu/exec-1/memory.events", i);
                scratch_file(&root, name, "oom_kill 0\n");
                (void) snprintf(name, sizeof(name), "jobs/t/%zu/memory.events", i);
                scratch_file(&root, name, "oom_kill 0\n");
                crates[i] = (CgroupCrate){.tree = &tree, .tenant = &tenant};
                crates[i].limits = crates[i].job_limits = CGROUP_LIMITS_NONE;
                (void) snprintf(name, sizeof(name), "jobs/t/%zu", i);
                crates[i].fd = open_folder(&root, name);
                (void) snprintf(name, sizeof(name), "jobs/t/%zu/exec-1", i);
                crates[i].exec_fd = open_folder(&root, name);
                cgroup_watch_init(&crates[i].watch);
                crates[i].watch.memory_fd =
                        openat(crates[i].fd, "memory.events", O_RDONLY | O_CLOEXEC);
                LIST_INSERT_HEAD(&tree.crates, &crates[i], entry);
        }

        scratch_file(&root, "jobs/t/memory.events.local", "oom 3\n");
        scratch_file(&root, "jobs/t/0/memory.events", "oom_kill 1\n");
        scratch_file(&root, "jobs/t/1/memory.events", "oom_kill 1\n");
        for (size_t i = 0; i < 2; i++) {
                ck_assert_int_eq(cgroup_crate_check(&crates[i], &breaches, &failure), 0);
                ck_assert_int_eq((int) breaches.memory.level, CGROUP_LEVEL_TENANT);
        }
        scratch_file(&root, "jobs/t/2/memory.events", "oom_kill 1\n");
        ck_assert_int_eq(cgroup_crate_check(&crates[2], &breaches, &failure), 0);
        ck_assert_int_eq((int) breaches.memory.level, CGROUP_LEVEL_OUTSIDE);

        for (size_t i = 0; i < ELEMENTSOF(crates); i++) {
                cgroup_watch_done(&crates[i].watch);
                fd_close(crates[i].exec_fd);
                fd_close(crates[i].fd);
        }
        cgroup_shared_done(&tenant.shared);
        cgroup_shared_done(&tree.jobs);
}
END_TEST

/* A cgroup that has vanished is told of, and does not wake its owner again. */
START_TEST(test_vanished_is_silent) {
        CgroupTree tree = {.jobs = CGROUP_SHARED_NULL};
        CgroupTenant tenant = {.shared = CGROUP_SHARED_NULL};
        CgroupCrate crate = {.tree = &tree, .tenant = &tenant, .fd = -EBADF, .exec_fd = -EBADF};
        struct epoll_event event = {.events = EPOLLIN};
        struct pollfd poll_fd = {.events = POLLIN};
        CgroupBreaches breaches;
        CgroupFailure failure;
        int fds[2];

        /* A pipe is readable, and cannot be read as a file. */
        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        ck_assert_int_eq(write(fds[1], "x", 1), 1);
        cgroup_watch_init(&crate.watch);
        crate.watch.memory_fd = fds[0];
        crate.watch.epoll_fd = poll_fd.fd = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_eq(epoll_ctl(poll_fd.fd, EPOLL_CTL_ADD, fds[0], &event), 0);
        ck_assert_int_eq(poll(&poll_fd, 1, 0), 1);
        for (unsigned i = 0; i < 2; i++) {
                ck_assert_int_eq(cgroup_crate_check(&crate, &breaches, &failure), CGROUP_E_FAILED);
                ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
        }
        cgroup_watch_done(&crate.watch);
        fd_close(fds[1]);
}
END_TEST

/* Its owner is about to end. */
START_TEST(test_jobs_of_an_ending_one) {
        _cleanup_(scratch_done) Scratch root = SCRATCH_NULL;
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        _cleanup_(freep) char *reason = NULL;
        int fds[2], lock_fd;
        pid_t pid;
        char byte;

        scratch_init(&root);
        scratch_folder(&root, "jobs");
        scratch_file(&root, "jobs/cgroup.procs", "");
        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                lock_fd = open_folder(&root, "jobs");
                if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0 || write(fds[1], "x", 1) != 1)
                        _exit(1);
                (void) poll(NULL, 0, 50);
                _exit(0);
        }
        ck_assert_int_eq(read(fds[0], &byte, 1), 1);
        ck_assert_int_eq(cgroup_tree_new_service(open_folder(&root, "jobs"), &tree, &reason), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        fd_close(fds[0]);
        fd_close(fds[1]);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("cgroup-tree");

        tcase_add_loop_test(tcase, test_refusal, 0, ELEMENTSOF(refusals));
        tcase_add_test(tcase, test_jobs_are_closed);
        tcase_add_test(tcase, test_jobs_of_another);
        tcase_add_test(tcase, test_changed_ceilings);
        tcase_add_test(tcase, test_ceiling_not_taken);
        tcase_add_test(tcase, test_tenant_vanished);
        tcase_add_test(tcase, test_swap_is_counted);
        tcase_add_test(tcase, test_end_is_no_spin);
        tcase_add_test(tcase, test_shared_memory);
        tcase_add_test(tcase, test_vanished_is_silent);
        tcase_add_test(tcase, test_jobs_of_an_ending_one);
        return suite_run("cgroup-tree", tcase);
}
