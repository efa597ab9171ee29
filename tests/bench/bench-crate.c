/* SPDX-License-Identifier: Apache-2.0 */

/*
 * bench-crate [-n RUNS] [-r ROW]
 *
 * What a crate costs, against plain fork and exec, against the least that the kernel takes for the
 * same walls, and against bubblewrap. All rows of the first table are measured by turns; the other
 * tables are of the same runs. With -r only rows whose name contains ROW, and the first.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "basic/macros.h"
#include "basic/parse-util.h"
#include "bench.h"
#include "crate-row.h"
#include "floor.h"

#define RUNS_DEFAULT 150U
#define RUNS_MAX 100000U

typedef enum RowId {
        ROW_FORK_EXEC,
        ROW_SPAWN,
        ROW_NAMESPACES,
        ROW_FLOOR_WHOLE,
        ROW_FLOOR_TREE,
        ROW_FLOOR_INIT,
        ROW_CRATE,
        ROW_CRATE_STRICT,
        ROW_CRATE_EGRESS,
        ROW_CRATE_OFF,
        ROW_CRATE_ON,
        ROW_RUN,
        ROW_BWRAP,
        ROW_BWRAP_LEAST,
        _ROW_MAX,
} RowId;

typedef struct Bench {
        size_t runs;
        BenchRow rows[_ROW_MAX];
        BenchRow steps[1 + _FLOOR_STEP_MAX];   /* after fork and exec, which gives the ratio */
        BenchRow phases[1 + _CRATE_PHASE_MAX]; /* likewise */
        Floor *floors[_FLOOR_KIND_MAX];
        CgroupTree *cgroups;
        char *why_no_cgroups;
        CrateRow *crates[ROW_CRATE_ON + 1]; /* by the row that is theirs */
        char *why_no_crate;
        char *runner;
} Bench;

static const char *const row_names[_ROW_MAX] = {
        [ROW_FORK_EXEC] = "fork and exec of /usr/bin/true",
        [ROW_SPAWN] = "the same by posix_spawn",
        [ROW_NAMESPACES] = "floor: namespaces, nothing in them",
        [ROW_FLOOR_WHOLE] = "floor: everything, from an ordinary parent",
        [ROW_FLOOR_TREE] = "floor: everything, from a parent in the tree",
        [ROW_FLOOR_INIT] = "floor: that, with an init",
        [ROW_CRATE] = "cold crate, profile default",
        [ROW_CRATE_STRICT] = "cold crate, profile strict",
        [ROW_CRATE_EGRESS] = "cold crate that reaches a name",
        [ROW_CRATE_OFF] = "cold crate, limits off where possible",
        [ROW_CRATE_ON] = "cold crate, all limits on",
        [ROW_RUN] = "agentcrate-run, the whole command",
        [ROW_BWRAP] = "bwrap, a tree of the same kind, whole command",
        [ROW_BWRAP_LEAST] = "bwrap, its smallest form, whole command",
};

static const char *const phase_names[_CRATE_PHASE_MAX] = {
        [CRATE_PHASE_MADE] = "asked for, until its job has started",
        [CRATE_PHASE_ENDED] = "until the result stands",
        [CRATE_PHASE_FREED] = "until it is freed, off the clock above",
};

static char *const true_argv[] = {(char *) "/usr/bin/true", NULL};
static char *const bwrap_argv[] = {
        (char *) "bwrap",
        (char *) "--unshare-all",
        (char *) "--die-with-parent",
        (char *) "--new-session",
        (char *) "--ro-bind",
        (char *) "/usr",
        (char *) "/usr",
        (char *) "--symlink",
        (char *) "usr/bin",
        (char *) "/bin",
        (char *) "--symlink",
        (char *) "usr/lib",
        (char *) "/lib",
        (char *) "--symlink",
        (char *) "usr/lib64",
        (char *) "/lib64",
        (char *) "--proc",
        (char *) "/proc",
        (char *) "--dev",
        (char *) "/dev",
        (char *) "--tmpfs",
        (char *) "/tmp",
        (char *) "--",
        (char *) "/usr/bin/true",
        NULL,
};
static char *const bwrap_least_argv[] = {
        (char *) "bwrap",
        (char *) "--unshare-all",
        (char *) "--ro-bind",
        (char *) "/",
        (char *) "/",
        (char *) "/usr/bin/true",
        NULL,
};

