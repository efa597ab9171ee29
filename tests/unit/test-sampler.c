/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

#define PAGE ((uint64_t) sysconf(_SC_PAGESIZE))
#define TICK ((uint64_t) 1000000 / (uint64_t) sysconf(_SC_CLK_TCK))
#define MIB (1ULL << 20)

/* A process as /proc has it. */
typedef struct Fake {
        int pid, parent;
        const char *name;
        char state;
        unsigned utime, cutime, threads;
        unsigned long long start, address_space, pages;
        unsigned anonymous, shmem, swapped; /* KiB, of smaps_rollup */
} Fake;

static void fake_write(const Scratch *proc, const Fake *fake) {
        char name[64], text[1024];

        (void) snprintf(name, sizeof(name), "%d/stat", fake->pid);
        (void) snprintf(text, sizeof(text),
                        "%d (%s) %c %d 1 1 0 -1 4194304 1 2 3 4 %u 0 %u 0 20 0 %u 0 %llu %llu %llu "
                        "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0\n",
                        fake->pid, fake->name, fake->state, fake->parent, fake->utime, fake->cutime,
                        fake->threads, fake->start, fake->address_space, fake->pages);
        scratch_file(proc, name, text);
        (void) snprintf(name, sizeof(name), "%d/smaps_rollup", fake->pid);
        (void) snprintf(text, sizeof(text),
                        "0-f ---p 00000000 00:00 0    [rollup]\nRss: 1 kB\nPss:  %u kB\n"
                        "Pss_Anon:  %u kB\nPss_File:  77 kB\nPss_Shmem:   %u kB\nSwapPss: %u kB\n",
                        fake->anonymous + fake->shmem + 77, fake->anonymous, fake->shmem,
                        fake->swapped);
        scratch_file(proc, name, text);
        (void) snprintf(name, sizeof(name), "%d/status", fake->pid);
        (void) snprintf(text, sizeof(text),
                        "Name:\t%s\nVmSwap:\t    %u kB\nRssAnon:\t %u kB\nRssFile:\t 77 kB\n"
                        "RssShmem:\t %u kB\n",
                        fake->name, fake->swapped, 2 * fake->anonymous, 2 * fake->shmem);
        scratch_file(proc, name, text);
}

typedef struct Bench {
        Scratch proc;
        int fd;
        Sampler sampler;
} Bench;

static void bench_done(Bench *bench) {
        sampler_done(&bench->sampler);
        bench->fd = fd_close(bench->fd);
        scratch_done(&bench->proc);
}

static void bench_init(Bench *bench, const Fake *fakes, size_t n) {
        scratch_init(&bench->proc);
        scratch_folder(&bench->proc, "sys");
        scratch_file(&bench->proc, "meminfo", "MemTotal: 1 kB\n");
        for (size_t i = 0; i < n; i++)
                fake_write(&bench->proc, &fakes[i]);
        bench->fd = open(bench->proc.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(bench->fd, 0);
        sampler_init(&bench->sampler, bench->fd);
}

START_TEST(test_counts) {
        static const Fake fakes[] = {
                {1, 0, "init", 'S', 5, 30, 1, 1, MIB, 10, 100, 0, 0},
                {2, 1, "sh", 'S', 7, 0, 1, 2, MIB, 20, 200, 0, 0},
                {10, 2, ") S 1 (x) y", 'R', 11, 0, 4, 3, 2 * MIB, 30, 300, 40, 5},
        };
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, fakes, ELEMENTSOF(fakes));
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        /* init is none of the job's, but what it has waited for was. */
        ck_assert_uint_eq(look.pids, 5);
        ck_assert_uint_eq(look.resident, 50 * PAGE);
        ck_assert_uint_eq(look.cpu_usec, 48 * TICK);

        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, 505 * 1024);
        ck_assert_uint_eq(memory.shared_bytes, 40 * 1024);
        ck_assert_int_eq(memory.pid, 10);
        ck_assert_str_eq(memory.name, ") S 1 (x) y");
}
END_TEST

/* Time of those that are gone without a parent that waited stays seen; a pid that comes again is
 * another process. */
START_TEST(test_gone) {
        Fake init = {1, 0, "init", 'S', 0, 0, 1, 1, MIB, 10, 100, 0, 0};
        Fake child = {2, 1, "sh", 'S', 100, 0, 1, 2, MIB, 20, 200, 0, 0};
        _cleanup_(bench_done) Bench bench = {};
        SamplerLook look;

        bench_init(&bench, &child, 1);
        fake_write(&bench.proc, &init);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        ck_assert_uint_eq(look.cpu_usec, 100 * TICK);

        child.utime = 130;
        fake_write(&bench.proc, &child);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        ck_assert_uint_eq(look.cpu_usec, 130 * TICK);

        child.start = 50;
        child.utime = 20;
        fake_write(&bench.proc, &child);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        ck_assert_uint_eq(look.cpu_usec, 150 * TICK);

        scratch_remove(&bench.proc, "2/stat");
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        ck_assert_uint_eq(look.pids, 0);
        ck_assert_uint_eq(look.cpu_usec, 150 * TICK);
}
END_TEST

