/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/evaluate.h"
#include "policy/explain.h"

/* Tools as a broker with more of them would have. */
static char scope_exec[] = "exec", scope_read[] = "fs:read", scope_write[] = "fs:write";
static char *scopes_exec[] = {scope_exec, NULL};
static char *scopes_write[] = {scope_read, scope_write, NULL};

static const ToolRights tools[] = {
        {.name = "sandbox_exec", .scopes = {scopes_exec, 1}, .template_default = "host"},
        {.name = "file_read", .scopes = {scopes_write, 1}},
        {.name = "file_delete", .scopes = {scopes_write, 2}},
        {.name = "limits_get"},
};

static const ToolRights *tool_of(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(tools); i++)
                if (string_equal(tools[i].name, name))
                        return &tools[i];
        ck_abort_msg("no tool %s", name);
}

/* Line 4 has the scopes, 5 the tools, 6 the templates, 7 the arguments. */
static const char full[] =
        "{\n"
        "\"match\": {\"uid\": [1000]},\n"
        "\"workspaces\": [\"/srv\"],\n"
        "\"scopes\": [\"fs:write\", \"exec\", \"fs:read\"],\n"
        "\"tools\": {\"allow\": [\"*\", \"limits_get\"], \"deny\": [\"file_d*\"]},\n"
        "\"templates\": [\"host\", \"py*\"],\n"
        "\"arguments\": {\"sandbox_exec\": {\"properties\": {\"timeout_ms\": {\"maximum\": "
        "60000},\n"
        "  \"argv\": {\"items\": {\"not\": {\"const\": \"s3cr3t-canary\"}}}}}}\n"
        "}";
static const char reader[] = "{\"match\": {\"uid\": [1]},\n\"scopes\": [\"fs:read\"],\n"
                             "\"tools\": {\"allow\": [\"file_*\", \"sandbox_exec\"]}}";
static const char nothing[] = "{\"match\": {\"uid\": [1]}}";
static const char no_scopes[] =
        "{\"match\": {\"uid\": [1]},\n\"tools\": {\"allow\": [\"*\"]},\n\"templates\": [\"*\"]}";
static const char same_rule[] =
        "{\"match\": {\"uid\": [1]},\n\"tools\": {\"allow\": [\"limits_get\"],\n"
        "\"deny\": [\"x\", \"limits_get\"]}}";

static Tenant *parse(const char *text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Tenant *tenant = NULL;

        ck_assert_int_eq(tenant_parse("ci", "ci.json", text, strlen(text), &diags, NULL, &tenant),
                         0);
        return tenant;
}

static void decide(const Tenant *tenant, const char *tool, const char *arguments,
                   Decision *ret_decision) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        if (arguments)
                ck_assert_int_eq(json_scan(arguments, strlen(arguments), &doc, &error), 0);
        ck_assert_int_eq(
                evaluate(tenant, tool_of(tool), doc, doc ? json_doc_root(doc) : NULL, ret_decision),
                0);
}

typedef struct Case {
        const char *policy; /* NULL: nobody */
        const char *tool;
        const char *arguments; /* NULL: none were sent */
        bool allowed;
        EvaluateStep step;
        const char *rule;
        uint32_t line;
} Case;

