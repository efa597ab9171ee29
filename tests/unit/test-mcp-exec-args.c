/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "basic/time-util.h"
#include "mcp/exec-args.h"

static int parse(const char *text, ExecArgs *ret_args, char **ret_text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        ck_assert_int_eq(json_scan(text, strlen(text), &doc, &error), 0);
        return exec_args_parse(doc, json_doc_root(doc), ret_args, ret_text);
}

typedef struct Bad {
        const char *text;
        const char *says; /* part of the fault's text */
} Bad;

static const Bad bad[] = {
        {"{}", "send argv"},
        {"{\"argv\":[\"a\"],\"command\":\"b\"}", "not both"},
        {"{\"argv\":[]}", "must not be empty"},
        {"{\"argv\":[\"\"]}", "argv[0] must not be empty"},
        {"{\"argv\":\"ls -l\"}", "array of strings"},
        {"{\"argv\":[\"a\",7]}", "argv[1] must be a string"},
        {"{\"argv\":[\"a\",null]}", "argv[1] must be a string"},
        {"{\"argv\":[\"a\\u0000b\"]}", "argv[0] holds the character NUL"},
        {"{\"command\":\"a\\u0000b\"}", "command holds the character NUL"},
        {"{\"command\":\" \\n\"}", "command must not be empty"},
        {"{\"command\":[\"a\"]}", "command must be a string"},
        {"{\"command\":\"a\",\"stdin\":7}", "stdin must be a string"},
        {"{\"command\":\"a\",\"stdin_encoding\":\"utf-16\"}", "\"utf-8\" or \"base64\""},
        {"{\"command\":\"a\",\"stdin_encoding\":\"base64\"}", "without stdin"},
        {"{\"command\":\"a\",\"stdin_encoding\":\"base64\",\"stdin\":\"!\"}", "no valid base64"},
        {"{\"command\":\"a\",\"stdin_encoding\":\"base64\",\"stdin\":\"YQ\"}", "no valid base64"},
        {"{\"command\":\"a\",\"cwd\":\"x\"}", "cwd must be an absolute path, not \"x\""},
        {"{\"command\":\"a\",\"cwd\":\"\"}", "cwd must not be empty"},
        {"{\"command\":\"a\",\"env\":[]}", "env must be an object"},
        {"{\"command\":\"a\",\"env\":{\"\":\"x\"}}", "must not be empty"},
        {"{\"command\":\"a\",\"env\":{\"A=B\":\"x\"}}", "must not hold"},
        {"{\"command\":\"a\",\"env\":{\"A\":1}}", "env[\"A\"] must be a string"},
        {"{\"command\":\"a\",\"env\":{\"A\":\"\\u0000\"}}", "env[\"A\"] holds the character NUL"},
        {"{\"command\":\"a\",\"timeout_ms\":0}", "timeout_ms"},
        {"{\"command\":\"a\",\"timeout_ms\":-1}", "timeout_ms"},
        {"{\"command\":\"a\",\"timeout_ms\":1.5}", "timeout_ms"},
        {"{\"command\":\"a\",\"timeout_ms\":\"10s\"}", "timeout_ms"},
        {"{\"command\":\"a\",\"timeout_ms\":18446744073709551616}", "timeout_ms"},
        {"{\"command\":\"a\",\"timeout_ms\":5,\"limits\":{\"wall_time\":5}}", "same limit"},
        {"{\"command\":\"a\",\"limits\":[]}", "limits must be an object"},
        {"{\"command\":\"a\",\"limits\":{\"nope\":1}}", "nope"},
        {"{\"command\":\"a\",\"limits\":{\"memory\":\"64Q\"}}", "limits.memory: \"64Q\""},
        {"{\"command\":\"a\",\"limits\":{\"memory\":0}}", "limits.memory: 0 is zero"},
        {"{\"command\":\"a\",\"limits\":{\"pids\":-1}}", "limits.pids: -1 is negative"},
        {"{\"command\":\"a\",\"limits\":{\"cpus\":\"2\"}}", "limits.cpus: \"2\" is a string"},
        {"{\"command\":\"a\",\"limits\":{\"wall_time\":0.5}}", "limits.wall_time: 0.5"},
        {"{\"command\":\"a\",\"limits\":{\"cpu_time\":99999999999999999}}",
         "limits.cpu_time: 99999999999999999 is too large"},
        {"{\"command\":\"a\",\"limits\":{\"disk\":\"1Q\"}}", "limits.disk"},
        {"{\"command\":\"a\",\"limits\":{\"output\":-1}}", "limits.output"},
        {"{\"command\":\"a\",\"capture\":-1}", "capture"},
        {"{\"command\":\"a\",\"capture\":8388609}", "capture"},
        {"{\"command\":\"a\",\"on_hit\":\"explode\"}", "\"end\" or \"refuse\""},
        {"{\"command\":\"a\",\"template\":\"\"}", "template must not be empty"},
        {"{\"command\":\"a\",\"workspace\":\"/x\"}", "workspace must be an object"},
        {"{\"command\":\"a\",\"workspace\":{}}", "workspace.path is missing"},
        {"{\"command\":\"a\",\"workspace\":{\"path\":\"x\"}}", "absolute"},
        {"{\"command\":\"a\",\"workspace\":{\"path\":\"/x\",\"mode\":\"cow\"}}", "not built yet"},
        {"{\"command\":\"a\",\"workspace\":{\"path\":\"/x\",\"mode\":\"w\"}}", "\"ro\" or \"rw\""},
        {"{\"command\":\"a\",\"workspace\":{\"path\":\"/x\",\"made\":\"w\"}}", "no others"},
        {"{\"command\":\"a\",\"sandbox\":\"s-1\"}", "sandbox is not built yet"},
        {"{\"command\":\"a\",\"egress\":[{}]}", "egress[0]: \"name\" is missing"},
        {"{\"command\":\"a\",\"egress\":{}}", "egress: {} is no array"},
        {"{\"command\":\"a\",\"egress\":[\"https://a.example/\"]}",
         "egress[0]: \"https://a.example/\" is a URL: give NAME:PORT, without \"https://\""},
        {"{\"command\":\"a\",\"egress\":[{\"name\":\"*.com\",\"port\":1}]}",
         "egress[0].name: the name \"*.com\" would be"},
        {"{\"command\":\"a\",\"operations\":[\"a.b\",\"a\"]}",
         "operations[1]: \"a\" names no operation"},
        {"{\"command\":\"a\",\"operations\":\"a.b\"}", "operations: \"a.b\" is no array"},
        {"{\"command\":\"a\",\"cmd\":1}", "no argument \"cmd\"; the arguments are argv, command"},
};

