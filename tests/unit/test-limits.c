/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/diag.h"
#include "basic/json-scan.h"
#include "basic/string-util.h"
#include "policy/limits.h"

#define KNOWN                                                                                      \
        "memory, pids, cpus, cpu_time, wall_time, disk, inodes, open_files, file_size, output, "   \
        "io_read_bps and io_write_bps"

START_TEST(test_defaults) {
        Limits limits;

        limits_init(&limits);
        ck_assert_uint_eq(limits.given, 0);
        ck_assert_uint_eq(limits.max[LIMIT_WALL_TIME], 120000000);
        ck_assert_uint_eq(limits.max[LIMIT_OUTPUT], 64ULL << 20);
        ck_assert_uint_eq(limits.max[LIMIT_DISK], 1ULL << 30);
        ck_assert_uint_eq(limits.max[LIMIT_INODES], 100000);
        ck_assert_uint_eq(limits.max[LIMIT_OPEN_FILES], 1024);
        ck_assert_uint_eq(limits.max[LIMIT_FILE_SIZE], LIMIT_UNLIMITED);
        ck_assert_uint_eq(limits.max[LIMIT_MEMORY], 2ULL << 30);
        ck_assert_uint_eq(limits.max[LIMIT_PIDS], 512);
        ck_assert_uint_eq(limits.max[LIMIT_CPUS], LIMIT_UNLIMITED);
        ck_assert_uint_eq(limits.max[LIMIT_CPU_TIME], LIMIT_UNLIMITED);
        ck_assert_uint_eq(limits.max[LIMIT_IO_READ_BPS], LIMIT_UNLIMITED);
        ck_assert_uint_eq(limits.max[LIMIT_IO_WRITE_BPS], LIMIT_UNLIMITED);
}
END_TEST

START_TEST(test_names) {
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                ck_assert_int_eq(limit_from_string(limit_to_string(name)), name);
        ck_assert_int_eq(limit_from_string("Memory"), _LIMIT_INVALID);
        ck_assert_int_eq(limit_from_string(""), _LIMIT_INVALID);
        ck_assert_int_eq(limit_unit(LIMIT_CPUS), LIMIT_UNIT_MILLI);
}
END_TEST

START_TEST(test_merge) {
        Limits limits, over;

        limits_init(&limits);
        limits_init(&over);
        limits_set(&limits, LIMIT_DISK, 5);
        limits_set(&over, LIMIT_INODES, 7);
        limits_set(&over, LIMIT_FILE_SIZE, LIMIT_UNLIMITED);
        over.max[LIMIT_OUTPUT] = 1; /* not given */

        limits_merge(&limits, &over);
        ck_assert_uint_eq(limits.max[LIMIT_DISK], 5);
        ck_assert_uint_eq(limits.max[LIMIT_INODES], 7);
        ck_assert_uint_eq(limits.max[LIMIT_OUTPUT], 64ULL << 20);
        ck_assert_uint_eq(limits.given,
                          1U << LIMIT_DISK | 1U << LIMIT_INODES | 1U << LIMIT_FILE_SIZE);
}
END_TEST

typedef struct Option {
        const char *option;
        LimitName name;
        uint64_t value;
        const char *text; /* NULL: accepted */
} Option;