static const Case cases[] = {
        {NULL, "limits_get", NULL, false, EVALUATE_TENANT, "nobody:match", 0},
        {full, "limits_get", NULL, true, EVALUATE_ALLOW, "ci:tools.allow[1]", 5},
        {full, "limits_get", "{\"any\": [1]}", true, EVALUATE_ALLOW, "ci:tools.allow[1]", 5},
        {full, "file_read", "{}", true, EVALUATE_ALLOW, "ci:tools.allow[0]", 5},
        /* Deny wins, though a rule of allow covers it too. */
        {full, "file_delete", "{}", false, EVALUATE_DENY, "ci:tools.deny[0]", 5},
        {same_rule, "limits_get", NULL, false, EVALUATE_DENY, "ci:tools.deny[1]", 3},
        {nothing, "limits_get", NULL, false, EVALUATE_ALLOW, "ci:tools.allow", 0},
        {nothing, "sandbox_exec", "{}", false, EVALUATE_ALLOW, "ci:tools.allow", 0},
        {reader, "limits_get", NULL, false, EVALUATE_ALLOW, "ci:tools.allow", 3},
        {reader, "file_read", "{}", true, EVALUATE_ALLOW, "ci:tools.allow[0]", 3},
        /* All scopes are needed, not one of them. */
        {reader, "file_delete", "{}", false, EVALUATE_SCOPES, "ci:scopes", 2},
        {reader, "sandbox_exec", "{}", false, EVALUATE_SCOPES, "ci:scopes", 2},
        {no_scopes, "sandbox_exec", "{}", false, EVALUATE_SCOPES, "ci:scopes", 0},
        {no_scopes, "limits_get", "{}", true, EVALUATE_ALLOW, "ci:tools.allow[0]", 2},
        /* The default template is asked for as any other. */
        {full, "sandbox_exec", NULL, true, EVALUATE_ALLOW, "ci:tools.allow[0]", 5},
        {full, "sandbox_exec", "{\"template\": \"python\"}", true, EVALUATE_ALLOW,
         "ci:tools.allow[0]", 5},
        {full, "sandbox_exec", "{\"template\": \"node\"}", false, EVALUATE_TEMPLATE, "ci:templates",
         6},
        {full, "sandbox_exec", "{\"template\": \"\"}", false, EVALUATE_TEMPLATE, "ci:templates", 6},
        /* What is no string stands for no template; the tool refuses it. */
        {full, "sandbox_exec", "{\"template\": 5}", true, EVALUATE_ALLOW, "ci:tools.allow[0]", 5},
        {full, "sandbox_exec", "{\"timeout_ms\": 60000}", true, EVALUATE_ALLOW, "ci:tools.allow[0]",
         5},
        {full, "sandbox_exec", "{\"timeout_ms\": 60001}", false, EVALUATE_ARGUMENTS,
         "ci:arguments.sandbox_exec", 7},
        {full, "sandbox_exec", "{\"argv\": [\"a\", \"s3cr3t-canary\"]}", false, EVALUATE_ARGUMENTS,
         "ci:arguments.sandbox_exec", 8},
        /* An earlier step decides before a later one is asked. */
        {full, "sandbox_exec", "{\"template\": \"node\", \"timeout_ms\": 60001}", false,
         EVALUATE_TEMPLATE, "ci:templates", 6},
};

START_TEST(test_decisions) {
        const Case *c = &cases[_i];
        _cleanup_(tenant_freep) Tenant *tenant = c->policy ? parse(c->policy) : NULL;
        _cleanup_(decision_done) Decision d = DECISION_NULL;

        decide(tenant, c->tool, c->arguments, &d);
        ck_assert(d.allowed == c->allowed);
        ck_assert_str_eq(d.rule, c->rule);
        ck_assert_int_eq(d.step, c->step);
        ck_assert_uint_eq(d.line, c->line);
        ck_assert((d.reason == NULL) == c->allowed && (d.needed == NULL) == c->allowed);
        ck_assert(!tenant || string_equal(d.file, "ci.json"));
        ck_assert_ptr_eq(d.tenant, tenant);
}
END_TEST

