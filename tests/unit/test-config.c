/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/config.h"
#include "policy/listen-address.h"
#include "tests/unit/fixtures.h"

static int parse(_unused_ const char *name, const char *file, const char *text, size_t size,
                 DiagList *diags) {
        _cleanup_(config_done) Config config = {};
        int r;

        config_init(&config);
        r = config_parse(file, text, size, diags, &config);
        ck_assert_int_ge(r, 0);
        ck_assert((r == 0) == (config.file != NULL));
        return r;
}

static const struct {
        const char *text;
        bool good;
} addresses[] = {
        {"127.0.0.1:1", true},
        {"127.0.0.1:65535", true},
        {"[::1]:9090", true},
        {"127.0.0.1:0", false},
        {"127.0.0.1:65536", false},
        {"127.0.0.1:09090", false},
        {"127.0.0.1:+1", false},
        {"127.0.0.1: 1", false},
        {"127.0.0.1:1 ", false},
        {"127.0.0.1:99999999999999999999", false},
        {"127.0.0.1:", false},
        {"127.0.0.1", false},
        {"127.0.0.2:9090", false},
        {"0.0.0.0:9090", false},
        {"[::]:9090", false},
        {"::1:9090", false},
        {"localhost:9090", false},
        {":9090", false},
        {"9090", false},
        {"", false},
};

/* What is taken is written as it was. */
START_TEST(test_addresses) {
        ListenAddress address = {};
        char text[LISTEN_ADDRESS_SIZE];

        if (!addresses[_i].good) {
                ck_assert_int_eq(listen_address_parse(addresses[_i].text, &address),
                                 LISTEN_ADDRESS_E_INVALID);
                return;
        }
        ck_assert_int_eq(listen_address_parse(addresses[_i].text, &address), 0);
        listen_address_format(&address, text);
        ck_assert_str_eq(text, addresses[_i].text);
}
END_TEST

START_TEST(test_good) {
        fixtures_check_good("config", parse);
}
END_TEST

START_TEST(test_bad) {
        fixtures_check_bad("config", parse);
}
END_TEST

START_TEST(test_values) {
        _cleanup_(freep) char *file =
                fixtures_source_file("tests/unit/policy/good/config/contract.json");
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(config_done) Config config = {};
        _cleanup_(freep) char *text = NULL;
        size_t size;

        config_init(&config);
        ck_assert_ptr_null(config.file);
        ck_assert_uint_eq(config.message_max, 16ULL << 20);
        ck_assert_uint_eq(config.idle_usec, 60000000);
        ck_assert_uint_eq(config.crates_max, 64);
        ck_assert_uint_eq(config.subuid_base, 1879048192);
        ck_assert_uint_eq(config.subuid_count, 65536);
        ck_assert_ptr_null(config.audit_path);
        ck_assert(!config.audit_fail_open && !config.audit_payloads);

        text = fixtures_read(file, &size);
        ck_assert_int_eq(config_parse(file, text, size, &diags, &config), 0);
        ck_assert_str_eq(config.file, file);
        ck_assert_uint_eq(config.message_max, 1ULL << 20);
        ck_assert_uint_eq(config.idle_usec, 5000000);
        ck_assert_uint_eq(config.crates_max, 8);
        ck_assert_uint_eq(config.subuid_base, 200000);
        ck_assert_uint_eq(config.subuid_count, 1000);
}
END_TEST