static const Option options[] = {
        {"wall_time=10", LIMIT_WALL_TIME, 10000000, NULL},
        {"wall_time=500ms", LIMIT_WALL_TIME, 500000, NULL},
        {"output=64M", LIMIT_OUTPUT, 64ULL << 20, NULL},
        {"disk=9223372036854775807", LIMIT_DISK, INT64_MAX, NULL},
        {"inodes=1", LIMIT_INODES, 1, NULL},
        {"file_size=1K", LIMIT_FILE_SIZE, 1024, NULL},
        {"open_files=16", LIMIT_OPEN_FILES, 16, NULL},
        {"wall_time=-1", 0, 0,
         "limit wall_time: \"-1\" is negative; give a time such as 500ms, 10s or 5m"},
        {"wall_time=0.5ms", 0, 0,
         "limit wall_time: \"0.5ms\" is too small; give a time such as 500ms, 10s or 5m"},
        {"wall_time=", 0, 0,
         "limit wall_time: \"\" is empty; give a time such as 500ms, 10s or 5m"},
        {"disk=1Q", 0, 0,
         "limit disk: \"1Q\" has an unknown suffix (known are K, M and G of a size, ms, s, m and h "
         "of a time); give bytes such as 4096, 64M or 1G"},
        {"disk=18446744073709551616", 0, 0,
         "limit disk: \"18446744073709551616\" is too large; give bytes such as 4096, 64M or 1G"},
        {"disk=18446744073709551615", 0, 0, /* the value that means unlimited */
         "limit disk: \"18446744073709551615\" is too large; give bytes such as 4096, 64M or 1G"},
        {"inodes=0", 0, 0, "limit inodes: \"0\" is zero; give a whole number such as 512"},
        {"open_files=many", 0, 0,
         "limit open_files: \"many\" is malformed; give a whole number such as 512"},
        {"memory=1G", LIMIT_MEMORY, 1ULL << 30, NULL},
        {"cpus=1.5", LIMIT_CPUS, 1500, NULL},
        {"pids=1", LIMIT_PIDS, 1, NULL},
        {"cpu_time=1", LIMIT_CPU_TIME, 1000000, NULL},
        {"io_read_bps=1M", LIMIT_IO_READ_BPS, 1ULL << 20, NULL},
        {"io_write_bps=5", LIMIT_IO_WRITE_BPS, 5, NULL},
        {"memory=0", 0, 0, "limit memory: \"0\" is zero; give bytes such as 4096, 64M or 1G"},
        {"pids=-1", 0, 0, "limit pids: \"-1\" is negative; give a whole number such as 512"},
        {"pids=1K", 0, 0,
         "limit pids: \"1K\" has an unknown suffix (known are K, M and G of a size, ms, s, m and h "
         "of a time); give a whole number such as 512"},
        {"cpus=0", 0, 0, "limit cpus: \"0\" is zero; give a number such as 2 or 1.5"},
        {"cpus=0.0001", 0, 0,
         "limit cpus: \"0.0001\" is too small; give a number such as 2 or 1.5"},
        {"cpus=two", 0, 0, "limit cpus: \"two\" is malformed; give a number such as 2 or 1.5"},
        {"cpu_time=0", 0, 0, "limit cpu_time: \"0\" is zero; give a time such as 500ms, 10s or 5m"},
        {"io_read_bps=0", 0, 0,
         "limit io_read_bps: \"0\" is zero; give bytes such as 4096, 64M or 1G"},
        {"ram=1G", 0, 0, "limit \"ram\" is unknown; known are " KNOWN},
        {"=1G", 0, 0, "limit \"\" is unknown; known are " KNOWN},
        {"disk", 0, 0, "limit \"disk\" has no value; give NAME=VALUE such as wall_time=10s"},
        {"disk=\x1b[2J", 0, 0,
         "limit disk: \"\\x1b[2J\" is malformed; give bytes such as 4096, 64M or 1G"},
};

START_TEST(test_options) {
        const Option *c = &options[_i];
        _cleanup_(freep) char *text = NULL;
        Limits limits, untouched;
        int r;

        limits_init(&limits);
        limits_init(&untouched);
        r = limits_parse_option(&limits, c->option, &text);
        if (!c->text) {
                ck_assert_msg(r == 0, "%s", text);
                ck_assert_uint_eq(limits.max[c->name], c->value);
                ck_assert_uint_eq(limits.given, 1U << c->name);
                return;
        }
        ck_assert_int_eq(r, -EINVAL);
        ck_assert_str_eq(text, c->text);
        ck_assert(memcmp(&limits, &untouched, sizeof(limits)) == 0);
}
END_TEST

