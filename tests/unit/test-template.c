/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/template.h"
#include "tests/unit/fixtures.h"

static int parse(const char *name, const char *file, const char *text, size_t size,
                 DiagList *diags) {
        _cleanup_(template_freep) Template *template = NULL;
        int r = template_parse(name, file, text, size, diags, &template);

        ck_assert_int_ge(r, 0);
        ck_assert((r == 0) == (template != NULL));
        return r;
}

START_TEST(test_good) {
        fixtures_check_good("template", parse);
}
END_TEST

START_TEST(test_bad) {
        fixtures_check_bad("template", parse);
}
END_TEST

static Template *parse_file(const char *name) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(freep) char *file = fixtures_source_file(name), *text = NULL;
        Template *template = NULL;
        size_t size;

        text = fixtures_read(file, &size);
        ck_assert_int_eq(template_parse("x", file, text, size, &diags, &template), 0);
        ck_assert_str_eq(template->name, "x");
        ck_assert_str_eq(template->file, file);
        return template;
}

START_TEST(test_defaults) {
        _cleanup_(template_freep) Template *t =
                parse_file("tests/unit/policy/good/template/empty.json");
        Limits limits;

        limits_init(&limits);
        ck_assert_str_eq(t->description, "");
        ck_assert_ptr_null(t->root);
        ck_assert_uint_eq(t->n_ro + t->n_rw + t->hide.n_items + t->tmpfs.n_items, 0);
        ck_assert(t->etc_minimal);
        ck_assert_uint_eq(t->env.n_items + t->pass_env.n_items, 0);
        ck_assert_str_eq(t->seccomp, "default");
        ck_assert(memcmp(&t->limits, &limits, sizeof(limits)) == 0);
        ck_assert_int_eq(t->on_hit, ON_HIT_END);
}
END_TEST

START_TEST(test_full) {
        _cleanup_(template_freep) Template *t =
                parse_file("tests/unit/policy/good/template/full.json");

        ck_assert_str_eq(t->description, "everything that a template can say");
        ck_assert_str_eq(t->root, "/srv/images/python");
        ck_assert_uint_eq(t->n_ro, 2);
        ck_assert_str_eq(t->ro[0].from, "/usr");
        ck_assert_str_eq(t->ro[0].to, "/usr");
        ck_assert_str_eq(t->ro[1].from, "/opt/tool-1.2");
        ck_assert_str_eq(t->ro[1].to, "/opt/tool");
        ck_assert_uint_eq(t->n_rw, 1);
        ck_assert_str_eq(t->rw[0].from, "/var/cache/wheels");
        ck_assert_str_eq(t->rw[0].to, "/var/cache/pip");
        ck_assert_uint_eq(t->hide.n_items, 1);
        ck_assert_str_eq(t->hide.items[0], "/usr/share/doc");
        ck_assert_uint_eq(t->tmpfs.n_items, 1);
        ck_assert_str_eq(t->tmpfs.items[0], "/scratch");
        ck_assert(!t->etc_minimal);
        ck_assert_uint_eq(t->env.n_items, 3);
        ck_assert_str_eq(strv_env_get(&t->env, "LANG"), "C.UTF-8");
        ck_assert_str_eq(strv_env_get(&t->env, "_EMPTY"), "");
        ck_assert_str_eq(strv_env_get(&t->env, "GREETING"), "gr\xc3\xbc\xc3\x9f dich = \"x\"");
        ck_assert_uint_eq(t->pass_env.n_items, 2);
        ck_assert_str_eq(t->pass_env.items[1], "TZ");
        ck_assert_str_eq(t->seccomp, "strict");
        ck_assert_uint_eq(t->limits.max[LIMIT_WALL_TIME], 90000000);
        ck_assert_uint_eq(t->limits.max[LIMIT_DISK], 256ULL << 20);
        ck_assert_uint_eq(t->limits.max[LIMIT_FILE_SIZE], 1048576);
        ck_assert_int_eq(t->on_hit, ON_HIT_REFUSE);
        ck_assert_uint_eq(t->egress.n_items, 4);
        for (size_t i = 0; i < t->egress.n_items; i++) {
                static const char *const texts[] = {
                        "pypi.org:443/tls", "*.files.example.org:80/tcp",
                        "registry:5000/http@10.1.2.3/32,fd12::/16,127.0.0.1/32",
                        "text.example.org:8443/tls@10.2.0.0/16"};
                _cleanup_(freep) char *text = destination_format(&t->egress.items[i]);

                ck_assert_str_eq(text, texts[i]);
                ck_assert_uint_ge(t->egress.items[i].line, 15);
        }
        ck_assert_uint_eq(t->pool_min, 2);
        ck_assert_uint_eq(t->pool_max, 3);
}
END_TEST

/* agentcrate-run has no wall_time and no output limit unless asked: the shipped template must not
 * ask. */
START_TEST(test_host) {
        _cleanup_(template_freep) Template *t = parse_file("policies/templates.d/host.json");

        ck_assert_ptr_null(t->root);
        ck_assert_str_eq(t->ro[0].to, "/usr");
        ck_assert_uint_eq(t->n_rw, 0);
        ck_assert(t->etc_minimal);
        ck_assert_str_eq(t->seccomp, "default");
        ck_assert_uint_eq(t->limits.given & (1U << LIMIT_WALL_TIME | 1U << LIMIT_OUTPUT), 0);
}
END_TEST

START_TEST(test_names) {
        ck_assert(template_name_is_valid("a"));
        ck_assert(template_name_is_valid("python-3"));
        ck_assert(template_name_is_valid("abcdefghijklmnopqrstuvwxyz012345"));
        ck_assert(!template_name_is_valid("abcdefghijklmnopqrstuvwxyz0123456"));
        ck_assert(!template_name_is_valid(""));
        ck_assert(!template_name_is_valid("Host"));
        ck_assert(!template_name_is_valid("../host"));
        ck_assert(!template_name_is_valid("a.b"));
        ck_assert(!template_name_is_valid("a\n"));
}
END_TEST

START_TEST(test_schema) {
        _cleanup_(strv_done) StrV keys = STRV_NULL;

        ck_assert_int_eq(template_key_names(&keys), 0);
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                ck_assert_int_eq(strv_appendf(&keys, "limits.%s", limit_to_string(name)), 0);
        fixtures_check_schema("policies/schemas/template.schema.json", &keys);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("template");
        TCase *tcase = tcase_create("template");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_good);
        tcase_add_test(tcase, test_bad);
        tcase_add_test(tcase, test_defaults);
        tcase_add_test(tcase, test_full);
        tcase_add_test(tcase, test_host);
        tcase_add_test(tcase, test_names);
        tcase_add_test(tcase, test_schema);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
