/* SPDX-License-Identifier: Apache-2.0 */

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "basic/macros.h"

#define WARM_UP 3U

uint64_t bench_now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000U + (uint64_t) t.tv_nsec;
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

uint64_t bench_percentile(uint64_t *samples, size_t n_samples, unsigned p) {
        if (n_samples == 0)
                return 0;
        qsort(samples, n_samples, sizeof(uint64_t), compare);
        return samples[(n_samples - 1) * p / 100];
}

/* What a row leaves behind for the kernel to clear away falls on the one that follows, which shall
 * not always be the same. */
static void shuffle(size_t *order, size_t n) {
        for (size_t i = n; i > 1; i--) {
                size_t j = (size_t) random() % i, taken = order[i - 1];

                order[i - 1] = order[j];
                order[j] = taken;
        }
}

int bench_rows_run(BenchRow *rows, size_t n_rows, size_t runs) {
        _cleanup_(freep) size_t *order = calloc(n_rows, sizeof(*order));

        if (!order)
                return -ENOMEM;
        for (size_t i = 0; i < n_rows; i++) {
                order[i] = i;
                rows[i].samples = calloc(runs, sizeof(uint64_t));
                if (!rows[i].samples)
                        return -ENOMEM;
        }

        for (size_t run = 0; run < runs + WARM_UP; run++) {
                shuffle(order, n_rows);
                for (size_t i = 0; i < n_rows; i++) {
                        BenchRow *row = &rows[order[i]];
                        uint64_t nsec = 0;

                        if (row->skip || row->error < 0)
                                continue;
                        row->error = row->measure(row->userdata, &nsec);
                        if (row->error == 0 && run >= WARM_UP)
                                row->samples[row->n_samples++] = nsec;
                }
        }
        return 0;
}

void bench_rows_print(const char *title, const BenchRow *rows, size_t n_rows) {
        double base = 0;

        printf("\n%-52s %8s %8s %8s %8s %7s\n", title, "min", "p10", "p50", "p99", "ratio");
        for (size_t i = 0; i < n_rows; i++) {
                const BenchRow *row = &rows[i];
                uint64_t *s = row->samples;
                double p50;

                if (row->skip || row->error < 0 || row->n_samples == 0) {
                        printf("%-52s %s: %s\n", row->name, row->skip ? "skipped" : "failed",
                               row->skip ?: strerror(-row->error));
                        continue;
                }
                p50 = (double) bench_percentile(s, row->n_samples, 50);
                if (base == 0)
                        base = p50;
                printf("%-52s %8.0f %8.0f %8.0f %8.0f %7.2f\n", row->name, (double) s[0] / 1e3,
                       (double) bench_percentile(s, row->n_samples, 10) / 1e3, p50 / 1e3,
                       (double) bench_percentile(s, row->n_samples, 99) / 1e3, p50 / base);
        }
}

void bench_rows_done(BenchRow *rows, size_t n_rows) {
        for (size_t i = 0; i < n_rows; i++) {
                free(rows[i].samples);
                rows[i].samples = NULL;
                rows[i].n_samples = 0;
        }
}

/* --- plain commands --- */

static int wait_success(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int bench_fork_exec(void *userdata, uint64_t *ret_nsec) {
        char *const *argv = userdata;
        uint64_t begin = bench_now();
        pid_t pid;
        int r;

        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

                for (int i = 0; i < 3; i++)
                        (void) dup2(fd, i);
                (void) execvp(argv[0], argv);
                _exit(127);
        }
        r = wait_success(pid);
        *ret_nsec = bench_now() - begin;
        return r;
}

int bench_spawn(void *userdata, uint64_t *ret_nsec) {
        char *const *argv = userdata;
        posix_spawn_file_actions_t actions;
        uint64_t begin;
        pid_t pid;
        int r;

        r = posix_spawn_file_actions_init(&actions);
        for (int i = 0; i < 3 && r == 0; i++)
                r = posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
        if (r != 0)
                return -r;

        begin = bench_now();
        r = -posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
        if (r == 0)
                r = wait_success(pid);
        *ret_nsec = bench_now() - begin;
        (void) posix_spawn_file_actions_destroy(&actions);
        return r;
}
