/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What deciding one call costs: who somebody is, and whether the call is allowed, with 1,000
 * tenants that have rules on 200 tools. Each sample is one decision.
 *
 *   bench-authorize [-n THOUSANDS]
 */

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/parse-util.h"
#include "bench.h"
#include "policy/evaluate.h"
#include "policy/policy.h"

#define N_TENANTS 1000U
#define N_TOOLS 200U
#define FIRST_UID 100000U

static char scope_word[] = "exec";
static char *scopes[] = {scope_word, NULL};

typedef struct Bench {
        Policy *policy;
        char tools[N_TOOLS][32];
        JsonDoc *arguments;
} Bench;

/* Every tool by name, some denied by pattern, and constraints on every tenth. */
static int write_tenant(const char *dir, unsigned i) {
        char path[256];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/tenants.d/t%u.json", dir, i);
        f = fopen(path, "we");
        if (!f)
                return negative_errno();
        fprintf(f, "{\"match\": {\"uid\": [%u], \"gid\": [%u]}, \"scopes\": [\"exec\"],\n",
                FIRST_UID + i, FIRST_UID + i);
        fprintf(f,
                "\"templates\": [\"host\"], \"tools\": {\"deny\": [\"tool_1_9*\"], \"allow\": [");
        for (unsigned k = 0; k < N_TOOLS; k++)
                fprintf(f, "%s\"tool_%u_%u\"", k > 0 ? ", " : "", k % 4, k);
        fprintf(f, "]},\n\"arguments\": {");
        for (unsigned k = 0; k < N_TOOLS; k += 10)
                fprintf(f,
                        "%s\"tool_%u_%u\": {\"properties\": {\"timeout_ms\": {\"maximum\": 60000}, "
                        "\"command\": {\"maxLength\": 4096, \"pattern\": \"^[a-z]\"}}}",
                        k > 0 ? ", " : "", k % 4, k);
        fprintf(f, "}}\n");
        return fclose(f) == 0 ? 0 : negative_errno();
}

static int write_files(const char *dir) {
        char path[256];
        int r = 0;

        (void) snprintf(path, sizeof(path), "%s/tenants.d", dir);
        if (mkdir(path, 0755) < 0)
                return negative_errno();
        for (unsigned i = 0; i < N_TENANTS && r == 0; i++)
                r = write_tenant(dir, i);
        return r;
}

static int bench_init(Bench *bench, const char *dir) {
        static const char text[] = "{\"command\": \"true\", \"timeout_ms\": 1000}";
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        JsonError error;
        uint64_t begin;
        int r;

        r = write_files(dir);
        if (r == 0)
                r = strv_append(&dirs, dir);
        begin = bench_now();
        if (r == 0)
                r = policy_load(&dirs, &diags, &bench->policy);
        printf("reading %u tenants: %.0f ms\n", N_TENANTS, (double) (bench_now() - begin) / 1e6);
        for (unsigned k = 0; k < N_TOOLS; k++)
                (void) snprintf(bench->tools[k], sizeof(bench->tools[k]), "tool_%u_%u", k % 4, k);
        return r != 0 ? r : json_scan(text, strlen(text), &bench->arguments, &error);
}

static int decide(const Bench *bench, unsigned i, uint64_t *ret_nsec, size_t *n_allowed) {
        const gid_t gids[] = {1, 2, 3, FIRST_UID + i % N_TENANTS};
        _cleanup_(decision_done) Decision decision = DECISION_NULL;
        ToolRights rights = {
                .name = bench->tools[i * 7 % N_TOOLS],
                .scopes = {scopes, 1},
                .template_default = "host",
        };
        const Tenant *tenant = NULL, *other = NULL;
        uint64_t begin = bench_now();
        int r;

        /* Every other one is found by a group. */
        r = policy_match(bench->policy, i % 2 ? 1 : FIRST_UID + i % N_TENANTS, gids,
                         ELEMENTSOF(gids), &tenant, &other);
        if (r == 0)
                r = evaluate(tenant, &rights, bench->arguments, json_doc_root(bench->arguments),
                             &decision);
        *ret_nsec = bench_now() - begin;
        *n_allowed += decision.allowed;
        return r;
}

static int measure(const Bench *bench, size_t n) {
        _cleanup_(freep) uint64_t *samples = calloc(n, sizeof(uint64_t));
        uint64_t p50, p99;
        size_t n_allowed = 0;
        unsigned seed = 1;
        int r = 0;

        if (!samples)
                return -ENOMEM;
        for (size_t i = 0; i < n && r == 0; i++) {
                seed = seed * 1103515245U + 12345U;
                r = decide(bench, seed >> 8, &samples[i], &n_allowed);
        }
        if (r != 0)
                return r;
        p50 = bench_percentile(samples, n, 50);
        p99 = bench_percentile(samples, n, 99);
        printf("%zu decisions, %zu allowed, microseconds: p50 %.2f, p99 %.2f, p99.9 %.2f\n", n,
               n_allowed, (double) p50 / 1e3, (double) p99 / 1e3,
               (double) samples[n - 1 - n / 1000] / 1e3);
        return 0;
}

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
                      struct FTW *ftw _unused_) {
        return remove(path);
}

int main(int argc, char **argv) {
        char dir[] = "/tmp/agentcrate-bench.XXXXXX";
        uint64_t thousands = 100;
        Bench bench = {};
        int r;

        if (argc == 3 && strcmp(argv[1], "-n") == 0)
                (void) parse_count(argv[2], &thousands);
        if (!mkdtemp(dir))
                return EXIT_FAILURE;
        r = bench_init(&bench, dir);
        if (r == 0)
                r = measure(&bench, (size_t) thousands * 1000);
        if (r != 0)
                fprintf(stderr, "bench-authorize: %s\n", r < 0 ? strerror(-r) : "no decision");
        policy_free(bench.policy);
        json_doc_free(bench.arguments);
        (void) nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
