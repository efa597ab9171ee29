/* SPDX-License-Identifier: Apache-2.0 */

/* The locks of sub-uids, in a /run of the test's own. */

#include "crate/subuid.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "basic/macros.h"
#include "tests/unit/suite.h"

/* Mapped also in the user namespace of a container's root. */
#define BASE 60000U
#define COUNT 6U

static SubuidPool *make_pool(uint64_t base, uint64_t count) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        SubuidPool *pool = NULL;
        int r;

        r = subuid_pool_new(base, count, &pool, &error);
        ck_assert_msg(r == 0, "%d: %s", r, error.text ?: "");
        return pool;
}

static uint32_t acquire(SubuidPool *pool) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        uint32_t uid = 0;
        int r;

        r = subuid_acquire(pool, &uid, &error);
        ck_assert_msg(r == 0, "%d: %s", r, error.text ?: "");
        return uid;
}

static bool is_used_up(SubuidPool *pool) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        uint32_t uid = 7;
        int r;

        r = subuid_acquire(pool, &uid, &error);
        if (r == 0) {
                subuid_release(pool, uid);
                return false;
        }
        ck_assert_int_eq(r, SUBUID_E_FAILED);
        ck_assert_uint_eq(uid, 7);
        ck_assert_int_eq(error.error, EAGAIN);
        ck_assert_ptr_nonnull(strstr(error.text, "sub-uids are in use"));
        ck_assert_ptr_nonnull(error.remedy);
        return true;
}

/* Marks a uid as seen; fails if it was, or lies outside of the range. */
static void see(bool *seen, size_t n, uint32_t uid) {
        ck_assert_uint_ge(uid, BASE);
        ck_assert_uint_lt(uid - BASE, n);
        ck_assert_msg(!seen[uid - BASE], "uid %u is given twice", uid);
        seen[uid - BASE] = true;
}

START_TEST(test_one_pool) {
        _cleanup_(subuid_pool_freep) SubuidPool *pool = make_pool(BASE, COUNT);
        bool seen[COUNT] = {};
        uint32_t uid = 0;

        for (size_t i = 0; i < COUNT; i++) {
                uid = acquire(pool);
                see(seen, COUNT, uid);
        }
        ck_assert(is_used_up(pool));
        subuid_release(pool, uid);
        ck_assert_uint_eq(acquire(pool), uid);
        ck_assert(is_used_up(pool));
}
END_TEST

/* A uid that was just given back is not the next one while there are others. */
START_TEST(test_not_at_once) {
        _cleanup_(subuid_pool_freep) SubuidPool *pool = make_pool(BASE, COUNT);
        bool seen[COUNT] = {};

        for (size_t i = 0; i < COUNT; i++) {
                uint32_t uid = acquire(pool);

                see(seen, COUNT, uid);
                subuid_release(pool, uid);
        }
}
END_TEST

typedef struct Other {
        pid_t pid;
        int uids_fd;  /* what it has acquired */
        int order_fd; /* closed: it ends */
} Other;

/* Another process with a pool of its own that takes n uids and keeps them until it is told to end.
 */