/* --- rows that also tell where their time went --- */

static void add_sample(BenchRow *row, size_t runs, uint64_t nsec) {
        if (!row->samples)
                row->samples = calloc(runs + 16, sizeof(uint64_t));
        if (row->samples && row->n_samples < runs + 16)
                row->samples[row->n_samples++] = nsec;
}

static int measure_whole(void *userdata, uint64_t *ret_nsec) {
        Bench *bench = userdata;
        int r;

        r = floor_measure(bench->floors[FLOOR_WHOLE], ret_nsec);
        for (size_t i = 0; r == 0 && i < FLOOR_STEP_NET; i++)
                add_sample(&bench->steps[1 + i], bench->runs,
                           floor_steps(bench->floors[FLOOR_WHOLE])[i]);
        return r;
}

static int measure_tree(void *userdata, uint64_t *ret_nsec) {
        Bench *bench = userdata;
        int r;

        r = floor_measure(bench->floors[FLOOR_TREE], ret_nsec);
        if (r == 0)
                add_sample(&bench->steps[1 + FLOOR_STEP_NET], bench->runs,
                           floor_steps(bench->floors[FLOOR_TREE])[FLOOR_STEP_NET]);
        return r;
}

static int measure_crate(void *userdata, uint64_t *ret_nsec) {
        Bench *bench = userdata;
        int r;

        r = crate_row_measure(bench->crates[ROW_CRATE], ret_nsec);
        for (size_t i = 0; r == 0 && i < _CRATE_PHASE_MAX; i++)
                add_sample(&bench->phases[1 + i], bench->runs,
                           crate_row_phases(bench->crates[ROW_CRATE])[i]);
        return r;
}

/* --- the bench --- */

static bool find_program(const char *name) {
        const char *path = secure_getenv("PATH") ?: "/usr/bin:/bin";

        for (;;) {
                size_t n = strcspn(path, ":");
                char file[4096];

                if ((size_t) snprintf(file, sizeof(file), "%.*s/%s", (int) n, path, name) <
                            sizeof(file) &&
                    access(file, X_OK) == 0)
                        return true;
                if (!path[n])
                        return false;
                path += n + 1;
        }
}

static void row_set(Bench *bench, RowId id, int (*measure)(void *, uint64_t *), void *userdata) {
        bench->rows[id] =
                (BenchRow){.name = row_names[id], .measure = measure, .userdata = userdata};
}

/* With all launchers in their places, the tree can be given its controllers. */
static int take_limits(Bench *bench) {
        CgroupFailure failure;
        int r = 0;

        if (bench->cgroups)
                r = cgroup_tree_enable(bench->cgroups, NULL, &failure);
        if (r > 0)
                return -EIO;
        if (r == 0)
                r = crate_row_take_limits(bench->crates[ROW_CRATE_OFF]);
        return r == 0 ? crate_row_take_limits(bench->crates[ROW_CRATE_ON]) : r;
}

