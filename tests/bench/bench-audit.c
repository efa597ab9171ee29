/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What it costs to record calls: each row is a hundred of them, a decision and an end each, in the
 * folder of temporary files. The first row writes as many bytes in as many writes and does nothing
 * else; the last waits for the disk behind each line, which no broker does.
 */

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/parse-util.h"
#include "record/audit.h"

#define CALLS 100U
/* A line of a call is about as long. */
#define LINE_SIZE 680U

typedef struct Place {
        char folder[128], log[160], head[160], plain[160];
        Audit *audit;
        int log_fd; /* to wait for the disk by; -EBADF: it is not waited */
} Place;

static int measure_write(void *userdata, uint64_t *ret_nsec) {
        const Place *place = userdata;
        _cleanup_(fd_closep) int fd =
                open(place->plain, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        char line[LINE_SIZE];
        uint64_t begin;

        memset(line, 'x', sizeof(line));
        begin = bench_now();
        for (unsigned i = 0; i < 2 * CALLS; i++)
                if (write(fd, line, sizeof(line)) != (ssize_t) sizeof(line))
                        return -EIO;
        *ret_nsec = bench_now() - begin;
        return 0;
}

static int measure_calls(void *userdata, uint64_t *ret_nsec) {
        static const char arguments[] = "{\"argv\":[\"/usr/bin/true\"]}";
        static const AuditCall call = {
                .id = "c-0123456789abcdef",
                .tenant = "owner",
                .uid = 1000,
                .pid = 4711,
                .client = "bench/1",
                .tool = "sandbox_exec",
        };
        static const AuditDecision decision = {
                .allowed = true,
                .rule = "owner:tools.allow[0]",
                .arguments = {arguments, sizeof(arguments) - 1},
        };
        static char answer[1800];
        const AuditEnd end = {.outcome = "exited", .result = {answer, sizeof(answer)}};
        const Place *place = userdata;
        uint64_t begin = bench_now();

        for (unsigned i = 0; i < CALLS; i++) {
                _cleanup_(freep) char *text = NULL;

                if (audit_decision(place->audit, &call, &decision, &text) != 0)
                        return -EIO;
                if (place->log_fd >= 0 && fdatasync(place->log_fd) < 0)
                        return negative_errno();
                audit_end(place->audit, &call, &end);
                if (place->log_fd >= 0 && fdatasync(place->log_fd) < 0)
                        return negative_errno();
        }
        *ret_nsec = bench_now() - begin;
        return 0;
}

static int place_init(Place *place, const char *parent, bool synced) {
        _cleanup_(freep) char *text = NULL;
        AuditConfig config = {.path = place->log};

        (void) snprintf(place->folder, sizeof(place->folder), "%s/agentcrate-bench.XXXXXX", parent);
        if (!mkdtemp(place->folder))
                return negative_errno();
        (void) snprintf(place->log, sizeof(place->log), "%s/audit.jsonl", place->folder);
        (void) snprintf(place->head, sizeof(place->head), "%s/audit.head", place->folder);
        (void) snprintf(place->plain, sizeof(place->plain), "%s/plain", place->folder);
        if (audit_open(&config, &place->audit, &text) != 0) {
                fprintf(stderr, "bench-audit: %s\n", text ?: "");
                return -EIO;
        }
        place->log_fd = synced ? open(place->log, O_RDONLY | O_CLOEXEC) : -EBADF;
        return 0;
}

static void place_done(Place *place) {
        audit_free(place->audit);
        (void) fd_close(place->log_fd);
        (void) unlink(place->log);
        (void) unlink(place->head);
        (void) unlink(place->plain);
        if (place->folder[0])
                (void) rmdir(place->folder);
}

int main(int argc, char **argv) {
        const char *parent = secure_getenv("TMPDIR") ?: "/var/tmp";
        Place places[2] = {{.log_fd = -EBADF}, {.log_fd = -EBADF}};
        BenchRow rows[] = {
                {.name = "200 plain writes, for comparison",
                 .measure = measure_write,
                 .userdata = &places[0]},
                {.name = "100 calls recorded", .measure = measure_calls, .userdata = &places[0]},
                {.name = "the same, on disk line by line",
                 .measure = measure_calls,
                 .userdata = &places[1]},
        };
        uint64_t runs = 150, p50;
        int r;

        if (argc == 3 && string_equal(argv[1], "-n") && parse_uint64(argv[2], &runs) != 0) {
                fprintf(stderr, "bench-audit: -n needs a number\n");
                return 1;
        }
        r = place_init(&places[0], parent, false);
        if (r == 0)
                r = place_init(&places[1], parent, true);
        if (r == 0)
                r = bench_rows_run(rows, ELEMENTSOF(rows), runs);
        if (r == 0) {
                bench_rows_print("100 calls in the audit log (us)", rows, ELEMENTSOF(rows));
                p50 = bench_percentile(rows[1].samples, rows[1].n_samples, 50);
                if (p50 > 0)
                        printf("%.0f lines a second, %.1f us a call\n\n",
                               2.0 * CALLS * 1e9 / (double) p50, (double) p50 / CALLS / 1000);
        } else
                fprintf(stderr, "bench-audit: %s\n", strerror(-r));

        bench_rows_done(rows, ELEMENTSOF(rows));
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                place_done(&places[i]);
        return r < 0;
}
