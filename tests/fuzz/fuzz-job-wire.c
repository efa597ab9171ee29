/* SPDX-License-Identifier: Apache-2.0 */

/* A job that is accepted has exactly one form: written again it is the same bytes. */

#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>

#include "basic/macros.h"
#include "basic/memfd-util.h"
#include "plan/job-wire.h"

#define POINTERS (JOB_WIRE_STRINGS_MAX + 2)

static void check_again(char **argv, char **env, const char *cwd, const uint8_t *data,
                        size_t size) {
        const void *mapped;
        size_t mapped_size;
        int fd = -EBADF;

        FUZZ_ASSERT(job_wire_to_memfd(argv, env, cwd, &fd) == 0);
        FUZZ_ASSERT(memfd_map_sealed(fd, sizeof(JobWire) + JOB_WIRE_SIZE_MAX, &mapped,
                                     &mapped_size) == 0);
        FUZZ_ASSERT(mapped_size == size && memcmp(mapped, data, size) == 0);
        FUZZ_ASSERT(munmap((void *) mapped, mapped_size) == 0);
        fd_close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static char *pointers[POINTERS];
        char **argv, **env;
        const char *cwd;
        int r;

        r = job_wire_parse(data, size, pointers, POINTERS, &argv, &env, &cwd);
        FUZZ_ASSERT(r == 0 || r == JOB_WIRE_E_MALFORMED);
        if (r != 0)
                return 0;
        FUZZ_ASSERT(argv[0]);
        check_again(argv, env, cwd, data, size);

        /* With too few pointers it is refused, not cut. */
        for (size_t n = 0; n < 3; n++)
                FUZZ_ASSERT(job_wire_parse(data, size, pointers, n, &argv, &env, &cwd) ==
                            JOB_WIRE_E_MALFORMED);
        return 0;
}