START_TEST(test_ceilings) {
        static const char text[] = "{\"enforce\": \"strict\", \"instance\": {\"memory\": \"1G\", "
                                   "\"cpus\": 1.5, \"pids\": null, \"wall_time\": \"5m\", "
                                   "\"on_excess\": \"clamp\"}}";
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(config_done) Config config = {};

        config_init(&config);
        ck_assert(!config.enforce_given);
        ck_assert_int_eq(config.instance.on_excess, CEILINGS_REFUSE);
        ck_assert_uint_eq(config.instance.limits.max[LIMIT_MEMORY], LIMIT_UNLIMITED);

        ck_assert_int_eq(config_parse("f", text, sizeof(text) - 1, &diags, &config), 0);
        ck_assert(config.enforce_given);
        ck_assert_int_eq(config.enforce, ENFORCE_STRICT);
        ck_assert_int_eq(config.instance.on_excess, CEILINGS_CLAMP);
        ck_assert_uint_eq(config.instance.limits.max[LIMIT_MEMORY], 1ULL << 30);
        ck_assert_uint_eq(config.instance.limits.max[LIMIT_CPUS], 1500);
        ck_assert_uint_eq(config.instance.limits.max[LIMIT_PIDS], LIMIT_UNLIMITED);
        ck_assert_uint_eq(config.instance.limits.max[LIMIT_WALL_TIME], 300000000);
}
END_TEST

/* What a call asks for and a default, against one ceiling. */
START_TEST(test_ceilings_apply) {
        _cleanup_(strv_done) StrV notes = STRV_NULL;
        _cleanup_(freep) char *text = NULL;
        Limits limits, asked = {};
        Ceilings ceilings;

        limits_init(&limits);
        ceilings_init(&ceilings);
        ck_assert_int_eq(ceilings_apply(&ceilings, "instance", &asked, &limits, &notes, &text), 0);
        ck_assert_uint_eq(limits.max[LIMIT_MEMORY], 2ULL << 30);

        ceilings.limits.max[LIMIT_MEMORY] = 1ULL << 30;
        ceilings.limits.max[LIMIT_CPUS] = 2000;
        ck_assert_int_eq(ceilings_apply(&ceilings, "instance", &asked, &limits, &notes, &text), 0);
        ck_assert_uint_eq(limits.max[LIMIT_MEMORY], 1ULL << 30);
        ck_assert_uint_eq(limits.max[LIMIT_CPUS], 2000);
        ck_assert_uint_eq(notes.n_items, 0);

        limits_set(&asked, LIMIT_MEMORY, 3ULL << 30);
        limits_merge(&limits, &asked);
        ck_assert_int_eq(ceilings_apply(&ceilings, "instance", &asked, &limits, &notes, &text),
                         CEILINGS_E_EXCESS);
        ck_assert_str_eq(text, "limit memory: 3G was asked for, which is above the ceiling "
                               "instance.memory of 1G; ask for no more than that");

        ceilings.on_excess = CEILINGS_CLAMP;
        ck_assert_int_eq(ceilings_apply(&ceilings, "instance", &asked, &limits, &notes, &text), 0);
        ck_assert_uint_eq(limits.max[LIMIT_MEMORY], 1ULL << 30);
        ck_assert_uint_eq(notes.n_items, 1);
        ck_assert_str_eq(notes.items[0], "limit memory: 3G was asked for, the ceiling "
                                         "instance.memory allows 1G");
}
END_TEST

START_TEST(test_audit) {
        static const char text[] = "{\"audit\": {\"path\": \"/srv/a.jsonl\", \"on_failure\": "
                                   "\"continue\", \"payloads\": true}}";
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(config_done) Config config = {};

        config_init(&config);
        ck_assert_int_eq(config_parse("f", text, sizeof(text) - 1, &diags, &config), 0);
        ck_assert_str_eq(config.audit_path, "/srv/a.jsonl");
        ck_assert(config.audit_fail_open && config.audit_payloads);
}
END_TEST

START_TEST(test_schema) {
        _cleanup_(strv_done) StrV keys = STRV_NULL;

        ck_assert_int_eq(config_key_names(&keys), 0);
        fixtures_check_schema("policies/schemas/agentcrated.schema.json", &keys);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("config");
        TCase *tcase = tcase_create("config");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_good);
        tcase_add_loop_test(tcase, test_addresses, 0, ELEMENTSOF(addresses));
        tcase_add_test(tcase, test_bad);
        tcase_add_test(tcase, test_values);
        tcase_add_test(tcase, test_ceilings);
        tcase_add_test(tcase, test_ceilings_apply);
        tcase_add_test(tcase, test_audit);
        tcase_add_test(tcase, test_schema);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
