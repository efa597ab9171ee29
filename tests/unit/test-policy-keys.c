/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every key of every file, each set to what is not its default: it must change the policy and stand
 * in its dump, and what is dumped must be the same again. Of agentcrated.json is also known which
 * keys are taken at the start only. A key that nobody has put into these tables fails.
 */

#include <check.h>
#include <jansson.h>
#include <string.h>

#include "basic/error.h"
#include "broker/reload.h"
#include "policy/dump.h"

typedef struct Row {
        const char *key;
        const char *value; /* JSON */
        enum {
                RELOADED,
                RESTARTED,
                IGNORED
        } effect;
} Row;

/* Those of limits, which are ceilings elsewhere. */
#define LIMIT_ROWS(outer)                                                                          \
        {outer ".memory", "\"65M\"", RELOADED}, {outer ".pids", "77", RELOADED},                   \
                {outer ".cpus", "1.5", RELOADED}, {outer ".cpu_time", "\"77s\"", RELOADED},        \
                {outer ".wall_time", "\"77s\"", RELOADED}, {outer ".disk", "\"77M\"", RELOADED},   \
                {outer ".inodes", "7777", RELOADED}, {outer ".open_files", "77", RELOADED},        \
                {outer ".file_size", "\"77M\"", RELOADED}, {outer ".output", "\"77M\"", RELOADED}, \
                {outer ".io_read_bps", "\"77M\"", RELOADED}, {                                     \
                outer ".io_write_bps", "\"77M\"", RELOADED                                         \
        }

static const Row config_rows[] = {
        {"listen.http", "null", IGNORED},
        {"listen.metrics", "\"127.0.0.1:7777\"", RESTARTED},
        {"enforce", "\"strict\"", RESTARTED},
        LIMIT_ROWS("instance"),
        {"instance.crates", "7", RELOADED},
        {"instance.on_excess", "\"clamp\"", RELOADED},
        {"egress.deny", "[\"192.0.2.0/24\"]", RELOADED},
        {"egress.resolver", "[\"192.0.2.1:53\"]", RELOADED},
        {"egress.connections", "7", RELOADED},
        {"egress.idle", "\"7s\"", RELOADED},
        {"egress.bytes", "7777", RELOADED},
        {"subuid_range", "[1879048192, 777]", RESTARTED},
        {"audit.path", "\"/x/audit.jsonl\"", RESTARTED},
        {"audit.on_failure", "\"continue\"", RESTARTED},
        {"audit.payloads", "true", RESTARTED},
        {"telemetry.otlp", "\"http://127.0.0.1:4318\"", RESTARTED},
        {"message_max", "77777", RELOADED},
        {"idle_exit", "\"7s\"", RESTARTED},
};

static const Row template_rows[] = {
        {"description", "\"seven\"", RELOADED},
        {"root", "\"/srv/other\"", RELOADED},
        {"ro", "[\"/opt\"]", RELOADED},
        {"rw", "[\"/srv/x\"]", RELOADED},
        {"hide", "[\"/usr/x\"]", RELOADED},
        {"tmpfs", "[\"/scratch\"]", RELOADED},
        {"etc", "\"root\"", RELOADED},
        {"env", "{\"A\": \"b\"}", RELOADED},
        {"pass_env", "[\"TERM\"]", RELOADED},
        {"seccomp", "\"strict\"", RELOADED},
        {"limits", "{\"memory\": \"65M\"}", RELOADED},
        {"on_hit", "\"refuse\"", RELOADED},
        {"egress", "[{\"name\": \"example.org\", \"port\": 443}]", RELOADED},
        {"operations", "[\"a.b\"]", RELOADED},
        {"pool.min", "3", RELOADED},
        {"pool.max", "3", RELOADED},
};

static const Row tenant_rows[] = {
        {"description", "\"seven\"", RELOADED},
        {"match.uid", "[7]", RELOADED},
        {"match.gid", "[7]", RELOADED},
        {"scopes", "[\"exec\"]", RELOADED},
        {"tools.allow", "[\"*\"]", RELOADED},
        {"tools.deny", "[\"x\"]", RELOADED},
        {"arguments", "{\"sandbox_exec\": {\"properties\": {\"timeout_ms\": {\"maximum\": 7}}}}",
         RELOADED},
        {"workspaces", "[\"/srv\"]", RELOADED},
        {"templates", "[\"host\"]", RELOADED},
        LIMIT_ROWS("ceilings"),
        {"ceilings.sandboxes", "7", RELOADED},
        {"ceilings.on_excess", "\"clamp\"", RELOADED},
        {"egress", "[{\"name\": \"example.org\", \"port\": 443}]", RELOADED},
        {"operations", "[\"a.b\"]", RELOADED},
        {"quotas", "{}", IGNORED},
};

/* --- files --- */

typedef struct Kind {
        const char *base; /* what such a file must have */
        const Row *rows;
        size_t n_rows;
        int (*key_names)(StrV *names);
        char *(*dump)(const char *text); /* of that file */
} Kind;

static void show(const char *text, const DiagList *diags) {
        for (size_t i = 0; i < diags->n_items; i++)
                ck_abort_msg("%s: %s: %s", text, diags->items[i].path ?: "", diags->items[i].text);
}

