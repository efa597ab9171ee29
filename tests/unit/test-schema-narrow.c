/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>

#include "basic/string-util.h"
#include "schema/schema.h"
#include "tests/unit/suite.h"

static Schema *compile(const char *text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Schema *schema = NULL;
        JsonError error = {};

        ck_assert_int_eq(json_scan(text, strlen(text), &doc, &error), 0);
        ck_assert_int_eq(schema_compile(doc, json_doc_root(doc), NULL, &diags, &schema), 0);
        return schema;
}

#define OF(x) "{\"type\":\"object\",\"properties\":{\"x\":" x "},\"required\":[\"x\"]}"

typedef struct Row {
        const char *constraint, *listed, *narrowed;
} Row;

static const Row rows[] = {
        /* Each keyword is added. */
        {"{\"properties\":{\"x\":{\"enum\":[1, 2],\"const\":1,\"minimum\":0,\"maximum\":60000,"
         "\"maxLength\":3,\"pattern\":\"^a, b$\"}}}",
         OF("{\"type\":\"integer\"}"),
         OF("{\"type\":\"integer\",\"enum\":[1,2],\"const\":1,\"minimum\":0,\"maximum\":60000,"
            "\"maxLength\":3,\"pattern\":\"^a, b$\"}")},
        {"{\"properties\":{\"x\":{\"maximum\":1}}}", OF("{}"), OF("{\"maximum\":1}")},
        {"{\"properties\":{\"x\":{\"maximum\":1}}}", OF("{ \"a\" : 1.50 }"),
         OF("{ \"a\" : 1.50 ,\"maximum\":1}")},
        /* No other is. */
        {"{\"type\":\"object\",\"required\":[\"x\"],\"properties\":{\"x\":{\"minLength\":1,"
         "\"type\":"
         "\"string\",\"not\":{},\"minItems\":1,\"exclusiveMaximum\":1,\"multipleOf\":2}}}",
         OF("{}"), OF("{}")},
        {"{\"allOf\":[{\"properties\":{\"x\":{\"maximum\":1}}}]}", OF("{}"), OF("{}")},
        {"{\"properties\":{\"x\":false}}", OF("{}"), OF("{}")},
        {"{\"properties\":{\"x\":{\"$ref\":\"#/$defs/a\"}},\"$defs\":{\"a\":{\"maximum\":1}}}",
         OF("{}"), OF("{}")},
        {"false", OF("{}"), OF("{}")},
        /* Only what is listed, and what is a schema of members. */
        {"{\"properties\":{\"y\":{\"maximum\":1}}}", OF("{}"), OF("{}")},
        {"{\"properties\":{\"x\":{\"maximum\":1}}}", OF("true"), OF("true")},
        {"{\"properties\":{\"x\":{\"maximum\":1}}}", "{\"type\":\"object\"}",
         "{\"type\":\"object\"}"},
        {"{\"properties\":{\"x\":{\"maximum\":1}}}", "{\"properties\":[{\"x\":{}}]}",
         "{\"properties\":[{\"x\":{}}]}"},
        /* The narrower of two. */
        {"{\"properties\":{\"x\":{\"maximum\":5,\"minimum\":2,\"maxLength\":3}}}",
         OF("{\"maximum\":1e1,\"maxLength\":9,\"minimum\":-1}"),
         OF("{\"maximum\":5,\"maxLength\":3,\"minimum\":2}")},
        {"{\"properties\":{\"x\":{\"maximum\":50,\"minimum\":-2,\"maxLength\":30}}}",
         OF("{\"maximum\":1e1,\"maxLength\":9,\"minimum\":-1}"),
         OF("{\"maximum\":1e1,\"maxLength\":9,\"minimum\":-1}")},
        {"{\"properties\":{\"x\":{\"maximum\":9223372036854775808}}}",
         OF("{\"maximum\":9223372036854775809}"), OF("{\"maximum\":9223372036854775808}")},
        {"{\"properties\":{\"x\":{\"enum\":[\"b\",\"c\",3.0]}}}",
         OF("{\"enum\":[\"a\",\"\\u0062\", 3],\"type\":\"string\"}"),
         OF("{\"enum\":[\"\\u0062\",3],\"type\":\"string\"}")},
        {"{\"properties\":{\"x\":{\"const\":\"a\"}}}", OF("{\"enum\":[\"a\",\"b\"]}"),
         OF("{\"enum\":[\"a\",\"b\"],\"const\":\"a\"}")},
        /* What cannot be said by one keyword stays. */
        {"{\"properties\":{\"x\":{\"enum\":[1]}}}", OF("{\"enum\":[2]}"), OF("{\"enum\":[2]}")},
        {"{\"properties\":{\"x\":{\"const\":1,\"pattern\":\"a\"}}}",
         OF("{\"const\":2,\"pattern\":\"b\"}"), OF("{\"const\":2,\"pattern\":\"b\"}")},
        {"{\"properties\":{\"x\":{\"maximum\":1,\"enum\":[1]}}}",
         OF("{\"maximum\":\"9\",\"enum\":{}}"), OF("{\"maximum\":\"9\",\"enum\":{}}")},
        /* A policy may be written on many lines, a message is on one. */
        {"{\"properties\":{\"x\":{\"enum\":[\n  \"a\",\r\n\t\"b \\\" \\\\\",\n {\"c\" : [ ] "
         "}\n]}}}",
         OF("{}"), OF("{\"enum\":[\"a\",\"b \\\" \\\\\",{\"c\":[]}]}")},
        /* Several members, in the order of the list. */
        {"{\"properties\":{\"b\":{\"maximum\":2},\"a\":{\"maximum\":1}}}",
         "{\"properties\":{\"a\":{},\"c\":{},\"b\":{\"minimum\":0}},\"z\":12345678901234567890}",
         "{\"properties\":{\"a\":{\"maximum\":1},\"c\":{},\"b\":{\"minimum\":0,\"maximum\":2}},"
         "\"z\":12345678901234567890}"},
};

START_TEST(test_narrow) {
        _cleanup_(schema_freep) Schema *constraint = compile(rows[_i].constraint);
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL, again = STRBUF_NULL;

        ck_assert_int_eq(schema_narrow(constraint, rows[_i].listed, strlen(rows[_i].listed), &out),
                         0);
        ck_assert_str_eq(out.data, rows[_i].narrowed);
        /* What is narrowed once gets no narrower. */
        ck_assert_int_eq(schema_narrow(constraint, out.data, out.size, &again), 0);
        ck_assert_str_eq(again.data, out.data);
}
END_TEST

START_TEST(test_no_json) {
        _cleanup_(schema_freep) Schema *constraint = compile("true");
        StrBuf out = STRBUF_NULL;

        ck_assert_int_eq(schema_narrow(constraint, "{", 1, &out), -EINVAL);
        ck_assert_ptr_null(out.data);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("schema-narrow");

        tcase_add_loop_test(tcase, test_narrow, 0, ELEMENTSOF(rows));
        tcase_add_test(tcase, test_no_json);
        return suite_run("schema-narrow", tcase);
}