#define IN_BYTES "give bytes as a number, or with a suffix such as \"64M\" or \"1G\""
#define IN_NUMBER "give a number such as 2 or 1.5"
#define IN_TIME "give milliseconds as a number, or a time such as \"500ms\", \"10s\" or \"5m\""

static const Option json_values[] = {
        {"{\"wall_time\": 1500}", LIMIT_WALL_TIME, 1500000, NULL},
        {"{\"wall_time\": \"10s\"}", LIMIT_WALL_TIME, 10000000, NULL},
        {"{\"disk\": 4096}", LIMIT_DISK, 4096, NULL},
        {"{\"disk\": \"64M\"}", LIMIT_DISK, 64ULL << 20, NULL},
        {"{\"inodes\": 12}", LIMIT_INODES, 12, NULL},
        {"{\"wall_time\": \"10\"}", 0, 0, "f:1:15: wall_time: \"10\" has no suffix; " IN_TIME},
        {"{\"wall_time\": 0}", 0, 0, "f:1:15: wall_time: 0 is zero; " IN_TIME},
        {"{\"wall_time\": 0.5}", 0, 0, "f:1:15: wall_time: 0.5 is no whole number; " IN_TIME},
        {"{\"wall_time\": 18446744073709551}", 0, 0,
         "f:1:15: wall_time: 18446744073709551 is too large; " IN_TIME},
        {"{\"disk\": -1}", 0, 0, "f:1:10: disk: -1 is negative; " IN_BYTES},
        {"{\"disk\": 1e9}", 0, 0, "f:1:10: disk: 1e9 is no whole number; " IN_BYTES},
        {"{\"disk\": 18446744073709551615}", 0, 0,
         "f:1:10: disk: 18446744073709551615 is too large; " IN_BYTES},
        {"{\"disk\": null}", 0, 0, "f:1:10: disk: null is no number; " IN_BYTES},
        {"{\"disk\": \"\"}", 0, 0, "f:1:10: disk: \"\" is empty; " IN_BYTES},
        {"{\"disk\": \"1\\u0000\"}", 0, 0, "f:1:10: disk: \"1\\u0000\" holds U+0000; " IN_BYTES},
        {"{\"inodes\": \"12\"}", 0, 0,
         "f:1:12: inodes: \"12\" is a string; give a whole number such as 512"},
        {"{\"memory\": \"64M\"}", LIMIT_MEMORY, 64ULL << 20, NULL},
        {"{\"cpus\": 1.5}", LIMIT_CPUS, 1500, NULL},
        {"{\"cpus\": 2}", LIMIT_CPUS, 2000, NULL},
        {"{\"cpu_time\": 250}", LIMIT_CPU_TIME, 250000, NULL},
        {"{\"cpus\": 0.0}", 0, 0, "f:1:10: cpus: 0.0 is zero; " IN_NUMBER},
        {"{\"cpus\": -1}", 0, 0, "f:1:10: cpus: -1 is negative; " IN_NUMBER},
        {"{\"cpus\": 1e300}", 0, 0, "f:1:10: cpus: 1e300 is too large; " IN_NUMBER},
        {"{\"cpus\": \"2\"}", 0, 0, "f:1:10: cpus: \"2\" is a string; " IN_NUMBER},
        {"{\"pids\": 0}", 0, 0, "f:1:10: pids: 0 is zero; give a whole number such as 512"},
        {"{\"ram\": 1}", 0, 0, "f:1:9: ram: limit \"ram\" is unknown; known are " KNOWN},
        {"[]", 0, 0, "f:1:1: limits are an object such as {\"memory\": \"1G\"}"},
};

