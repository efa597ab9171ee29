/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "crate/capture.h"
#include "run/options.h"

#define ARGUMENTS_MAX 12

static int parse(const char *const *arguments, RunOptions *ret_options, char **ret_text) {
        int argc = 0;

        while (arguments[argc])
                argc++;
        return run_options_parse(argc, (char *const *) arguments, ret_options, ret_text);
}

/* Parses what must be right. */
#define PARSE(...)                                                                                 \
        ({                                                                                         \
                static const char *const _arguments[] = {"agentcrate-run", __VA_ARGS__, NULL};     \
                char *_text = NULL;                                                                \
                RunOptions _options = {};                                                          \
                int _r = parse(_arguments, &_options, &_text);                                     \
                                                                                                   \
                ck_assert_msg(_r == 0, "%d: %s", _r, _text ?: "");                                 \
                _options;                                                                          \
        })

START_TEST(test_defaults) {
        _cleanup_(run_options_done) RunOptions options = PARSE("true");

        ck_assert_int_eq(options.action, RUN_ACTION_RUN);
        ck_assert_uint_eq(options.argv.n_items, 1);
        ck_assert_str_eq(options.argv.items[0], "true");
        ck_assert_ptr_null(options.workspace);
        ck_assert_uint_eq(options.n_binds, 0);
        ck_assert_ptr_null(options.cwd);
        ck_assert_ptr_null(options.template);
        ck_assert_uint_eq(options.limits.given, 0);
        ck_assert_uint_eq(options.capture, CAPTURE_DEFAULT);
        ck_assert(!options.json && !options.tty && !options.on_hit_given);
        ck_assert_int_eq(options.enforce, ENFORCE_SAMPLED);
}
END_TEST

START_TEST(test_every_option) {
        _cleanup_(run_options_done) RunOptions options =
                PARSE("-w", "/w:ro", "--ro=/a", "--rw", "/b", "-C", "/tmp", "-eA=b=c", "--template",
                      "t", "--profile=strict", "-t2m", "--limit", "disk=64M", "--limit=inodes=5",
                      "--limit", "memory=1G", "--limit", "cpus=1.5", "--enforce=strict", "--on-hit",
                      "refuse", "--capture=0", "--json", "--result", "/r", "--", "-x", "--json");

        ck_assert_str_eq(options.workspace, "/w");
        ck_assert(options.workspace_ro);
        ck_assert_uint_eq(options.n_binds, 2);
        ck_assert_str_eq(options.binds[0].path, "/a");
        ck_assert(!options.binds[0].writable);
        ck_assert_str_eq(options.binds[1].path, "/b");
        ck_assert(options.binds[1].writable);
        ck_assert_str_eq(options.cwd, "/tmp");
        ck_assert_uint_eq(options.limits.max[LIMIT_MEMORY], 1ULL << 30);
        ck_assert_uint_eq(options.limits.max[LIMIT_CPUS], 1500);
        ck_assert_int_eq(options.enforce, ENFORCE_STRICT);
        ck_assert_uint_eq(options.env.n_items, 1);
        ck_assert_str_eq(options.env.items[0], "A=b=c");
        ck_assert_str_eq(options.template, "t");
        ck_assert_str_eq(options.profile, "strict");
        ck_assert_uint_eq(options.limits.max[LIMIT_WALL_TIME], 120000000);
        ck_assert_uint_eq(options.limits.max[LIMIT_DISK], 64U << 20);
        ck_assert_uint_eq(options.limits.max[LIMIT_INODES], 5);
        ck_assert_uint_eq(options.limits.given, 1U << LIMIT_WALL_TIME | 1U << LIMIT_DISK |
                                                        1U << LIMIT_INODES | 1U << LIMIT_MEMORY |
                                                        1U << LIMIT_CPUS);
        ck_assert(options.on_hit_given);
        ck_assert_int_eq(options.on_hit, ON_HIT_REFUSE);
        ck_assert_uint_eq(options.capture, 0);
        ck_assert(options.json);
        ck_assert_str_eq(options.result, "/r");
        ck_assert_uint_eq(options.argv.n_items, 2);
        ck_assert_str_eq(options.argv.items[0], "-x");
}
END_TEST

/* The command's own options are none of ours. */
START_TEST(test_command_ends_options) {
        _cleanup_(run_options_done) RunOptions options = PARSE("--tty", "ls", "--json", "-t", "x");

        ck_assert(options.tty);
        ck_assert(!options.json);
        ck_assert_uint_eq(options.argv.n_items, 4);
}
END_TEST

