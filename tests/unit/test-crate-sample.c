/* SPDX-License-Identifier: Apache-2.0 */

/* What the record says of a ceiling that is met, by files that stand in for a cgroup's; and a job
 * that cannot be measured at once, by a FIFO that stands in for its smaps_rollup. */

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>

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

#define MIB (1ULL << 20)

/* A running job of one process that seems to have 200 MiB, of 64 MiB. */
static void slow_init(Crate *crate, Scratch *proc) {
        *crate = (Crate){
                .state = CRATE_STATE_RUNNING,
                .init = LINK_NULL,
                .pid_fd = -EBADF,
                .private_fd = -EBADF,
                .stream_fds = {-EBADF, -EBADF},
                .stdin_fd = -EBADF,
                .job_fd = -EBADF,
                .script_fd = -EBADF,
        };
        scratch_init(proc);
        scratch_file(proc, "42/stat",
                     "42 (slow) S 1 42 42 0 -1 0 1 2 3 4 1 0 1 0 20 0 1 0 5 268435456 51200 0\n");
        scratch_file(proc, "42/status", "Name:\tslow\nRssAnon:\t 204800 kB\nRssShmem:\t 0 kB\n");
        crate->proc_fd = open(proc->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(crate->proc_fd, 0);
        ck_assert_int_eq(mkfifoat(crate->proc_fd, "42/smaps_rollup", 0600), 0);
        crate->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_ge(crate->epoll_fd, 0);
        limits_init(&crate->job.limits);
        crate->job.limits.max[LIMIT_MEMORY] = 64 * MIB;
        crate->means.of[LIMIT_MEMORY] = LIMIT_BY_SAMPLER;
        crate_result_init(&crate->result);
        crate_init_limits(crate);
        ck_assert_int_eq(crate_start_looking(crate), 0);
}

static void slow_done(Crate *crate) {
        crate_release(crate);
        sampler_done(&crate->looking.sampler);
        crate_result_done(&crate->result);
        crate->epoll_fd = fd_close(crate->epoll_fd);
}

/* Now it can be measured. */
static void slow_answer(const Scratch *proc, const char *text) {
        char path[256];
        int fd;

        (void) snprintf(path, sizeof(path), "%s/42/smaps_rollup", proc->path);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq((int) write(fd, text, strlen(text)), (int) strlen(text));
        fd_close(fd);
}

static void slow_wait(Crate *crate) {
        struct pollfd poll_fd = {.fd = crate->epoll_fd, .events = POLLIN};

        ck_assert_int_eq(poll(&poll_fd, 1, 10000), 1);
        crate_on_measured(crate);
        ck_assert_ptr_null(crate->looking.measuring);
}

/* Nobody waits for a job that does not let itself be measured. */
START_TEST(test_slow) {
        static const struct {
                const char *rollup;
                LimitName met;
        } answers[] = {
                {"0-f [rollup]\nPss_Anon: 102400 kB\n", LIMIT_MEMORY},
                {"0-f [rollup]\nPss_Anon: 1024 kB\n", _LIMIT_INVALID},
        };
        _cleanup_(scratch_done) Scratch proc = SCRATCH_NULL;
        Crate crate;

        slow_init(&crate, &proc);
        crate_look(&crate);
        crate_look(&crate);
        ck_assert_ptr_nonnull(crate.looking.measuring);
        ck_assert_int_eq((int) crate.result.limit.name, (int) _LIMIT_INVALID);
        slow_answer(&proc, answers[_i].rollup);
        slow_wait(&crate);
        ck_assert_int_eq((int) crate.result.limit.name, (int) answers[_i].met);
        slow_done(&crate);
}
END_TEST

/* One that never does is not better off. */
START_TEST(test_never) {
        _cleanup_(scratch_done) Scratch proc = SCRATCH_NULL;
        Crate crate;

        slow_init(&crate, &proc);
        crate_look(&crate);
        ck_assert_ptr_nonnull(crate.looking.measuring);
        crate.looking.measuring_usec -= 60 * USEC_PER_SEC;
        crate_look(&crate);
        ck_assert_int_eq((int) crate.result.limit.name, (int) LIMIT_MEMORY);
        ck_assert_uint_eq(crate.result.limit.observed, 200 * MIB);
        /* The thread outlives the crate. */
        slow_done(&crate);
        slow_answer(&proc, "0-f [rollup]\nPss_Anon: 1 kB\n");
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("crate-sample");

        tcase_add_test(tcase, test_outside);
        tcase_add_loop_test(tcase, test_slow, 0, 2);
        tcase_add_test(tcase, test_never);
        return suite_run("crate-sample", tcase);
}