START_TEST(test_texts) {
        static const struct {
                const char *tool, *arguments, *text;
        } texts[] = {
                {"file_delete", NULL,
                 "The call of file_delete was denied: tenant ci must not call file_delete (rule "
                 "ci:tools.deny[0]). Needed: that the administrator of this broker takes the tool "
                 "out of tools.deny."},
                {"sandbox_exec", "{\"template\": \"a\\nb\"}",
                 "The call of sandbox_exec was denied: tenant ci may not use the template "
                 "\"a\\x0ab\" (rule ci:templates). Needed: another template, or that the "
                 "administrator of this broker adds this one to templates."},
                {"sandbox_exec", "{\"timeout_ms\": 70000}",
                 "The call of sandbox_exec was denied: arguments.timeout_ms of sandbox_exec is not "
                 "what tenant ci may give: it must be at most 60000 (maximum) (rule "
                 "ci:arguments.sandbox_exec). Needed: arguments.timeout_ms that must be at most "
                 "60000."},
        };
        _cleanup_(tenant_freep) Tenant *tenant = parse(full);

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_(decision_done) Decision d = DECISION_NULL;
                _cleanup_(freep) char *text = NULL;

                decide(tenant, texts[i].tool, texts[i].arguments, &d);
                text = decision_text(&d, texts[i].tool);
                ck_assert_str_eq(text, texts[i].text);
        }
}
END_TEST

/* What was sent is not sent back, nor what the configuration holds. */
START_TEST(test_no_secrets) {
        _cleanup_(tenant_freep) Tenant *tenant = parse(full);
        _cleanup_(decision_done) Decision d = DECISION_NULL;
        _cleanup_(freep) char *text = NULL;

        decide(tenant, "sandbox_exec", "{\"timeout_ms\": 123456789}", &d);
        text = decision_text(&d, "sandbox_exec");
        ck_assert_ptr_null(strstr(text, "123456789"));
        ck_assert_ptr_null(strstr(text, "/srv"));
}
END_TEST

START_TEST(test_listing) {
        static const struct {
                const char *policy, *tool;
                bool listed;
        } rows[] = {
                {full, "sandbox_exec", true},    {full, "file_read", true},
                {full, "file_delete", false},    {full, "limits_get", true},
                {nothing, "limits_get", false},  {reader, "file_read", true},
                {reader, "file_delete", false},  {reader, "sandbox_exec", false},
                {no_scopes, "limits_get", true}, {no_scopes, "sandbox_exec", false},
        };

        ck_assert(!evaluate_may_call(NULL, tool_of("limits_get")));
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(tenant_freep) Tenant *tenant = parse(rows[i].policy);

                ck_assert_msg(evaluate_may_call(tenant, tool_of(rows[i].tool)) == rows[i].listed,
                              "row %zu", i);
        }
}
END_TEST

/* Without templates no crate can be made, whatever the arguments say. */
START_TEST(test_listing_templates) {
        _cleanup_(tenant_freep) Tenant *tenant =
                parse("{\"match\": {\"uid\": [1]}, \"scopes\": [\"exec\"], \"tools\": {\"allow\": "
                      "[\"*\"]}}");

        ck_assert(!evaluate_may_call(tenant, tool_of("sandbox_exec")));
}
END_TEST

/* A rule that others add to a decision, as the broker does for folders. */
START_TEST(test_deny_later) {
        _cleanup_(tenant_freep) Tenant *tenant = parse(full);
        _cleanup_(decision_done) Decision d = DECISION_NULL;

        decide(tenant, "sandbox_exec", NULL, &d);
        ck_assert(d.allowed);
        ck_assert_int_eq(decision_deny(&d, EVALUATE_WORKSPACE, tenant->workspaces_line,
                                       "workspaces", "another one", "not %s", "here"),
                         0);
        ck_assert(!d.allowed);
        ck_assert_str_eq(d.rule, "ci:workspaces");
        ck_assert_str_eq(d.reason, "not here");
        ck_assert_uint_eq(d.line, 3);
}
END_TEST

