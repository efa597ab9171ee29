/* SPDX-License-Identifier: Apache-2.0 */

/* Arguments of a tool that is an operation, as the one request that they stand for; and every name
 * of a tool of ours is kept from credentials. */

#include <check.h>
#include <string.h>

#include "mcp/operation-args.h"
#include "mcp/tools.h"
#include "tests/unit/suite.h"

static const char menu_text[] =
        "{\"upstream\":\"https://a.example\",\"secret\":\"s\",\"attach\":{\"as\":\"bearer\"},"
        "\"operations\":{"
        "\"a\":{\"method\":\"GET\",\"path\":\"/r/{o:slug}/{n:int}\",\"query\":{\"q\":{\"type\":"
        "\"int\",\"minimum\":-5},\"d\":{\"type\":\"date\"}}},"
        "\"b\":{\"method\":\"POST\",\"path\":\"/j\",\"body\":{\"kind\":\"json\",\"max_bytes\":20}},"
        "\"c\":{\"method\":\"POST\",\"path\":\"/f\",\"body\":{\"kind\":\"form\"}},"
        "\"d\":{\"method\":\"PUT\",\"path\":\"/w\",\"body\":{\"kind\":\"raw\"}}}}";

static Credential *credential;

static void setup(void) {
        DiagList diags = DIAG_LIST_NULL;

        ck_assert_int_eq(
                credential_parse("x", "x.json", menu_text, strlen(menu_text), &diags, &credential),
                0);
}

static void teardown(void) {
        credential = credential_free(credential);
}

static int parse(const char *operation, const char *text, OperationArgs *ret_args,
                 char **ret_text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        ck_assert_int_eq(json_scan(text, strlen(text), &doc, &error), 0);
        return operation_args_parse(operation_menu_find(&credential->menu, operation), doc,
                                    json_doc_root(doc), ret_args, ret_text);
}

static const struct {
        const char *operation, *text, *target, *type, *body;
} good[] = {
        {"a", "{\"o\":\"x.y~z\",\"n\":0}", "/r/x.y~z/0", NULL, ""},
        {"a", "{\"q\":-5,\"n\":12,\"o\":\"a\"}", "/r/a/12?q=-5", NULL, ""},
        {"a", "{\"o\":\"a\",\"n\":1,\"d\":\"2024-02-29\",\"q\":1}", "/r/a/1?q=1&d=2024-02-29", NULL,
         ""},
        {"b", "{\"body\":{\"a\": [1,\"\\u00e9\"]}}", "/j", "application/json",
         "{\"a\": [1,\"\\u00e9\"]}"},
        {"c", "{\"body\":{\"a b\":\"&=+%\",\"\":\"\\u0000\"}}", "/f",
         "application/x-www-form-urlencoded", "a+b=%26%3D%2B%25&=%00"},
        {"c", "{}", "/f", "application/x-www-form-urlencoded", ""},
        {"d", "{\"body\":\"YWI=\",\"body_encoding\":\"base64\",\"content_type\":\"text/x; a=b\"}",
         "/w", "text/x; a=b", "ab"},
};

START_TEST(test_good) {
        _cleanup_(operation_args_done) OperationArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse(good[_i].operation, good[_i].text, &args, &text), 0);
        ck_assert_str_eq(args.target.data, good[_i].target);
        ck_assert(string_equal(args.type, good[_i].type));
        ck_assert_uint_eq(args.body.size, strlen(good[_i].body));
        ck_assert_str_eq(args.body.data ?: "", good[_i].body);
}
END_TEST

static const struct {
        const char *operation, *text, *says;
} bad[] = {
        {"a", "{\"o\":\"a\"}", "n is missing; it must be a whole number from 0 on"},
        {"a", "{\"o\":\"a\",\"n\":1e3}", "n must be"},
        {"a", "{\"o\":\"a\",\"n\":1,\"q\":-6}", "q must be a whole number from -5 on"},
        {"a", "{\"o\":\"a\",\"n\":1000000000000000000}", "n must be"},
        {"a", "{\"o\":\"a%2fb\",\"n\":1}", "o must be"},
        {"a", "{\"o\":\"a\",\"n\":1,\"d\":\"\"}", "d must be a string with a date"},
        {"a", "{\"o\":\"a\",\"n\":1,\"q\":null}", "q must be"},
        {"a", "{\"o\":\"a\",\"n\":1,\"O\":1}",
         "there is no argument \"O\"; the arguments are o, n, q, d"},
        {"b", "{\"body\":{\"a\":\"0123456789abc\"}}",
         "body has 21 bytes, and the operation takes 20"},
        {"b", "{\"body\":null}", "body must be an object or an array"},
        {"b", "{\"body\":[],\"content_type\":\"a\"}", "there is no argument \"content_type\""},
        {"c", "{\"body\":[]}", "body must be an object of strings"},
        {"d", "{\"body\":\"a\",\"content_type\":\"\"}", "content_type must be"},
        {"d", "{\"content_type\":\"a\\nb\"}", "content_type must be"},
        {"d", "{\"content_type\":\"a\\u0000b\"}", "content_type must be"},
        {"d", "{\"body\":{}}", "body must be a string"},
        {"d", "{\"body\":\"YQ\",\"body_encoding\":\"base64\"}", "no valid base64"},
};

START_TEST(test_bad) {
        _cleanup_(operation_args_done) OperationArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse(bad[_i].operation, bad[_i].text, &args, &text),
                         OPERATION_ARGS_E_INVALID);
        ck_assert_msg(strstr(text, bad[_i].says), "%s", text);
        ck_assert_ptr_null(args.target.data);
}
END_TEST

/* A file whose name is the first word of a tool of ours must not expose anything. */
START_TEST(test_own_names) {
        const ToolRights *tool;

        for (size_t i = 0; (tool = tools_rights_at(NULL, i)); i++) {
                _cleanup_(freep) char *name = strndup(tool->name, strcspn(tool->name, "_"));
                static const char text[] =
                        "{\"upstream\":\"https://a.example\",\"secret\":\"s\",\"attach\":{\"as\":"
                        "\"bearer\"},\"operations\":{\"x\":{\"method\":\"GET\",\"path\":\"/\","
                        "\"expose\":true}}}";
                _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
                Credential *own = NULL;

                ck_assert_ptr_nonnull(name);
                ck_assert_int_eq(credential_parse(name, "x.json", text, strlen(text), &diags, &own),
                                 CREDENTIAL_E_INVALID);
                ck_assert_ptr_nonnull(strstr(diags.items[0].text, "give the file another name"));
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("operation-args");

        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_add_loop_test(tcase, test_good, 0, ELEMENTSOF(good));
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad));
        tcase_add_test(tcase, test_own_names);
        return suite_run("operation-args", tcase);
}