START_TEST(test_bad) {
        const Bad *c = &bad[_i];
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse(c->text, &args, &text), EXEC_ARGS_E_INVALID);
        ck_assert_ptr_nonnull(text);
        ck_assert_msg(strstr(text, c->says) != NULL, "%s: \"%s\" does not say \"%s\"", c->text,
                      text, c->says);
        ck_assert_ptr_null(strstr(text, "params."));
}
END_TEST

START_TEST(test_all) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(
                parse("{\"argv\":[\"ls\",\"-l\",\"\"],\"stdin\":\"YQBi\",\"stdin_encoding\":"
                      "\"base64\",\"cwd\":\"/tmp\",\"env\":{\"A\":\"b\\nc\",\"E\":\"\"},"
                      "\"limits\":{\"wall_time\":1500,\"disk\":\"1M\"},\"capture\":0,"
                      "\"on_hit\":\"refuse\",\"template\":\"host\",\"workspace\":{\"path\":\"/x\","
                      "\"mode\":\"ro\"},\"egress\":[\"a.example:443\"],\"operations\":[]}",
                      &args, &text),
                0);
        ck_assert_uint_eq(args.argv.n_items, 3);
        ck_assert_str_eq(args.argv.items[2], "");
        ck_assert_uint_eq(args.stdin_size, 3);
        ck_assert_mem_eq(args.stdin_data, "a\0b", 3);
        ck_assert_str_eq(args.cwd, "/tmp");
        ck_assert_str_eq(strv_env_get(&args.env, "A"), "b\nc");
        ck_assert_uint_eq(args.limits.given, 1U << LIMIT_WALL_TIME | 1U << LIMIT_DISK);
        ck_assert_uint_eq(args.limits.max[LIMIT_WALL_TIME], 1500 * USEC_PER_MSEC);
        ck_assert_uint_eq(args.limits.max[LIMIT_DISK], 1 << 20);
        ck_assert(args.capture_given && args.capture == 0);
        ck_assert(args.on_hit_given && args.on_hit == ON_HIT_REFUSE);
        ck_assert_str_eq(args.template, "host");
        ck_assert_str_eq(args.workspace, "/x");
        ck_assert(args.workspace_ro);
        ck_assert_uint_eq(args.egress.n_items, 1);
        ck_assert_str_eq(args.egress.items[0].name, "a.example");
        ck_assert_uint_eq(args.egress.items[0].port, 443);
}
END_TEST