START_TEST(test_paths) {
        _cleanup_(run_options_done) RunOptions colon = PARSE("-w", "/a:b", "x");
        _cleanup_(run_options_done) RunOptions relative = PARSE("-C", "src", "x");
        _cleanup_(run_options_done) RunOptions last = PARSE("-w", "/b", "-", "y");

        ck_assert_str_eq(colon.workspace, "/a:b");
        ck_assert(!colon.workspace_ro);
        ck_assert_str_eq(relative.cwd, "/workspace/src");
        ck_assert_str_eq(last.workspace, "/b");
        ck_assert(!last.workspace_ro);
        ck_assert_str_eq(last.argv.items[0], "-");
}
END_TEST

START_TEST(test_env) {
        _cleanup_(run_options_done) RunOptions options = {};

        ck_assert_int_eq(setenv("AGENTCRATE_TEST_VALUE", "a\nb", 1), 0);
        options =
                PARSE("-e", "AGENTCRATE_TEST_VALUE", "-e", "EMPTY=", "-e", "X=1", "-e", "X=2", "x");
        ck_assert_uint_eq(options.env.n_items, 3);
        ck_assert_str_eq(strv_env_get(&options.env, "AGENTCRATE_TEST_VALUE"), "a\nb");
        ck_assert_str_eq(strv_env_get(&options.env, "EMPTY"), "");
        ck_assert_str_eq(strv_env_get(&options.env, "X"), "2");
}
END_TEST

START_TEST(test_actions) {
        _cleanup_(run_options_done) RunOptions help = PARSE("--help", "--no-such-option");
        _cleanup_(run_options_done) RunOptions letter = PARSE("-h");
        _cleanup_(run_options_done) RunOptions version = PARSE("--version");
        _cleanup_(run_options_done) RunOptions plan = PARSE("--print-plan");

        ck_assert_int_eq(help.action, RUN_ACTION_HELP);
        ck_assert_int_eq(letter.action, RUN_ACTION_HELP);
        ck_assert_int_eq(version.action, RUN_ACTION_VERSION);
        ck_assert_int_eq(plan.action, RUN_ACTION_PRINT_PLAN);
}
END_TEST

typedef struct BadCase {
        const char *arguments[ARGUMENTS_MAX];
        const char *words[3]; /* what the one sentence must hold */
} BadCase;

static const BadCase bad_cases[] = {
        {{"x"}, {"no command", "--help"}},
        {{"x", "--"}, {"no command"}},
        {{"x", "--nope", "y"}, {"--nope", "unknown", "--workspace"}},
        {{"x", "-q", "y"}, {"-q", "unknown", "--limit"}},
        {{"x", "--work", "y"}, {"--work", "unknown"}},
        {{"x", "--json=1", "y"}, {"--json", "takes no value"}},
        {{"x", "--template"}, {"--template", "needs a value", "NAME"}},
        {{"x", "-w"}, {"--workspace", "needs a value", "DIR[:ro]"}},
        {{"x", "-w", "", "y"}, {"--workspace", "empty"}},
        {{"x", "-w", ":ro", "y"}, {"--workspace", "empty"}},
        {{"x", "-w", "/w:cow", "y"}, {"--workspace", "cow", "DIR:ro"}},
        {{"x", "--ro", "", "y"}, {"--ro", "empty"}},
        {{"x", "-w", "/:rw", "y"}, {"--workspace", "only :ro", "writable"}},
        {{"x", "-w", "/a", "-w", "/b", "y"}, {"--workspace", "twice"}},
        {{"x", "-t", "1", "-t", "1", "y"}, {"--timeout", "twice"}},
        {{"x", "-C", "", "y"}, {"-C", "empty"}},
        {{"x", "-e", "=v", "y"}, {"-e", "NAME=VALUE"}},
        {{"x", "-e", "", "y"}, {"-e", "NAME=VALUE"}},
        {{"x", "-e", "AGENTCRATE_NOT_SET_ANYWHERE", "y"},
         {"AGENTCRATE_NOT_SET_ANYWHERE", "not set", "NAME=VALUE"}},
        {{"x", "--template=", "y"}, {"--template", "empty"}},
        {{"x", "-t", "-1", "y"}, {"--timeout", "wall_time", "negative"}},
        {{"x", "-t", "0", "y"}, {"--timeout", "wall_time", "zero"}},
        {{"x", "-t", "1Q", "y"}, {"--timeout", "1Q"}},
        {{"x", "-t", "", "y"}, {"--timeout", "empty"}},
        {{"x", "-t", "1", "--limit", "wall_time=2", "y"},
         {"--timeout", "wall_time", "one of them"}},
        {{"x", "--limit", "wall_time=2", "-t", "1", "y"}, {"--timeout", "wall_time"}},
        {{"x", "--limit", "nope=1", "y"}, {"nope", "unknown", "disk"}},
        {{"x", "--limit", "disk", "y"}, {"disk", "no value"}},
        {{"x", "--limit", "disk=", "y"}, {"disk", "empty"}},
        {{"x", "--limit", "disk=-1", "y"}, {"disk", "negative"}},
        {{"x", "--limit", "disk=1Q", "y"}, {"disk", "1Q"}},
        {{"x", "--limit", "disk=18446744073709551616", "y"}, {"disk", "18446744073709551616"}},
        {{"x", "--limit", "memory=0", "y"}, {"--limit", "memory", "zero"}},
        {{"x", "--limit", "pids=1.5", "y"}, {"--limit", "pids", "malformed"}},
        {{"x", "--limit", "cpus=0", "y"}, {"--limit", "cpus", "zero"}},
        {{"x", "--limit", "cpu_time=-1", "y"}, {"--limit", "cpu_time", "negative"}},
        {{"x", "--limit", "io_read_bps=0", "y"}, {"--limit", "io_read_bps", "zero"}},
        {{"x", "--enforce", "maybe", "y"}, {"--enforce", "maybe", "strict"}},
        {{"x", "--on-hit", "maybe", "y"}, {"--on-hit", "maybe", "refuse"}},
        {{"x", "--json", "--capture", "-1", "y"}, {"--capture", "-1", "negative"}},
        {{"x", "--json", "--capture", "1T", "y"}, {"--capture", "1T"}},
        {{"x", "--json", "--capture", "9M", "y"}, {"--capture", "too large"}},
        {{"x", "--capture", "1K", "y"}, {"--capture", "--json"}},
        {{"x", "--tty", "--json", "y"}, {"--tty", "--json", "--result"}},
        {{"x", "--result", "", "y"}, {"--result", "empty"}},
};

