/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "policy/credential.h"
#include "tests/unit/suite.h"

/* The rows that begin with a number are those of the cases about what a job may ask for. */
static const char menu_text[] =
        "{\"upstream\": \"https://a.example\", \"secret\": \"s\", \"attach\": {\"as\": \"bearer\"},"
        "\"operations\": {"
        "\"issues\": {\"method\": \"GET\", \"path\": \"/repos/{owner:slug}/{repo:slug}/issues\","
        " \"query\": {\"per_page\": {\"type\": \"int\", \"maximum\": 100}, \"state\": {\"type\":"
        " \"enum(open|closed)\"}}},"
        "\"user\": {\"method\": \"GET\", \"path\": \"/user\"},"
        "\"root\": {\"method\": \"GET\", \"path\": \"/\"},"
        "\"folder\": {\"method\": \"GET\", \"path\": \"/folder/\"},"
        "\"item\": {\"method\": \"DELETE\", \"path\": \"/items/{id:uuid}\"},"
        "\"day\": {\"method\": \"GET\", \"path\": \"/days/{day:date}\"},"
        "\"number\": {\"method\": \"GET\", \"path\": \"/numbers/{n:int}\"},"
        "\"search\": {\"method\": \"GET\", \"path\": \"/v1/messages:search\", \"query\": {\"day\":"
        " {\"type\": \"date\", \"required\": true}}},"
        "\"create\": {\"method\": \"POST\", \"path\": \"/items\", \"body\": {\"kind\": \"json\","
        " \"max_bytes\": 32}},"
        "\"form\": {\"method\": \"POST\", \"path\": \"/form\", \"body\": {\"kind\": \"form\"}},"
        "\"raw\": {\"method\": \"PUT\", \"path\": \"/raw\", \"body\": {\"kind\": \"raw\"}}}}";

static Credential *credential;

static void setup(void) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;

        ck_assert_int_eq(
                credential_parse("x", "x.json", menu_text, strlen(menu_text), &diags, &credential),
                0);
}

static void teardown(void) {
        credential = credential_free(credential);
}

static OperationSpan span(const char *text) {
        return (OperationSpan){text, text ? strlen(text) : 0};
}