static void other_start(Other *other, size_t n) {
        int uids[2], order[2];

        ck_assert_int_eq(pipe2(uids, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(order, O_CLOEXEC), 0);
        other->pid = fork();
        ck_assert_int_ge(other->pid, 0);
        if (other->pid == 0) {
                SubuidPool *pool = make_pool(BASE, COUNT);

                close(order[1]);
                for (size_t i = 0; i < n; i++) {
                        uint32_t uid = acquire(pool);

                        if (write(uids[1], &uid, sizeof(uid)) != sizeof(uid))
                                _exit(1);
                }
                (void) !read(order[0], &(char){0}, 1);
                _exit(0);
        }
        close(uids[1]);
        close(order[0]);
        other->uids_fd = uids[0];
        other->order_fd = order[1];
}

static uint32_t other_next(Other *other) {
        uint32_t uid = 0;

        ck_assert_int_eq(read(other->uids_fd, &uid, sizeof(uid)), sizeof(uid));
        return uid;
}

static void other_end(Other *other, bool kill_it) {
        int status;

        if (kill_it)
                ck_assert_int_eq(kill(other->pid, SIGKILL), 0);
        close(other->order_fd);
        ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
        ck_assert(kill_it ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(other->uids_fd);
}

/* Two processes never have one uid; what one had is the other's when it is gone, however it went.
 */
START_TEST(test_two_processes) {
        _cleanup_(subuid_pool_freep) SubuidPool *pool = make_pool(BASE, COUNT);
        bool seen[COUNT] = {};
        Other other;

        see(seen, COUNT, acquire(pool));
        other_start(&other, COUNT / 2);
        for (size_t i = 0; i < COUNT / 2; i++)
                see(seen, COUNT, other_next(&other));
        for (size_t i = COUNT / 2 + 1; i < COUNT; i++)
                see(seen, COUNT, acquire(pool));
        ck_assert(is_used_up(pool));
        other_end(&other, _i);
        for (size_t i = 0; i < COUNT / 2; i++)
                (void) acquire(pool);
        ck_assert(is_used_up(pool));
}
END_TEST

/* Ranges that overlap, as those of a broker that is configured and a runner that is not. */
START_TEST(test_overlapping_ranges) {
        _cleanup_(subuid_pool_freep) SubuidPool *low = make_pool(BASE, 4);
        _cleanup_(subuid_pool_freep) SubuidPool *high = make_pool(BASE + 2, 4);
        bool seen[COUNT] = {};

        for (size_t i = 0; i < 4; i++)
                see(seen, COUNT, acquire(low));
        ck_assert(is_used_up(low));
        for (size_t i = 0; i < 2; i++)
                see(seen, COUNT, acquire(high));
        ck_assert(is_used_up(high));
}
END_TEST

/* The launcher has a copy of the descriptor: while it lives, so do the locks. */
START_TEST(test_copy_keeps_locks) {
        SubuidPool *pool = make_pool(BASE, 1);
        _cleanup_(subuid_pool_freep) SubuidPool *second = make_pool(BASE, 1);
        int copy;

        (void) acquire(pool);
        copy = dup(subuid_pool_get_fd(pool));
        ck_assert_int_ge(copy, 0);
        pool = subuid_pool_free(pool);
        ck_assert(is_used_up(second));
        close(copy);
        ck_assert_uint_eq(acquire(second), BASE);
}
END_TEST

static const struct {
        uint64_t base, count;
} unmapped[] = {
        {UINT32_MAX, 1},
        {4294967290, 100},
        {(uint64_t) UINT32_MAX + 1, 10},
        {UINT64_MAX - 1, 10},
        {4294967294, UINT64_MAX},
        {0, (uint64_t) UINT32_MAX + 1},
        {BASE, 0},
        {UINT64_MAX, UINT64_MAX},
};

START_TEST(test_unmapped) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        SubuidPool *pool = NULL;

        ck_assert_int_eq(subuid_pool_new(unmapped[_i].base, unmapped[_i].count, &pool, &error),
                         SUBUID_E_FAILED);
        ck_assert_ptr_null(pool);
        ck_assert_int_eq(error.error, EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "is not mapped in this user namespace"));
        ck_assert_ptr_nonnull(strstr(error.remedy, "subuid_range"));
        ck_assert_int_eq(access("/run/agentcrate", F_OK), -1);
}
END_TEST