START_TEST(test_bad) {
        const BadCase *c = &bad_cases[_i];
        _cleanup_(freep) char *text = NULL;
        RunOptions options = {};

        ck_assert_int_eq(unsetenv("AGENTCRATE_NOT_SET_ANYWHERE"), 0);
        ck_assert_int_eq(parse(c->arguments, &options, &text), RUN_OPTIONS_E_INVALID);
        ck_assert_ptr_nonnull(text);
        for (size_t i = 0; i < ELEMENTSOF(c->words) && c->words[i]; i++)
                ck_assert_msg(strstr(text, c->words[i]), "\"%s\" is not in: %s", c->words[i], text);
        ck_assert_ptr_null(strchr(text, '\n'));
}
END_TEST

/* One string of argv or of the environment is bounded by the kernel, whatever ARG_MAX says. */
START_TEST(test_long_argument) {
        _cleanup_(freep) char *text = NULL, *longest = malloc(131073), *env = NULL;
        const char *command[] = {"x", "y", "z", longest, NULL};
        const char *variable[] = {"x", "-e", NULL, "y", NULL};
        RunOptions options = {};

        ck_assert_ptr_nonnull(longest);
        memset(longest, 'a', 131072);
        longest[131072] = 0;
        ck_assert_int_eq(parse(command, &options, &text), RUN_OPTIONS_E_INVALID);
        ck_assert_msg(strstr(text, "argument 2 is 131072 bytes long, the limit is 131071"), "%s",
                      text);

        longest[131071] = 0;
        ck_assert_int_eq(parse(command, &options, &text), 0);
        ck_assert_uint_eq(strlen(options.argv.items[2]), 131071);
        run_options_done(&options);

        free(TAKE_PTR(text));
        ck_assert_int_gt(asprintf(&env, "A=%s", longest), 0);
        variable[2] = env;
        ck_assert_int_eq(parse(variable, &options, &text), RUN_OPTIONS_E_INVALID);
        ck_assert_msg(strstr(text, "the limit is 131071"), "%s", text);
}
END_TEST

START_TEST(test_help) {
        static const char *const names[] = {
                "-w, --workspace DIR[:ro]",
                "--ro PATH",
                "--rw PATH",
                "-C DIR",
                "-e NAME[=VALUE]",
                "--template NAME",
                "--profile NAME",
                "-t, --timeout TIME",
                "--limit NAME=VALUE",
                "--enforce strict|sampled",
                "--on-hit end|refuse",
                "--capture BYTES",
                "--result FILE",
                "--allow NAME:PORT[/TYPE][@CIDR,...]",
                "--operation CREDENTIAL.OPERATION",
                "--json",
                "--tty",
                "--print-plan",
                "--version",
        };
        _cleanup_(freep) char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        ck_assert_ptr_nonnull(out);
        run_options_print_help(out);
        (void) fclose(out);
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                ck_assert_msg(strstr(text, names[i]), "%s", names[i]);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                ck_assert_uint_le(strcspn(line, "\n"), 80);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("run-options");
        TCase *tcase = tcase_create("run-options");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_defaults);
        tcase_add_test(tcase, test_every_option);
        tcase_add_test(tcase, test_command_ends_options);
        tcase_add_test(tcase, test_paths);
        tcase_add_test(tcase, test_env);
        tcase_add_test(tcase, test_actions);
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad_cases));
        tcase_add_test(tcase, test_long_argument);
        tcase_add_test(tcase, test_help);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