static void add_crates(Bench *bench) {
        static const CrateRowSpec specs[_ROW_MAX] = {
                [ROW_CRATE] = {"default", CRATE_ROW_LIMITS_DEFAULT, NULL},
                [ROW_CRATE_STRICT] = {"strict", CRATE_ROW_LIMITS_DEFAULT, NULL},
                [ROW_CRATE_EGRESS] = {"default", CRATE_ROW_LIMITS_DEFAULT, NULL, true},
                [ROW_CRATE_OFF] = {"default", CRATE_ROW_LIMITS_OFF, NULL},
                [ROW_CRATE_ON] = {"default", CRATE_ROW_LIMITS_ON, NULL},
        };
        int r = 0, q;

        for (RowId id = ROW_CRATE; r == 0 && id <= ROW_CRATE_ON; id++) {
                CrateRowSpec spec = specs[id];

                spec.cgroups = bench->cgroups;
                r = crate_row_new(&spec, &bench->crates[id], &bench->why_no_crate);
        }
        q = r == 0 ? take_limits(bench) : r;
        for (RowId id = ROW_CRATE; id <= ROW_CRATE_ON; id++) {
                int error = id < ROW_CRATE_OFF ? r : q;

                row_set(bench, id, crate_row_measure, bench->crates[id]);
                if (error < 0)
                        bench->rows[id].skip = bench->why_no_crate ?: strerror(-error);
        }
        bench->rows[ROW_CRATE].measure = measure_crate;
        bench->rows[ROW_CRATE].userdata = bench;
}

static int add_commands(Bench *bench) {
        const char *bindir = secure_getenv("AGENTCRATE_BINDIR");
        static char *run_argv[] = {NULL, (char *) "--", (char *) "/usr/bin/true", NULL};

        if (asprintf(&bench->runner, "%s%sagentcrate-run", bindir ?: "", bindir ? "/" : "") < 0) {
                bench->runner = NULL;
                return -ENOMEM;
        }
        run_argv[0] = bench->runner;
        row_set(bench, ROW_RUN, bench_fork_exec, run_argv);
        if (!bindir && !find_program("agentcrate-run"))
                bench->rows[ROW_RUN].skip = "agentcrate-run is not installed";
        row_set(bench, ROW_BWRAP, bench_fork_exec, (void *) bwrap_argv);
        row_set(bench, ROW_BWRAP_LEAST, bench_fork_exec, (void *) bwrap_least_argv);
        if (!find_program("bwrap"))
                bench->rows[ROW_BWRAP].skip = bench->rows[ROW_BWRAP_LEAST].skip =
                        "bwrap is not installed";
        return 0;
}

static int bench_init(Bench *bench) {
        int r;

        /* Before there are children, who would stay where they are. */
        r = cgroup_tree_new_own(&bench->cgroups, &bench->why_no_cgroups);
        if (r < 0)
                return r;
        for (FloorKind kind = 0; kind < _FLOOR_KIND_MAX; kind++) {
                r = floor_new(kind, &bench->floors[kind]);
                if (r < 0)
                        return r;
        }
        row_set(bench, ROW_FORK_EXEC, bench_fork_exec, (void *) true_argv);
        row_set(bench, ROW_SPAWN, bench_spawn, (void *) true_argv);
        row_set(bench, ROW_NAMESPACES, floor_measure, bench->floors[FLOOR_NAMESPACES]);
        row_set(bench, ROW_FLOOR_WHOLE, measure_whole, bench);
        row_set(bench, ROW_FLOOR_TREE, measure_tree, bench);
        row_set(bench, ROW_FLOOR_INIT, floor_measure, bench->floors[FLOOR_INIT]);
        add_crates(bench);
        for (FloorStep step = 0; step < _FLOOR_STEP_MAX; step++)
                bench->steps[1 + step].name = floor_step_to_string(step);
        for (CratePhase phase = 0; phase < _CRATE_PHASE_MAX; phase++)
                bench->phases[1 + phase].name = phase_names[phase];
        return add_commands(bench);
}

static void bench_done(Bench *bench) {
        bench_rows_done(bench->rows, _ROW_MAX);
        bench_rows_done(bench->steps + 1, _FLOOR_STEP_MAX);
        bench_rows_done(bench->phases + 1, _CRATE_PHASE_MAX);
        for (RowId id = ROW_CRATE; id <= ROW_CRATE_ON; id++)
                bench->crates[id] = crate_row_free(bench->crates[id]);
        for (FloorKind kind = 0; kind < _FLOOR_KIND_MAX; kind++)
                bench->floors[kind] = floor_free(bench->floors[kind]);
        bench->cgroups = cgroup_tree_free(bench->cgroups);
        free(bench->why_no_cgroups);
        free(bench->why_no_crate);
        free(bench->runner);
}

