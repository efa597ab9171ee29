/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/memfd-util.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "basic/macros.h"
#include "tests/unit/suite.h"

START_TEST(test_round_trip) {
        static const size_t sizes[] = {1, 5, 4096, 4097, 300000};
        _cleanup_(freep) char *data = malloc(300000);

        ck_assert_ptr_nonnull(data);
        for (size_t i = 0; i < 300000; i++)
                data[i] = (char) (i * 7);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                _cleanup_(fd_closep) int fd = -EBADF;
                const void *mapped;
                size_t size;

                ck_assert_int_eq(memfd_new_sealed("x", data, sizes[i], &fd), 0);
                ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
                ck_assert_int_eq(memfd_map_sealed(fd, sizes[i], &mapped, &size), 0);
                ck_assert_uint_eq(size, sizes[i]);
                ck_assert_mem_eq(mapped, data, size);
                ck_assert_int_eq(munmap((void *) mapped, size), 0);
                ck_assert_int_eq(memfd_map_sealed(fd, sizes[i] - 1, &mapped, &size), -EFBIG);
        }
}
END_TEST

/* Nothing that was handed out can be changed any more, by nobody who holds it. */
START_TEST(test_sealed) {
        _cleanup_(fd_closep) int fd = -EBADF, again = -EBADF;
        char path[40];

        ck_assert_int_eq(memfd_new_sealed("x", "text", 4, &fd), 0);
        ck_assert_int_eq(pwrite(fd, "T", 1, 0), -1);
        ck_assert_int_eq(pwrite(fd, "T", 1, 4), -1);
        ck_assert_int_eq(ftruncate(fd, 0), -1);
        ck_assert_int_eq(ftruncate(fd, 8), -1);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
        ck_assert_ptr_eq(mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        again = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(again, 0);
        ck_assert_int_eq(pwrite(again, "T", 1, 0), -1);
}
END_TEST

START_TEST(test_empty) {
        _cleanup_(fd_closep) int fd = -EBADF;
        const void *mapped;
        size_t size;

        ck_assert_int_eq(memfd_new_sealed("x", NULL, 0, &fd), 0);
        ck_assert_int_eq(memfd_map_sealed(fd, 100, &mapped, &size), -EFBIG);
}
END_TEST

START_TEST(test_refused) {
        _cleanup_(fd_closep) int fd = memfd_create("x", MFD_ALLOW_SEALING);
        _cleanup_(fd_closep) int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        const void *mapped = NULL;
        size_t size = 0;

        ck_assert_int_eq(write(fd, "text", 4), 4);
        ck_assert_int_eq(memfd_map_sealed(fd, 100, &mapped, &size), -EPERM);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        ck_assert_int_eq(memfd_map_sealed(fd, 100, &mapped, &size), -EPERM);
        ck_assert_int_lt(memfd_map_sealed(file, SIZE_MAX, &mapped, &size), 0);
        ck_assert_int_eq(memfd_map_sealed(-1, 100, &mapped, &size), -EBADF);
        ck_assert_ptr_null(mapped);
        ck_assert_uint_eq(size, 0);

        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
        ck_assert_int_eq(memfd_map_sealed(fd, 100, &mapped, &size), 0);
        ck_assert_int_eq(munmap((void *) mapped, size), 0);
}
END_TEST

/* The name is a name: the kernel bounds it. */
START_TEST(test_long_name) {
        char name[300];
        size_t before = count_open_fds();
        int fd = -EBADF;

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        ck_assert_int_eq(memfd_new_sealed(name, "x", 1, &fd), -EINVAL);
        ck_assert_int_eq(fd, -EBADF);
        ck_assert_uint_eq(count_open_fds(), before);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("memfd-util");

        tcase_add_test(tcase, test_round_trip);
        tcase_add_test(tcase, test_sealed);
        tcase_add_test(tcase, test_empty);
        tcase_add_test(tcase, test_refused);
        tcase_add_test(tcase, test_long_name);
        return suite_run("memfd-util", tcase);
}