static const struct {
        const char *method, *target;
        const char *operation; /* NULL: refused */
        const char *sent;
        int outcome;
} requests[] = {
        {"GET", "/user", "user", "/user", 0},
        {"GET", "/", "root", "/", 0},
        {"GET", "/folder/", "folder", "/folder/", 0},
        {"GET", "/user?", "user", "/user", 0},
        {"GET", "/%75ser", "user", "/user", 0},
        {"GET", "/repos/a/b.c/issues", "issues", "/repos/a/b.c/issues", 0},
        {"GET", "/repos/a/.github/issues", "issues", "/repos/a/.github/issues", 0},
        {"GET", "/repos/%61/b/issues?state=open&per_page=100", "issues",
         "/repos/a/b/issues?per_page=100&state=open", 0},
        {"GET", "/repos/a/b/issues?per_page=%31", "issues", "/repos/a/b/issues?per_page=1", 0},
        {"DELETE", "/items/123e4567-e89b-12d3-a456-426614174000", "item",
         "/items/123e4567-e89b-12d3-a456-426614174000", 0},
        {"GET", "/days/2024-02-29", "day", "/days/2024-02-29", 0},
        {"GET", "/numbers/0", "number", "/numbers/0", 0},
        {"GET", "/numbers/999999999999999999", "number", "/numbers/999999999999999999", 0},
        {"GET", "/v1/messages:search?day=2023-12-31", "search",
         "/v1/messages:search?day=2023-12-31", 0},
        {"POST", "/items", "create", "/items", 0},

        /* methods */
        {"HEAD", "/user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"POST", "/user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"get", "/user", NULL, NULL, OPERATION_E_METHOD},
        {"TRACE", "/user", NULL, NULL, OPERATION_E_METHOD},
        {"OPTIONS", "/user", NULL, NULL, OPERATION_E_METHOD},
        {"CONNECT", "/user", NULL, NULL, OPERATION_E_METHOD},
        {"", "/user", NULL, NULL, OPERATION_E_METHOD},
        /* 34: ways of writing another path */
        {"GET", "/repos/a/b/../../../user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/../issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/%2e%2e/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/%2E/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a%2Fb/c/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/b%2f..%2f..%2fuser/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "//user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user/", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/folder", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/folder//", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/./user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user;x=1", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a;x/b/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a\\b/c/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a%5Cb/c/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/%2575ser", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/%252e%252e/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/b%c3%28/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/b%ff/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/a/b%00/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%00", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%3Fx", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%3fx=1", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%23", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%2", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/user%zz", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/USER", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "http://evil.example/user", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "*", NULL, NULL, OPERATION_E_NO_MATCH},
        /* 38, 39: what could end a line, or be a placeholder to somebody */
        {"GET", "/repos/a%0d%0aX:y/b/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/%7b%7bsecret%7d%7d/b/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/${secret}/b/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/repos/{owner}/b/issues", NULL, NULL, OPERATION_E_NO_MATCH},
        /* types */
        {"GET", "/days/2023-02-29", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/days/1900-02-29", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/days/2023-13-01", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/days/2023-01-00", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/days/2023-1-01", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/01", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/+1", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/-1", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/-0", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/1.0", NULL, NULL, OPERATION_E_NO_MATCH},
        {"GET", "/numbers/9999999999999999999", NULL, NULL, OPERATION_E_NO_MATCH},
        {"DELETE", "/items/123e4567-e89b-12d3-a456-42661417400g", NULL, NULL, OPERATION_E_NO_MATCH},
        {"DELETE", "/items/123e4567e89b12d3a456426614174000", NULL, NULL, OPERATION_E_NO_MATCH},
        /* 35: queries */
        {"GET", "/user?x=1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/user?access_token=x", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/user?&", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/user??", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=1&per_page=1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=1&%70er_page=1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=101", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=1=2", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=1;state=open", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=1&", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?&per_page=1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?per_page=+1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?state=OPEN", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?state=open%00", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?state=open%26per_page=1", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?state=open%23", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/repos/a/b/issues?STATE=open", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/v1/messages:search", NULL, NULL, OPERATION_E_QUERY},
        {"GET", "/v1/messages:search?day=today", NULL, NULL, OPERATION_E_QUERY},
};

START_TEST(test_match) {
        const char *method = requests[_i].method, *target = requests[_i].target;
        _cleanup_(operation_match_done) OperationMatch match = {};
        _cleanup_(strbuf_done) StrBuf sent = STRBUF_NULL, query = STRBUF_NULL;
        OperationFault fault = {};
        int r;

        r = operation_match(&credential->menu, span(method), span(target), &match, &fault);
        ck_assert_msg(r == requests[_i].outcome, "%s %s: %d, %s", method, target, r, fault.text);
        if (r != 0) {
                ck_assert_ptr_nonnull(fault.text);
                ck_assert_int_eq(fault.operation != NULL, r == OPERATION_E_QUERY);
                return;
        }
        ck_assert_str_eq(match.operation->name, requests[_i].operation);
        ck_assert_int_eq(operation_append_path(&match, &sent), 0);
        ck_assert_int_eq(operation_append_query(&match, &query), 0);
        if (query.size > 0)
                ck_assert_int_eq(strbuf_appendf(&sent, "?%s", query.data), 0);
        ck_assert_str_eq(sent.data, requests[_i].sent);
}
END_TEST

/* 37 */
static const struct {
        const char *operation, *type, *coding, *body;
        int outcome;
} bodies[] = {
        {"user", NULL, NULL, "", 0},
        {"user", "text/plain", NULL, "", 0},
        {"user", "text/plain", NULL, "x", OPERATION_E_BODY},
        {"create", "application/json", NULL, "{\"a\": 1}", 0},
        {"create", "Application/JSON; charset=utf-8", "identity", "[]", 0},
        {"create", "application/json ", NULL, "7", 0},
        {"create", "application/json", NULL, "{\"a\": 1, \"a\": 2}", OPERATION_E_BODY},
        {"create", "application/json", NULL, "{\"a\": 1, \"\\u0061\": 2}", OPERATION_E_BODY},
        {"create", "application/json", NULL, "{\"a\": 1}x", OPERATION_E_BODY},
        {"create", "application/json", NULL, "", OPERATION_E_BODY},
        {"create", "application/json", NULL, "{\"a\": \"012345678901234567890123456\"}",
         OPERATION_E_BODY_SIZE},
        {"create", "application/json", "gzip", "{}", OPERATION_E_BODY_TYPE},
        {"create", "application/json", "identity, gzip", "{}", OPERATION_E_BODY_TYPE},
        {"create", "application/json-patch+json", NULL, "{}", OPERATION_E_BODY_TYPE},
        {"create", "multipart/form-data; boundary=x", NULL, "{}", OPERATION_E_BODY_TYPE},
        {"create", NULL, NULL, "{}", OPERATION_E_BODY_TYPE},
        {"create", "", NULL, "{}", OPERATION_E_BODY_TYPE},
        {"form", "application/x-www-form-urlencoded", NULL, "a=b", 0},
        {"form", "application/json", NULL, "{}", OPERATION_E_BODY_TYPE},
        {"raw", "image/png", NULL, "x", 0},
        {"raw", NULL, NULL, "x", 0},
        {"raw", NULL, "br", "x", OPERATION_E_BODY_TYPE},
};

START_TEST(test_body) {
        const Operation *operation = operation_menu_find(&credential->menu, bodies[_i].operation);
        const char *text = NULL;
        int r;

        r = operation_check_body(operation, span(bodies[_i].type), span(bodies[_i].coding),
                                 span(bodies[_i].body), &text);
        ck_assert_msg(r == bodies[_i].outcome, "%s %s: %d, %s", bodies[_i].operation,
                      bodies[_i].body, r, text);
        ck_assert((r == 0) == (text == NULL));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("operation");

        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_add_loop_test(tcase, test_match, 0, ELEMENTSOF(requests));
        tcase_add_loop_test(tcase, test_body, 0, ELEMENTSOF(bodies));
        return suite_run("operation", tcase);
}