START_TEST(test_json) {
        const Option *c = &json_values[_i];
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(freep) char *line = NULL;
        JsonError error;
        Limits limits;

        limits_init(&limits);
        ck_assert_int_eq(json_scan(c->option, strlen(c->option), &doc, &error), 0);
        ck_assert_int_eq(limits_parse_json(&limits, doc, json_doc_root(doc), "f", &diags), 0);
        if (!c->text) {
                ck_assert_uint_eq(diags.n_items, 0);
                ck_assert_uint_eq(limits.max[c->name], c->value);
                ck_assert_uint_eq(limits.given, 1U << c->name);
                return;
        }
        ck_assert_uint_eq(diags.n_items, 1);
        line = diag_format(&diags.items[0]);
        ck_assert_str_eq(line, c->text);
        ck_assert_uint_eq(limits.given, 0);
}
END_TEST

START_TEST(test_fit_disk) {
        _cleanup_(strv_done) StrV notes = STRV_NULL;
        Limits limits;

        limits_init(&limits);
        ck_assert_int_eq(limits_fit_disk(&limits, &notes), 0);
        ck_assert_uint_eq(limits.max[LIMIT_DISK], 1ULL << 30);
        limits.max[LIMIT_MEMORY] = 64ULL << 20;
        ck_assert_int_eq(limits_fit_disk(&limits, &notes), 0);
        ck_assert_uint_eq(limits.max[LIMIT_DISK], 32ULL << 20);
        ck_assert_int_eq(limits_fit_disk(&limits, &notes), 0);
        limits.max[LIMIT_MEMORY] = LIMIT_UNLIMITED;
        limits.max[LIMIT_DISK] = 1ULL << 40;
        ck_assert_int_eq(limits_fit_disk(&limits, &notes), 0);
        ck_assert_uint_eq(limits.max[LIMIT_DISK], 1ULL << 40);
        /* Defaults are lowered in silence, what was asked for is not. */
        ck_assert_uint_eq(notes.n_items, 0);
        limits.max[LIMIT_MEMORY] = 64ULL << 20;
        limits_set(&limits, LIMIT_DISK, 48ULL << 20);
        ck_assert_int_eq(limits_fit_disk(&limits, &notes), 0);
        ck_assert_uint_eq(notes.n_items, 1);
        ck_assert_str_eq(notes.items[0], "limit disk: 48M was asked for, and it is 32M: private "
                                         "files lie in memory, of which they get half");
}
END_TEST

START_TEST(test_enforce) {
        Enforce enforce = ENFORCE_SAMPLED;

        ck_assert_int_eq(enforce_from_string("strict", &enforce), 0);
        ck_assert_int_eq(enforce, ENFORCE_STRICT);
        ck_assert_int_eq(enforce_from_string("sampled", &enforce), 0);
        ck_assert_int_eq(enforce, ENFORCE_SAMPLED);
        ck_assert_int_eq(enforce_from_string("Strict", &enforce), -EINVAL);
        ck_assert_str_eq(enforce_to_string(ENFORCE_STRICT), "strict");
}
END_TEST

START_TEST(test_on_hit) {
        OnHit on_hit = ON_HIT_END;

        ck_assert_int_eq(on_hit_from_string("refuse", &on_hit), 0);
        ck_assert_int_eq(on_hit, ON_HIT_REFUSE);
        ck_assert_int_eq(on_hit_from_string("end", &on_hit), 0);
        ck_assert_int_eq(on_hit, ON_HIT_END);
        ck_assert_int_eq(on_hit_from_string("kill", &on_hit), -EINVAL);
        ck_assert_str_eq(on_hit_to_string(ON_HIT_REFUSE), "refuse");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("limits");
        TCase *tcase = tcase_create("limits");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_defaults);
        tcase_add_test(tcase, test_names);
        tcase_add_test(tcase, test_merge);
        tcase_add_loop_test(tcase, test_options, 0, ELEMENTSOF(options));
        tcase_add_loop_test(tcase, test_json, 0, ELEMENTSOF(json_values));
        tcase_add_test(tcase, test_fit_disk);
        tcase_add_test(tcase, test_on_hit);
        tcase_add_test(tcase, test_enforce);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