static void read_config(const char *text, Config *ret_config) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        int r;

        config_init(ret_config);
        r = config_parse("agentcrated.json", text, strlen(text), &diags, ret_config);
        show(text, &diags);
        ck_assert_int_eq(r, 0);
}

static char *dump_config(const char *text) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(config_done) Config config = {};

        read_config(text, &config);
        ck_assert_int_eq(policy_dump_config(&config, &out), 0);
        return strbuf_steal(&out);
}

static char *dump_template(const char *text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(template_freep) Template *template = NULL;
        int r;

        r = template_parse("x", "x.json", text, strlen(text), &diags, &template);
        show(text, &diags);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(policy_dump_template(template, &out), 0);
        return strbuf_steal(&out);
}

static char *dump_tenant(const char *text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        int r;

        r = tenant_parse("x", "x.json", text, strlen(text), &diags, NULL, &tenant);
        show(text, &diags);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(policy_dump_tenant(tenant, &out), 0);
        return strbuf_steal(&out);
}

static const Kind kinds[] = {
        {"{}", config_rows, ELEMENTSOF(config_rows), config_key_names, dump_config},
        {"{\"root\": \"/srv/root\"}", template_rows, ELEMENTSOF(template_rows), template_key_names,
         dump_template},
        {"{\"match\": {\"uid\": [1]}}", tenant_rows, ELEMENTSOF(tenant_rows), tenant_key_names,
         dump_tenant},
};

/* The object that holds the key of a dotted path, made if it is not there; *ret_name is the last
 * part. */
static json_t *holder(json_t *file, const char *key, const char **ret_name) {
        const char *dot = strchr(key, '.');
        _cleanup_(freep) char *outer = NULL;
        json_t *inner;

        *ret_name = dot ? dot + 1 : key;
        if (!dot)
                return file;
        outer = strndup(key, (size_t) (dot - key));
        inner = json_object_get(file, outer);
        if (!inner) {
                inner = json_object();
                (void) json_object_set_new(file, outer, inner);
        }
        return inner;
}

static char *with(const char *base, const Row *row) {
        json_t *file = json_loads(base, 0, NULL), *object;
        const char *name;
        char *text;

        ck_assert_ptr_nonnull(file);
        object = holder(file, row->key, &name);
        ck_assert_int_eq(
                json_object_set_new(object, name, json_loads(row->value, JSON_DECODE_ANY, NULL)),
                0);
        text = json_dumps(file, 0);
        json_decref(file);
        return text;
}

static bool stands_in(const char *dump, const char *key) {
        json_t *file = json_loads(dump, 0, NULL), *object;
        const char *name;
        bool found;

        ck_assert_ptr_nonnull(file);
        object = holder(file, key, &name);
        found = json_object_get(object, name) != NULL;
        json_decref(file);
        return found;
}

/* --- tests --- */

START_TEST(test_each_key_is_dumped) {
        const Kind *kind = &kinds[_i];
        _cleanup_(freep) char *plain = kind->dump(kind->base);

        for (size_t i = 0; i < kind->n_rows; i++) {
                const Row *row = &kind->rows[i];
                _cleanup_(freep) char *text = with(kind->base, row), *dump = kind->dump(text);
                _cleanup_(freep) char *again = kind->dump(dump);

                ck_assert_str_eq(dump, again);
                ck_assert_msg((strcmp(dump, plain) == 0) == (row->effect == IGNORED), "%s: %s",
                              row->key, dump);
                ck_assert_msg(row->effect == IGNORED || stands_in(dump, row->key), "%s: %s",
                              row->key, dump);
        }
}
END_TEST

/* What holds others is known by them. */
static bool is_known(const Kind *kind, const char *name) {
        for (size_t i = 0; i < kind->n_rows; i++) {
                const char *rest = string_after(kind->rows[i].key, name);

                if (rest && (*rest == 0 || *rest == '.'))
                        return true;
        }
        return false;
}

START_TEST(test_no_key_is_forgotten) {
        _cleanup_(strv_done) StrV names = STRV_NULL;

        ck_assert_int_eq(kinds[_i].key_names(&names), 0);
        ck_assert_uint_gt(names.n_items, 10);
        for (size_t i = 0; i < names.n_items; i++)
                ck_assert_msg(is_known(&kinds[_i], names.items[i]),
                              "put %s into the table of this test", names.items[i]);
}
END_TEST

START_TEST(test_what_needs_a_restart) {
        _cleanup_(config_done) Config plain = {};

        read_config("{}", &plain);
        ck_assert(!reload_needs_restart(&plain, &plain));
        for (size_t i = 0; i < ELEMENTSOF(config_rows); i++) {
                const Row *row = &config_rows[i];
                _cleanup_(freep) char *text = with("{}", row);
                _cleanup_(config_done) Config config = {};

                read_config(text, &config);
                ck_assert_msg(reload_needs_restart(&plain, &config) == (row->effect == RESTARTED),
                              "%s", row->key);
        }
}
END_TEST

int main(void) {
        Suite *suite = suite_create("policy-keys");
        TCase *tcase = tcase_create("policy-keys");
        SRunner *runner;
        int n_failed;

        tcase_add_loop_test(tcase, test_each_key_is_dumped, 0, ELEMENTSOF(kinds));
        tcase_add_loop_test(tcase, test_no_key_is_forgotten, 0, ELEMENTSOF(kinds));
        tcase_add_test(tcase, test_what_needs_a_restart);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