/* The longest names there can be: the rule is cut, never overrun. */
START_TEST(test_long_rule) {
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(decision_done) Decision d = DECISION_NULL;
        char tool[129], text[512];
        ToolRights rights = {.name = tool};

        memset(tool, 'x', 128);
        tool[128] = 0;
        (void) snprintf(text, sizeof(text),
                        "{\"match\": {\"uid\": [1]}, \"tools\": {\"allow\": [\"%s\"]}, "
                        "\"arguments\": {\"%s\": false}}",
                        tool, tool);
        ck_assert_int_eq(tenant_parse("abcdefghijklmnopqrstuvwxyz012345", "x.json", text,
                                      strlen(text), &diags, NULL, &tenant),
                         0);
        ck_assert_int_eq(evaluate(tenant, &rights, NULL, NULL, &d), 0);
        ck_assert(!d.allowed);
        ck_assert_uint_eq(strlen(d.rule), 32 + 1 + strlen("arguments.") + 128);
}
END_TEST

START_TEST(test_explain) {
        static const char denied[] =
                "denied\n"
                "rule         ci:templates, ci.json:6\n"
                "reason       tenant ci may not use the template \"node\"\n"
                "needed       another template, or that the administrator of this broker adds this "
                "one to templates\n"
                "\n"
                "Rules are asked in this order, and the first that denies decides:\n"
                "  match        tenant ci\n"
                "  tools.deny   no rule covers sandbox_exec\n"
                "  tools.allow  tools.allow[0], \"*\" in line 5, covers sandbox_exec\n"
                "  scopes       the tenant has exec\n"
                "  templates    denied: tenant ci may not use the template \"node\"\n"
                "  arguments    not asked\n"
                "  workspaces   not asked\n"
                "  egress       not asked\n"
                "  operations   not asked\n";
        static const char allowed[] =
                "allowed\n"
                "rule         ci:tools.allow[0], ci.json:5\n"
                "\n"
                "Rules are asked in this order, and the first that denies decides:\n"
                "  match        tenant ci\n"
                "  tools.deny   no rule covers sandbox_exec\n"
                "  tools.allow  tools.allow[0], \"*\" in line 5, covers sandbox_exec\n"
                "  scopes       the tenant has exec\n"
                "  templates    a rule covers the template\n"
                "  arguments    they keep those of line 7\n"
                "  workspaces   if the call uses a folder of the host, it must be in /srv\n"
                "  egress       nothing may be reached\n"
                "  operations   a job may call none\n";
        _cleanup_(tenant_freep) Tenant *tenant = parse(full), *none = parse(nothing);
        _cleanup_(decision_done) Decision no = DECISION_NULL, yes = DECISION_NULL,
                                          absent = DECISION_NULL;
        _cleanup_(strbuf_done) StrBuf a = STRBUF_NULL, b = STRBUF_NULL, c = STRBUF_NULL;

        decide(tenant, "sandbox_exec", "{\"template\": \"node\"}", &no);
        ck_assert_int_eq(explain_decision(&no, tool_of("sandbox_exec"), &a), 0);
        ck_assert_str_eq(a.data, denied);
        decide(tenant, "sandbox_exec", NULL, &yes);
        ck_assert_int_eq(explain_decision(&yes, tool_of("sandbox_exec"), &b), 0);
        ck_assert_str_eq(b.data, allowed);
        decide(none, "limits_get", NULL, &absent);
        ck_assert_int_eq(explain_decision(&absent, tool_of("limits_get"), &c), 0);
        ck_assert_ptr_nonnull(strstr(
                c.data, "rule         ci:tools.allow, ci.json, where there is no such key\n"));
}
END_TEST