static double median_of(BenchRow *row) {
        return (double) bench_percentile(row->samples, row->n_samples, 50);
}

static void print_limits(Bench *bench) {
        BenchRow *off = &bench->rows[ROW_CRATE_OFF], *on = &bench->rows[ROW_CRATE_ON];
        BenchRow *first = &bench->rows[ROW_FORK_EXEC];

        if (off->n_samples == 0 || on->n_samples == 0 || first->n_samples == 0)
                return;
        printf("\nall limits on, against off: %+.2f x fork and exec\n",
               (median_of(on) - median_of(off)) / median_of(first));
        if (*crate_row_missing(bench->crates[ROW_CRATE_ON]))
                printf("not measured: no such controllers: %s\n",
                       crate_row_missing(bench->crates[ROW_CRATE_ON]));
}

static void print_egress(Bench *bench) {
        BenchRow *without = &bench->rows[ROW_CRATE], *with = &bench->rows[ROW_CRATE_EGRESS];
        BenchRow *first = &bench->rows[ROW_FORK_EXEC];
        double more;

        if (without->n_samples == 0 || with->n_samples == 0 || first->n_samples == 0)
                return;
        more = (median_of(with) - median_of(without)) / median_of(first);
        printf("\n%s  egress made ready and ended: %+.2f x fork and exec, at most +0.30\n",
               more <= 0.3 ? "met   " : "missed", more);
}

static void print_tables(Bench *bench) {
        struct utsname host = {};

        (void) uname(&host);
        printf("%s %s, %i CPUs, %s, %zu runs by turns; microseconds\n", host.sysname, host.release,
               get_nprocs(), geteuid() == 0 ? "root" : "a plain user", bench->runs);
        printf("crates %s%s\n", bench->cgroups ? "in cgroups of their own" : "without cgroups: ",
               bench->cgroups ? "" : bench->why_no_cgroups ?: "no reason given");
        bench_rows_print("start to exit", bench->rows, _ROW_MAX);
        print_limits(bench);
        print_egress(bench);

        bench->steps[0] = bench->rows[ROW_FORK_EXEC];
        bench_rows_print("steps of the floor", bench->steps, 1 + _FLOOR_STEP_MAX);
        bench->phases[0] = bench->rows[ROW_FORK_EXEC];
        bench_rows_print("phases of a cold crate, profile default", bench->phases,
                         1 + _CRATE_PHASE_MAX);
}

static void choose_rows(Bench *bench, const char *text) {
        for (RowId id = ROW_FORK_EXEC + 1; id < _ROW_MAX; id++)
                if (!strstr(row_names[id], text))
                        bench->rows[id].skip = "not asked for";
}

static int run(size_t runs, const char *only) {
        _cleanup_(bench_done) Bench bench = {.runs = runs};
        int r;

        r = bench_init(&bench);
        choose_rows(&bench, only);
        if (r == 0)
                r = bench_rows_run(bench.rows, _ROW_MAX, runs);
        if (r < 0) {
                fprintf(stderr, "bench-crate: %s\n", strerror(-r));
                return EXIT_FAILURE;
        }
        print_tables(&bench);
        return bench.rows[ROW_CRATE].n_samples > 0 || only[0] ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
        uint64_t runs = RUNS_DEFAULT;
        const char *only = "";
        int option;

        while ((option = getopt(argc, argv, "n:r:")) >= 0)
                if (option == 'r')
                        only = optarg;
                else if (option != 'n' || parse_count(optarg, &runs) != 0 || runs > RUNS_MAX) {
                        fputs("usage: bench-crate [-n RUNS] [-r ROW]\n", stderr);
                        return EXIT_FAILURE;
                }
        return run((size_t) runs, only);
}
