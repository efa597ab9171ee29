/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measuring: rows of one table are measured by turns, each round in another order, so that what
 * else the machine does falls on all of them alike, and are shown as ratios to the first.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct BenchRow BenchRow;
struct BenchRow {
        const char *name;
        /* One run, in nanoseconds: 0 or a negative errno, after which the row is given up. */
        int (*measure)(void *userdata, uint64_t *ret_nsec);
        void *userdata;
        uint64_t *samples;
        size_t n_samples;
        const char *skip; /* why it is not measured; NULL: it is */
        int error;        /* what gave it up */
};

uint64_t bench_now(void);
/* Measures all rows runs times, after a few runs that do not count. 0 or -ENOMEM. */
int bench_rows_run(BenchRow *rows, size_t n_rows, size_t runs);
void bench_rows_print(const char *title, const BenchRow *rows, size_t n_rows);
void bench_rows_done(BenchRow *rows, size_t n_rows);
/* The p-th of 100 parts of samples, which get sorted. */
uint64_t bench_percentile(uint64_t *samples, size_t n_samples, unsigned p);

/* Start to exit of a command with nothing on its standard streams; userdata is the argv. */
int bench_fork_exec(void *userdata, uint64_t *ret_nsec);
int bench_spawn(void *userdata, uint64_t *ret_nsec); /* the same by posix_spawn */
