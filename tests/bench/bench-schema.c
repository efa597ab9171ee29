/* SPDX-License-Identifier: Apache-2.0 */

/* What a check of a call's arguments costs: each row is a thousand of them. */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/parse-util.h"
#include "schema/schema.h"

#define CHECKS 1000U

static const char arguments[] =
        "{\"argv\":[\"/usr/bin/git\",\"log\",\"--oneline\",\"-n\",\"20\"],\"cwd\":\"/workspace\","
        "\"timeout_ms\":30000,\"env\":{\"LANG\":\"C.UTF-8\"},\"template\":\"host\"}";
static const char bounds[] =
        "{\"properties\":{\"timeout_ms\":{\"maximum\":60000},\"capture\":{\"maximum\":65536}}}";
static const char typical[] =
        "{\"type\":\"object\",\"required\":[\"argv\"],\"additionalProperties\":false,"
        "\"properties\":"
        "{\"argv\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":64,\"items\":{\"type\":"
        "\"string\","
        "\"maxLength\":4096}},\"cwd\":{\"type\":\"string\"},\"timeout_ms\":{\"type\":\"integer\","
        "\"minimum\":1,\"maximum\":60000},\"env\":{\"type\":\"object\"},\"template\":{\"enum\":["
        "\"host\",\"python\"]}}}";
static const char with_pattern[] =
        "{\"properties\":{\"cwd\":{\"pattern\":\"^/workspace(/|$)\"},\"timeout_ms\":{\"maximum\":"
        "60000}}}";
static const char refusing[] = "{\"properties\":{\"timeout_ms\":{\"maximum\":1000}}}";

typedef struct Input {
        JsonDoc *doc;
        Schema *schema;
} Input;

static int measure_scan(void *userdata _unused_, uint64_t *ret_nsec) {
        uint64_t begin = bench_now();

        for (size_t i = 0; i < CHECKS; i++) {
                JsonDoc *doc = NULL;
                JsonError error;

                if (json_scan(arguments, sizeof(arguments) - 1, &doc, &error) != 0)
                        return -EINVAL;
                json_doc_free(doc);
        }
        *ret_nsec = bench_now() - begin;
        return 0;
}

static int measure_check(void *userdata, uint64_t *ret_nsec) {
        const Input *input = userdata;
        uint64_t begin = bench_now();

        for (size_t i = 0; i < CHECKS; i++) {
                SchemaReason reason = SCHEMA_REASON_NULL;

                if (schema_check(input->schema, input->doc, json_doc_root(input->doc), &reason) < 0)
                        return -EINVAL;
                schema_reason_done(&reason);
        }
        *ret_nsec = bench_now() - begin;
        return 0;
}

static int input_init(Input *input, const char *schema) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        JsonError error;

        if (json_scan(arguments, sizeof(arguments) - 1, &input->doc, &error) != 0 ||
            json_scan(schema, strlen(schema), &doc, &error) != 0 ||
            schema_compile(doc, json_doc_root(doc), NULL, &diags, &input->schema) != 0)
                return -EINVAL;
        return 0;
}

int main(int argc, char **argv) {
        static const char *const schemas[] = {bounds, typical, with_pattern, refusing};
        Input inputs[ELEMENTSOF(schemas)] = {};
        BenchRow rows[] = {
                {.name = "scan of the arguments, for comparison", .measure = measure_scan},
                {.name = "two bounds", .measure = measure_check, .userdata = &inputs[0]},
                {.name = "every argument bounded",
                 .measure = measure_check,
                 .userdata = &inputs[1]},
                {.name = "a bound and a pattern", .measure = measure_check, .userdata = &inputs[2]},
                {.name = "refused, with the reason",
                 .measure = measure_check,
                 .userdata = &inputs[3]},
        };
        uint64_t runs = 150;
        int r = 0;

        if (argc == 3 && string_equal(argv[1], "-n") && parse_uint64(argv[2], &runs) != 0) {
                fprintf(stderr, "bench-schema: -n needs a number\n");
                return 1;
        }
        for (size_t i = 0; i < ELEMENTSOF(schemas) && r == 0; i++)
                r = input_init(&inputs[i], schemas[i]);
        if (r == 0)
                r = bench_rows_run(rows, ELEMENTSOF(rows), runs);
        if (r == 0)
                bench_rows_print("1000 checks of arguments (us)", rows, ELEMENTSOF(rows));
        else
                fprintf(stderr, "bench-schema: %s\n", strerror(-r));

        bench_rows_done(rows, ELEMENTSOF(rows));
        for (size_t i = 0; i < ELEMENTSOF(inputs); i++) {
                schema_free(inputs[i].schema);
                json_doc_free(inputs[i].doc);
        }
        return r < 0;
}
