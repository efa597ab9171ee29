/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/credential.h"
#include "policy/operation-read.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/suite.h"

static int parse(const char *name, const char *file, const char *text, size_t size,
                 DiagList *diags) {
        _cleanup_(credential_freep) Credential *credential = NULL;
        int r = credential_parse(name, file, text, size, diags, &credential);

        ck_assert_int_ge(r, 0);
        ck_assert((r == 0) == (credential != NULL));
        return r;
}

START_TEST(test_good) {
        fixtures_check_good("credential", parse);
}
END_TEST

START_TEST(test_bad) {
        fixtures_check_bad("credential", parse);
}
END_TEST

static Credential *parse_file(const char *name) {
        _cleanup_(freep) char *file = fixtures_source_file(name), *text = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Credential *credential = NULL;
        size_t size;

        text = fixtures_read(file, &size);
        ck_assert_int_eq(credential_parse("x", "x.json", text, size, &diags, &credential), 0);
        return credential;
}

START_TEST(test_values) {
        _cleanup_(credential_freep) Credential *c =
                parse_file("tests/unit/policy/good/credential/contract.json");
        const Operation *o = operation_menu_find(&c->menu, "list_issues");

        ck_assert_str_eq(c->upstream.host, "api.github.com");
        ck_assert_uint_eq(c->upstream.port, 443);
        ck_assert_str_eq(c->upstream.path, "");
        ck_assert_str_eq(c->secret, "github-token");
        ck_assert_int_eq(c->attach.kind, ATTACH_BEARER);
        ck_assert_str_eq(strv_env_get(&c->env, "GITHUB_API_URL"), "http://github.crate.internal");
        ck_assert_ptr_nonnull(o);
        ck_assert_uint_eq(o->n_segments, 4);
        ck_assert_str_eq(o->segments[0].literal, "repos");
        ck_assert_str_eq(o->segments[2].parameter.name, "repo");
        ck_assert_uint_eq(o->n_query, 2);
        ck_assert_int_eq(o->query[0].maximum, 100);
        ck_assert_int_eq(o->query[1].maximum, INT64_MAX);
        ck_assert_uint_eq(o->response_max, 1U << 20);
        ck_assert_uint_eq(o->response_usec, 30000000);
        ck_assert_uint_eq(o->per_minute, 60);
        ck_assert_uint_eq(o->per_job, 0);
        ck_assert(o->expose);
        ck_assert_int_eq(o->body, OPERATION_BODY_NONE);
        ck_assert_ptr_null(operation_menu_find(&c->menu, "list"));
}
END_TEST

START_TEST(test_edge) {
        _cleanup_(credential_freep) Credential *c =
                parse_file("tests/unit/policy/good/credential/edge.json");
        const Operation *o = operation_menu_find(&c->menu, "post");

        ck_assert_str_eq(c->upstream.host, "api.example.com");
        ck_assert_uint_eq(c->upstream.port, 8443);
        ck_assert_str_eq(c->upstream.path, "/base/v1");
        ck_assert_str_eq(c->ca, "/etc/ssl/own.pem");
        ck_assert_uint_eq(c->pins.n_items, 1);
        ck_assert_uint_eq(c->addresses.n_items, 6);
        ck_assert_int_eq(c->attach.over, ATTACH_OVER_REQUEST);
        ck_assert_str_eq(c->attach.name, "X-Signature");
        ck_assert_str_eq(c->attach.prefix, "sha256=");
        ck_assert_uint_eq(o->body_max, 16U << 20);
        ck_assert_uint_eq(o->response_max, 1);
        ck_assert_uint_eq(o->response_usec, 3600000000ULL);
}
END_TEST

/* Where a secret could be said in clear text, to an address, or to nobody that can be told. */
START_TEST(test_upstreams) {
        static const char *const bad[] = {
                "http://a.example",
                "ftp://a.example",
                "a.example",
                "https://",
                "https://10.0.0.1",
                "https://[::1]",
                "https://u@a.example",
                "https://a.example:0",
                "https://a.example:65536",
                "https://a.example:",
                "https://a..example",
                "https://-a.example",
                "https://a.example.",
                "https://a.example/x?y",
                "https://a.example/x//y",
                "https://a.example/../",
                "https://*.example",
                "https://ex\xd0\xb0mple.com",
                "https://a_b.example",
                "https://a.example#x",
                "https://a.example\\@b",
                "HTTPS://a.example",
                "https://a.example/x\r\n",
                "https://a.example:1:2",
        };
        static const char *const good[] = {
                "https://a",          "https://a.example:1",           "https://1password.example",
                "https://a.example/", "https://xn--e1aybc.example/v1",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                CredentialUpstream upstream = {};
                const char *text = NULL;

                ck_assert_msg(credential_upstream_parse(bad[i], &upstream, &text) ==
                                      CREDENTIAL_E_INVALID,
                              "%s", bad[i]);
                ck_assert_ptr_nonnull(text);
        }
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                _cleanup_(credential_upstream_done) CredentialUpstream upstream = {};
                const char *text = NULL;

                ck_assert_msg(credential_upstream_parse(good[i], &upstream, &text) == 0, "%s: %s",
                              good[i], text);
        }
}
END_TEST

START_TEST(test_rules) {
        static const char *const rules[] = {"*", "github.*", "git-hub.list_issues", "a1.b"};
        static const char *const bad[] = {"",           "github",     "github.",  "github.l*",
                                          "*.list",     "Git.a",      "-a.b",     "a-.b",
                                          "github.a.b", "github.a-b", "github.A", ".*"};

        for (size_t i = 0; i < ELEMENTSOF(rules); i++)
                ck_assert_msg(credential_rule_is_valid(rules[i]), "%s", rules[i]);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ck_assert_msg(!credential_rule_is_valid(bad[i]), "%s", bad[i]);
        ck_assert(credential_operation_is_valid("github.list_issues"));
        ck_assert(!credential_operation_is_valid("github.*"));
        ck_assert(!credential_operation_is_valid("*"));
}
END_TEST

START_TEST(test_schema) {
        _cleanup_(strv_done) StrV keys = STRV_NULL, operation_keys = STRV_NULL;

        ck_assert_int_eq(credential_key_names(&keys), 0);
        fixtures_check_schema("policies/schemas/credential.schema.json", &keys);
        ck_assert_int_eq(operation_key_names(&operation_keys), 0);
        fixtures_check_schema_def("policies/schemas/credential.schema.json", "operation",
                                  &operation_keys);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("credential");

        tcase_add_test(tcase, test_good);
        tcase_add_test(tcase, test_bad);
        tcase_add_test(tcase, test_values);
        tcase_add_test(tcase, test_edge);
        tcase_add_test(tcase, test_upstreams);
        tcase_add_test(tcase, test_rules);
        tcase_add_test(tcase, test_schema);
        return suite_run("credential", tcase);
}