/* The memory of a child that has not execed yet is its parent's. */
START_TEST(test_vfork) {
        Fake parent = {2, 1, "python3", 'D', 1, 0, 1, 2, 100 * MIB, 20000, 80000, 0, 0};
        Fake child = {3, 2, "python3", 'R', 0, 0, 1, 3, 100 * MIB, 20000, 80000, 0, 0};
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, &parent, 1);
        fake_write(&bench.proc, &child);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, 80000 * 1024);

        /* An old child of a parent that does not wait for it has memory of its own. */
        parent.state = 'S';
        fake_write(&bench.proc, &parent);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, 160000 * 1024);
}
END_TEST

/* A parent waits for one child: what else looks like it has copied that memory. */
START_TEST(test_copies) {
        static const Fake fakes[] = {
                {2, 1, "copies", 'D', 1, 0, 1, 2, 100 * MIB, 20000, 80000, 0, 0},
                {3, 2, "copies", 'S', 0, 0, 1, 3, 100 * MIB, 20000, 80000, 0, 0},
                {4, 2, "copies", 'S', 0, 0, 1, 3, 100 * MIB, 20000, 80000, 0, 0},
                {5, 2, "copies", 'S', 0, 0, 1, 4, 100 * MIB, 20000, 80000, 0, 0},
        };
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, fakes, ELEMENTSOF(fakes));
        for (size_t i = 0; i < 2; i++) {
                ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
                sampler_measure(&bench.sampler, &memory);
                ck_assert_uint_eq(memory.private_bytes, 3 * 80000 * 1024);
        }
}
END_TEST

/* A child that may have its parent's memory does not count, but is told of; and none has memory to
 * lend that borrows itself. */
START_TEST(test_doubtful) {
        static const Fake fakes[] = {
                {2, 1, "lends", 'D', 1, 0, 1, 2, 100 * MIB, 20000, 80000, 0, 0},
                {3, 2, "borrows", 'D', 0, 0, 1, 3, 100 * MIB, 20000, 70000, 0, 0},
                {4, 3, "chained", 'D', 0, 0, 1, 3, 100 * MIB, 20000, 60000, 0, 0},
                {5, 4, "borrows", 'S', 0, 0, 1, 3, 100 * MIB, 20000, 50000, 0, 0},
        };
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, fakes, ELEMENTSOF(fakes));
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, 140000 * 1024);
        /* It is estimated, and the estimate of these is twice what they have. */
        ck_assert_uint_eq(memory.doubtful_bytes, 2 * 120000 * 1024);
}
END_TEST

/* What cannot be measured, or not in time, counts for what the kernel tells everybody. */
START_TEST(test_estimate) {
        static const Fake fakes[] = {
                {2, 1, "slow", 'S', 1, 0, 1, 2, 100 * MIB, 20000, 300, 40, 5},
                {3, 2, "slow", 'S', 0, 0, 1, 3, 90 * MIB, 20000, 300, 40, 5},
        };
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, fakes, ELEMENTSOF(fakes));
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        sampler_estimate(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, (600 + 5 + 600 + 5) * 1024);
        ck_assert_uint_eq(memory.shared_bytes, (80 + 80) * 1024);
        bench.sampler.measure_usec = 0;
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, (600 + 5 + 600 + 5) * 1024);
        ck_assert_uint_eq(memory.shared_bytes, (80 + 80) * 1024);

        sampler_done(&bench.sampler);
        sampler_init(&bench.sampler, bench.fd);
        scratch_remove(&bench.proc, "3/smaps_rollup");
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, (305 + 600 + 5) * 1024);
        ck_assert_uint_eq(memory.shared_bytes, (40 + 80) * 1024);
}
END_TEST

static const char *const broken[] = {
        "",
        "2",
        "2 (sh",
        "2 (sh)",
        "2 (sh) ",
        "2 (sh) S 1 1",
        "2 (sh) S x 1 1 0 -1 4194304 1 2 3 4 5 0 0 0 20 0 1 0 1 1 1 1",
};

/* What is no process does not count and breaks nothing. */
START_TEST(test_broken) {
        static const Fake init = {1, 0, "init", 'S', 0, 0, 1, 1, MIB, 10, 100, 0, 0};
        _cleanup_(bench_done) Bench bench = {};
        SamplerMemory memory;
        SamplerLook look;

        bench_init(&bench, &init, 1);
        scratch_file(&bench.proc, "2/stat", broken[_i]);
        ck_assert_int_eq(sampler_look(&bench.sampler, &look), 0);
        ck_assert_uint_eq(look.pids, 0);
        sampler_measure(&bench.sampler, &memory);
        ck_assert_uint_eq(memory.private_bytes, 0);
        ck_assert_int_eq(memory.pid, 0);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("sampler");

        tcase_add_test(tcase, test_counts);
        tcase_add_test(tcase, test_gone);
        tcase_add_test(tcase, test_vfork);
        tcase_add_test(tcase, test_copies);
        tcase_add_test(tcase, test_doubtful);
        tcase_add_test(tcase, test_estimate);
        tcase_add_loop_test(tcase, test_broken, 0, ELEMENTSOF(broken));
        return suite_run("sampler", tcase);
}
