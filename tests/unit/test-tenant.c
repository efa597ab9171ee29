/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/dump.h"
#include "policy/tenant.h"
#include "tests/unit/fixtures.h"

static int parse(const char *name, const char *file, const char *text, size_t size,
                 DiagList *diags) {
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        int r = tenant_parse(name, file, text, size, diags, NULL, &tenant);

        ck_assert_int_ge(r, 0);
        ck_assert((r == 0) == (tenant != NULL));
        return r;
}

START_TEST(test_good) {
        fixtures_check_good("tenant", parse);
}
END_TEST

START_TEST(test_bad) {
        fixtures_check_bad("tenant", parse);
}
END_TEST

static Tenant *parse_text(const char *text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Tenant *tenant = NULL;
        int r;

        r = tenant_parse("x", "x.json", text, strlen(text), &diags, NULL, &tenant);
        if (r != 0) {
                _cleanup_(freep) char *line = diag_format(&diags.items[0]);

                ck_abort_msg("%s", line);
        }
        return tenant;
}

static Tenant *parse_file(const char *name) {
        _cleanup_(freep) char *file = fixtures_source_file(name), *text = NULL;

        text = fixtures_read(file, NULL);
        return parse_text(text);
}

START_TEST(test_values) {
        _cleanup_(tenant_freep) Tenant *t =
                parse_file("tests/unit/policy/good/tenant/contract.json");

        ck_assert_uint_eq(t->uids.n_items, 1);
        ck_assert_uint_eq(t->uids.items[0].id, 1000);
        ck_assert_uint_eq(t->gids.n_items, 0);
        ck_assert_uint_eq(t->scopes.n_items, 5);
        ck_assert_str_eq(t->scopes.items[0], "credential:use");
        ck_assert_uint_eq(t->allow.n_items, 1);
        ck_assert_str_eq(rules_find(&t->deny, "file_delete")->text, "file_delete");
        ck_assert_ptr_null(rules_find(&t->deny, "file_deleted"));
        ck_assert_uint_eq(t->n_arguments, 1);
        ck_assert_str_eq(t->arguments[0].text,
                         "{\"properties\":{\"timeout_ms\":{\"maximum\":60000}}}");
        ck_assert_ptr_eq(tenant_find_arguments(t, "sandbox_exec"), &t->arguments[0]);
        ck_assert_ptr_null(tenant_find_arguments(t, "file_read"));
        ck_assert(!t->workspace_connection);
        ck_assert_str_eq(t->workspaces.items[0], "/home/me/src");
        ck_assert_uint_eq(t->ceilings.limits.max[LIMIT_MEMORY], 4ULL << 30);
        ck_assert_uint_eq(t->ceilings.limits.max[LIMIT_PIDS], 2048);
        ck_assert_uint_eq(t->ceilings.limits.max[LIMIT_CPUS], LIMIT_UNLIMITED);
        ck_assert_uint_eq(t->sandboxes_max, 16);
        ck_assert_int_eq(t->ceilings.on_excess, CEILINGS_REFUSE);
        ck_assert_uint_eq(t->scopes_line, 3);
        ck_assert_uint_eq(t->tools_line, 4);
        ck_assert_uint_eq(t->workspaces_line, 5);
        ck_assert_uint_eq(t->templates_line, 6);
}
END_TEST

START_TEST(test_owner) {
        _cleanup_(tenant_freep) Tenant *user = NULL, *root = NULL;
        char exec_word[] = "exec", egress_word[] = "net:egress";
        char *exec[] = {exec_word, NULL}, *egress[] = {exec_word, egress_word, NULL};

        ck_assert_int_eq(tenant_new_owner(1000, &user), 0);
        ck_assert_str_eq(user->name, "owner");
        ck_assert_str_eq(user->file, TENANT_BUILT_IN);
        ck_assert_uint_eq(user->uids.n_items, 2);
        ck_assert_uint_eq(user->uids.items[1].id, 0);
        ck_assert(user->workspace_connection);
        ck_assert_uint_eq(user->workspaces.n_items, 0);
        ck_assert_ptr_null(tenant_missing_scope(user, &(StrV){exec, 1}));
        ck_assert_ptr_null(tenant_missing_scope(user, &(StrV){egress, 2}));
        ck_assert(user->egress_templates);
        ck_assert_uint_eq(user->egress.n_items, 0);

        ck_assert_int_eq(tenant_new_owner(0, &root), 0);
        ck_assert_uint_eq(root->uids.n_items, 1);
}
END_TEST