static const struct {
        const char *scopes, *egress; /* of the tenant */
        const char *template, *asked;
        const char *reason; /* NULL: allowed */
        EvaluateStep step;
} egress_cases[] = {
        {"", "", NULL, NULL, NULL, 0},
        {"\"net:egress\"", "", "a.example:443", NULL,
         "tenant ci may not reach a.example:443/tls, which is asked for by template host",
         EVALUATE_EGRESS},
        {"\"net:egress\"", "", NULL, "a.example:443", "tenant ci may not reach a.example:443/tls",
         EVALUATE_EGRESS},
        {"", "\"templates\"", "a.example:443", NULL,
         "to reach anything needs the scope net:egress, and tenant ci does not have it",
         EVALUATE_SCOPES},
        {"\"net:egress\"", "\"templates\"", "a.example:443", NULL, NULL, 0},
        {"\"net:egress\"", "\"templates\"", "*.b.example:443", "x.b.example:443", NULL, 0},
        {"\"net:egress\"", "\"templates\"", "a.example:443", "b.example:443",
         "tenant ci may not reach b.example:443/tls", EVALUATE_EGRESS},
        {"\"net:egress\"", "{\"name\": \"a.example\", \"port\": 443}", NULL, "a.example:443", NULL,
         0},
        {"\"net:egress\"", "{\"name\": \"a.example\", \"port\": 443}", NULL, "a.example:444",
         "tenant ci may not reach a.example:444/tcp", EVALUATE_EGRESS},
        /* What is stricter is covered, what is laxer is not. */
        {"\"net:egress\"", "{\"name\": \"a.example\", \"port\": 443}", NULL, "a.example:443/tcp",
         "tenant ci may not reach a.example:443/tcp", EVALUATE_EGRESS},
        {"\"net:egress\"", "{\"name\": \"a.example\", \"port\": 443, \"type\": \"tcp\"}", NULL,
         "a.example:443", NULL, 0},
        {"\"net:egress\"", "{\"name\": \"*.a.example\", \"port\": 443}", NULL, "*.b.a.example:443",
         NULL, 0},
        {"\"net:egress\"", "{\"name\": \"*.a.example\", \"port\": 443}", NULL, "a.example:443",
         "tenant ci may not reach a.example:443/tls", EVALUATE_EGRESS},
        {"\"net:egress\"", "{\"name\": \"a.example\", \"port\": 443}", NULL,
         "a.example:443@10.0.0.0/8", "tenant ci may not reach a.example:443/tls@10.0.0.0/8",
         EVALUATE_EGRESS},
        {"\"net:egress\"",
         "{\"name\": \"a.example\", \"port\": 443, \"addresses\": [\"10.0.0.0/8\"]}", NULL,
         "a.example:443@10.1.0.0/16", NULL, 0},
};

static void destinations(const char *text, DestinationList *list) {
        _cleanup_(freep) char *why = NULL;

        if (text)
                ck_assert_int_eq(destination_list_parse(list, text, &why), 0);
}

START_TEST(test_egress) {
        _cleanup_(destination_list_done) DestinationList of_template = DESTINATION_LIST_NULL,
                                                         asked = DESTINATION_LIST_NULL;
        _cleanup_(freep) char *text = NULL;
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        _cleanup_(decision_done) Decision d = DECISION_NULL;

        ck_assert_int_gt(asprintf(&text,
                                  "{\"match\": {\"uid\": [1]}, \"scopes\": [%s], \"egress\": [%s]}",
                                  egress_cases[_i].scopes, egress_cases[_i].egress),
                         0);
        tenant = parse(text);
        destinations(egress_cases[_i].template, &of_template);
        destinations(egress_cases[_i].asked, &asked);
        d = (Decision){.tenant = tenant, .allowed = true};
        ck_assert_int_eq(evaluate_egress(tenant, "host", &of_template, &asked, &d), 0);
        ck_assert_int_eq(d.allowed, !egress_cases[_i].reason);
        if (d.allowed)
                return;
        ck_assert_str_eq(d.reason, egress_cases[_i].reason);
        ck_assert_int_eq(d.step, egress_cases[_i].step);
        ck_assert_uint_eq(d.line, 1);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("evaluate");
        TCase *tcase = tcase_create("evaluate");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_decisions, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_texts);
        tcase_add_test(tcase, test_no_secrets);
        tcase_add_test(tcase, test_listing);
        tcase_add_test(tcase, test_listing_templates);
        tcase_add_test(tcase, test_deny_later);
        tcase_add_test(tcase, test_long_rule);
        tcase_add_test(tcase, test_explain);
        tcase_add_loop_test(tcase, test_egress, 0, ELEMENTSOF(egress_cases));
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