START_TEST(test_command_and_timeout) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse("{\"command\":\"echo\",\"stdin\":\"a\\u0000\",\"timeout_ms\":2}",
                               &args, &text),
                         0);
        ck_assert_str_eq(args.command, "echo");
        ck_assert_uint_eq(args.command_size, 4);
        ck_assert_uint_eq(args.stdin_size, 2);
        ck_assert_uint_eq(args.limits.max[LIMIT_WALL_TIME], 2000);
        ck_assert(!args.capture_given && !args.on_hit_given && !args.template && !args.workspace);
}
END_TEST

/* One string of argv may have 131071 bytes, as the kernel has it. */
START_TEST(test_argument_maximum) {
        for (size_t n = 131071; n <= 131072; n++) {
                _cleanup_(exec_args_done) ExecArgs args = {};
                _cleanup_(strbuf_done) StrBuf json = STRBUF_NULL;
                _cleanup_(freep) char *text = NULL;
                int r;

                ck_assert_int_eq(strbuf_append_string(&json, "{\"argv\":[\"a\",\""), 0);
                for (size_t i = 0; i < n; i++)
                        ck_assert_int_eq(strbuf_append_byte(&json, 'x'), 0);
                ck_assert_int_eq(strbuf_append_string(&json, "\"]}"), 0);

                r = parse(json.data, &args, &text);
                if (n <= 131071)
                        ck_assert_int_eq(r, 0);
                else {
                        ck_assert_int_eq(r, EXEC_ARGS_E_INVALID);
                        ck_assert_ptr_nonnull(strstr(text, "argv[1] has 131072 bytes"));
                        ck_assert_ptr_nonnull(strstr(text, "131071"));
                }
        }
}
END_TEST

START_TEST(test_too_many_strings) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(strbuf_done) StrBuf json = STRBUF_NULL;
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(strbuf_append_string(&json, "{\"argv\":[\"a\""), 0);
        for (size_t i = 0; i < 8192; i++)
                ck_assert_int_eq(strbuf_append_string(&json, ",\"a\""), 0);
        ck_assert_int_eq(strbuf_append_string(&json, "]}"), 0);
        ck_assert_int_eq(parse(json.data, &args, &text), EXEC_ARGS_E_INVALID);
        ck_assert_ptr_nonnull(strstr(text, "strings"));
}
END_TEST

START_TEST(test_no_arguments) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(exec_args_parse(NULL, NULL, &args, &text), EXEC_ARGS_E_INVALID);
        ck_assert_ptr_nonnull(strstr(text, "send argv"));
}
END_TEST

int main(void) {
        Suite *suite = suite_create("mcp-exec-args");
        TCase *tcase = tcase_create("mcp-exec-args");
        SRunner *runner;
        int n_failed;

        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad));
        tcase_add_test(tcase, test_all);
        tcase_add_test(tcase, test_command_and_timeout);
        tcase_add_test(tcase, test_argument_maximum);
        tcase_add_test(tcase, test_too_many_strings);
        tcase_add_test(tcase, test_no_arguments);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