START_TEST(test_file) {
        SubuidPool *pool = make_pool(BASE, COUNT);
        struct stat st;

        ck_assert_int_eq(stat("/run/agentcrate/subuids", &st), 0);
        ck_assert(S_ISREG(st.st_mode));
        ck_assert_uint_eq(st.st_mode & 07777, 0600);
        ck_assert_uint_eq(st.st_size, 0);
        ck_assert_int_eq(fcntl(subuid_pool_get_fd(pool), F_GETFD), FD_CLOEXEC);
        (void) acquire(pool);
        ck_assert_int_eq(stat("/run/agentcrate/subuids", &st), 0);
        ck_assert_uint_eq(st.st_size, 0);
        ck_assert_ptr_null(subuid_pool_free(pool));
        ck_assert_ptr_null(subuid_pool_free(NULL));
}
END_TEST

static void link_as_file(void) {
        ck_assert_int_eq(mkdir("/run/agentcrate", 0755), 0);
        ck_assert_int_eq(close(creat("/run/other", 0600)), 0);
        ck_assert_int_eq(symlink("/run/other", "/run/agentcrate/subuids"), 0);
}

static void foreign_file(void) {
        ck_assert_int_eq(mkdir("/run/agentcrate", 0755), 0);
        ck_assert_int_eq(close(creat("/run/agentcrate/subuids", 0600)), 0);
        ck_assert_int_eq(chown("/run/agentcrate/subuids", 1000, 1000), 0);
}

static void folder_as_file(void) {
        ck_assert_int_eq(mkdir("/run/agentcrate", 0755), 0);
        ck_assert_int_eq(mkdir("/run/agentcrate/subuids", 0755), 0);
}

static void fifo_as_file(void) {
        ck_assert_int_eq(mkdir("/run/agentcrate", 0755), 0);
        ck_assert_int_eq(mkfifo("/run/agentcrate/subuids", 0600), 0);
}

static void file_as_folder(void) {
        ck_assert_int_eq(close(creat("/run/agentcrate", 0600)), 0);
}

static const struct {
        void (*make)(void);
        int error;
} bad_files[] = {
        {link_as_file, ELOOP}, {foreign_file, EPERM},     {folder_as_file, EISDIR},
        {fifo_as_file, EPERM}, {file_as_folder, ENOTDIR},
};

START_TEST(test_bad_file) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        size_t before = count_open_fds();
        SubuidPool *pool = NULL;

        bad_files[_i].make();
        ck_assert_int_eq(subuid_pool_new(BASE, COUNT, &pool, &error), SUBUID_E_FAILED);
        ck_assert_ptr_null(pool);
        ck_assert_int_eq(error.error, bad_files[_i].error);
        ck_assert_str_eq(error.path, "/run/agentcrate/subuids");
        ck_assert_ptr_nonnull(error.remedy);
        ck_assert_uint_eq(count_open_fds(), before);
}
END_TEST

/* Each test has a /run of its own, being a process of its own. */
static void set_up(void) {
        ck_assert_int_eq(mount("tmpfs", "/run", "tmpfs", 0, NULL), 0);
}

static void tear_down(void) {
        ck_assert_int_eq(umount2("/run", MNT_DETACH), 0);
}

static bool enter_namespace(void) {
        return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int main(void) {
        TCase *tcase = tcase_create("subuid");

        if (geteuid() != 0 || !enter_namespace()) {
                printf("ok 1 - the locks of sub-uids # SKIP needs root\n1..1\n");
                return 0;
        }
        tcase_add_checked_fixture(tcase, set_up, tear_down);
        tcase_add_test(tcase, test_one_pool);
        tcase_add_test(tcase, test_not_at_once);
        tcase_add_loop_test(tcase, test_two_processes, 0, 2);
        tcase_add_test(tcase, test_overlapping_ranges);
        tcase_add_test(tcase, test_copy_keeps_locks);
        tcase_add_loop_test(tcase, test_unmapped, 0, ELEMENTSOF(unmapped));
        tcase_add_test(tcase, test_file);
        tcase_add_loop_test(tcase, test_bad_file, 0, ELEMENTSOF(bad_files));
        return suite_run("subuid", tcase);
}