START_TEST(test_scopes) {
        static const char *const good[] = {"exec",           "fs:read",         "fs:write",
                                           "credential:use", "server:a-very-1", "net:egress"};
        static const char *const bad[] = {"",     "Exec",     "exec ",     "*",
                                          "fs:*", "server:",  "server:A",  "server:*",
                                          "fs",   "fs:read,", "server:a/b"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                ck_assert_msg(scope_is_valid(good[i]), "%s", good[i]);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ck_assert_msg(!scope_is_valid(bad[i]), "%s", bad[i]);
}
END_TEST

/* Which rule covers a name: the exact one, else the longest pattern. */
START_TEST(test_rules) {
        static const struct {
                const char *name, *rule;
        } cases[] = {
                {"file_read", "file_read"},
                {"file_write", "file_*"},
                {"file_", "file_*"},
                {"file", "f*"},
                {"fork", "f*"},
                {"exec", "*"},
                {"file_ready", "file_re*"},
                {"", "*"},
                {"file_re", "file_re*"},
        };
        static const char *const written[] = {"*", "file_*", "file_read", "f*", "file_re*"};
        Rules rules = {};

        ck_assert_ptr_null(rules_find(&rules, "x"));
        for (size_t i = 0; i < ELEMENTSOF(written); i++)
                ck_assert_int_eq(rules_add(&rules, written[i], (uint32_t) i + 1), 0);
        rules_sort(&rules);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ck_assert_str_eq(rules_find(&rules, cases[i].name)->text, cases[i].rule);
        for (size_t i = 0; i < ELEMENTSOF(written); i++) {
                ck_assert_str_eq(rules_at(&rules, i)->text, written[i]);
                ck_assert_uint_eq(rules_at(&rules, i)->line, i + 1);
        }
        ck_assert_ptr_null(rules_at(&rules, ELEMENTSOF(written)));
        ck_assert_ptr_null(rules_cover(&rules, rules_find(&rules, "exec")));
        ck_assert_ptr_nonnull(rules_cover(&rules, rules_find(&rules, "file_read")));
        rules_done(&rules);
}
END_TEST

/* What is allowed but can hardly be meant. */
START_TEST(test_warnings) {
        static const char text[] =
                "{\"match\": {\"uid\": [1]},\n"
                "\"tools\": {\"allow\": [\"sandbox_exec\", \"file_*\", \"file_read\", \"a_x\"],\n"
                " \"deny\": [\"a_*\", \"a_x\"]},\n"
                "\"templates\": [\"*\", \"host\"],\n"
                "\"arguments\": {\"sandbox_exec\": {}, \"a_x\": {}, \"b\": {}}}";
        static const char expected[] =
                "x.json:2:47: tools.allow[2]: \"file_read\" adds nothing: tools.allow[1], "
                "\"file_*\", covers it\n"
                "x.json:3:18: tools.deny[1]: \"a_x\" adds nothing: tools.deny[0], \"a_*\", covers "
                "it\n"
                "x.json:4:20: templates[1]: \"host\" adds nothing: templates[0], \"*\", covers it\n"
                "x.json:2:60: tools.allow[3]: \"a_x\" allows nothing: tools.deny[1], \"a_x\", "
                "covers it\n"
                "x.json:5:42: arguments.a_x: nobody asks for these: this tenant may not call the "
                "tool\n"
                "x.json:5:51: arguments.b: nobody asks for these: this tenant may not call the "
                "tool\n";
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL, warnings = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf got = STRBUF_NULL;
        _cleanup_(tenant_freep) Tenant *t = NULL;

        ck_assert_int_eq(tenant_parse("x", "x.json", text, strlen(text), &diags, &warnings, &t), 0);
        for (size_t i = 0; i < warnings.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&warnings.items[i]);

                ck_assert_int_eq(strbuf_appendf(&got, "%s\n", line), 0);
        }
        ck_assert_str_eq(got.data, expected);
}
END_TEST

/* What is dumped makes the same tenant. */
START_TEST(test_dump) {
        static const char *const files[] = {"contract", "edge", "nothing"};

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_(tenant_freep) Tenant *first = NULL, *second = NULL;
                _cleanup_(strbuf_done) StrBuf a = STRBUF_NULL, b = STRBUF_NULL;
                _cleanup_(freep) char *name = NULL;

                ck_assert_int_gt(asprintf(&name, "tests/unit/policy/good/tenant/%s.json", files[i]),
                                 0);
                first = parse_file(name);
                ck_assert_int_eq(policy_dump_tenant(first, &a), 0);
                second = parse_text(a.data);
                ck_assert_int_eq(policy_dump_tenant(second, &b), 0);
                ck_assert_str_eq(a.data, b.data);
                ck_assert(memcmp(&first->ceilings, &second->ceilings, sizeof(Ceilings)) == 0);
                ck_assert_uint_eq(first->sandboxes_max, second->sandboxes_max);
                ck_assert(first->workspace_connection == second->workspace_connection);
                ck_assert_uint_eq(first->scopes.n_items, second->scopes.n_items);
                ck_assert_uint_eq(first->deny.n_items, second->deny.n_items);
        }
}
END_TEST

START_TEST(test_schema) {
        _cleanup_(strv_done) StrV keys = STRV_NULL;

        ck_assert_int_eq(tenant_key_names(&keys), 0);
        fixtures_check_schema("policies/schemas/tenant.schema.json", &keys);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("tenant");
        TCase *tcase = tcase_create("tenant");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_good);
        tcase_add_test(tcase, test_bad);
        tcase_add_test(tcase, test_values);
        tcase_add_test(tcase, test_owner);
        tcase_add_test(tcase, test_scopes);
        tcase_add_test(tcase, test_rules);
        tcase_add_test(tcase, test_warnings);
        tcase_add_test(tcase, test_dump);
        tcase_add_test(tcase, test_schema);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
