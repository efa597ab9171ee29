/* SPDX-License-Identifier: Apache-2.0 */
#include "run/options.h"

#include <inttypes.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/host-path.h"
#include "basic/option-table.h"
#include "basic/parse-util.h"
#include "crate/capture.h"
#include "plan/job-wire.h"
#include "policy/credential.h"

/* --- what an option does with its value --- */

static int string_replace(char **string, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return error_origin(-ENOMEM);
        free(*string);
        *string = copy;
        return 0;
}

static int take_action(const Option *option, const char *value _unused_, void *target,
                       char **ret_text _unused_) {
        RunOptions *options = target;

        options->action = (RunAction) option->offset;
        return options->action == RUN_ACTION_PRINT_PLAN ? 0 : OPTION_E_STOP;
}

/* Which of two was meant is not ours to guess. */
static int given_twice(char **ret_text, const char *name) {
        return option_invalid(ret_text, "%s was given twice; give it once", name);
}

static int take_workspace(const Option *option _unused_, const char *value, void *target,
                          char **ret_text) {
        RunOptions *options = target;
        char *path;
        int r;

        if (options->workspace)
                return given_twice(ret_text, "--workspace");
        r = host_path_parse_workspace(value, &path, &options->workspace_ro, ret_text);
        if (r != 0)
                return r < 0 ? error_trace(r) : OPTION_E_INVALID;
        options->workspace = path;
        return 0;
}

static int take_bind(const Option *option, const char *value, void *target, char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *path = NULL;
        RunBind *binds;

        if (string_empty(value))
                return option_invalid(ret_text, "--%s has an empty path; give a file or a folder",
                                      option->name);
        path = strdup(value);
        binds = reallocarray(options->binds, options->n_binds + 1, sizeof(*binds));
        if (binds)
                options->binds = binds;
        if (!path || !binds)
                return error_origin(-ENOMEM);
        options->binds[options->n_binds++] = (RunBind){
                .path = TAKE_PTR(path),
                .writable = string_equal(option->name, "rw"),
        };
        return 0;
}

static int take_allow(const Option *option _unused_, const char *value, void *target,
                      char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = destination_list_parse(&options->allow, value, &text);
        if (r == DESTINATION_E_INVALID)
                return option_invalid(ret_text, "--allow: %s", text);
        return error_trace(r);
}

static int take_operation(const Option *option _unused_, const char *value, void *target,
                          char **ret_text) {
        RunOptions *options = target;

        if (string_equal(value, "*") || !credential_rule_is_valid(value))
                return option_invalid(ret_text,
                                      "--operation: %s is no operation; give CREDENTIAL.OPERATION "
                                      "or CREDENTIAL.*",
                                      value);
        return error_trace(strv_append(&options->operations, value));
}

static int take_cwd(const Option *option _unused_, const char *value, void *target,
                    char **ret_text) {
        RunOptions *options = target;
        char *cwd;

        if (string_empty(value))
                return option_invalid(ret_text, "-C has an empty path; give a folder in the crate");
        if (asprintf(&cwd, "%s%s", value[0] == '/' ? "" : "/workspace/", value) < 0)
                return error_origin(-ENOMEM);
        free(options->cwd);
        options->cwd = cwd;
        return 0;
}

static int take_env(const Option *option _unused_, const char *value, void *target,
                    char **ret_text) {
        RunOptions *options = target;
        const char *equals = strchr(value, '=');
        _cleanup_(freep) char *name = NULL, *quoted = NULL;
        const char *content;

        name = equals ? strndup(value, (size_t) (equals - value)) : strdup(value);
        if (!name)
                return error_origin(-ENOMEM);
        if (string_empty(name))
                return option_invalid(ret_text, "-e has an empty name; give NAME or NAME=VALUE");

        content = equals ? equals + 1 : secure_getenv(name);
        if (!content) {
                quoted = diag_quote(name);
                return option_invalid(ret_text,
                                      "-e %s: not set in this environment; give NAME=VALUE",
                                      quoted ?: "");
        }
        return error_trace(strv_env_set(&options->env, name, content));
}

static int take_timeout(const Option *option _unused_, const char *value, void *target,
                        char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *text = NULL;
        uint64_t usec;
        int r;

        if (options->timeout)
                return given_twice(ret_text, "--timeout");
        r = limit_parse_value(LIMIT_WALL_TIME, value, &usec, &text);
        if (r == -EINVAL)
                return option_invalid(ret_text, "--timeout: %s", text);
        if (r < 0)
                return error_trace(r);
        return string_replace(&options->timeout, value);
}

static int take_limit(const Option *option _unused_, const char *value, void *target,
                      char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = limits_parse_option(&options->limits, value, &text);
        if (r == -EINVAL)
                return option_invalid(ret_text, "--limit: %s", text);
        return error_trace(r);
}

static int take_enforce(const Option *option _unused_, const char *value, void *target,
                        char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *quoted = NULL;

        if (enforce_from_string(value, &options->enforce) >= 0)
                return 0;
        quoted = diag_quote(value);
        return option_invalid(ret_text, "--enforce %s is unknown; known are sampled and strict",
                              quoted ?: "");
}

static int take_on_hit(const Option *option _unused_, const char *value, void *target,
                       char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *quoted = NULL;

        options->on_hit_given = true;
        if (on_hit_from_string(value, &options->on_hit) >= 0)
                return 0;
        quoted = diag_quote(value);
        return option_invalid(ret_text, "--on-hit %s is unknown; known are end and refuse",
                              quoted ?: "");
}

static int take_capture(const Option *option _unused_, const char *value, void *target,
                        char **ret_text) {
        RunOptions *options = target;
        _cleanup_(freep) char *quoted = NULL;
        uint64_t bytes = 0;
        int r = 0;

        /* None is a fair amount to keep, though it is no size of anything else. */
        if (!string_equal(value, "0"))
                r = parse_size(value, &bytes);
        if (r < 0)
                return error_trace(r);
        if (r == 0 && bytes <= CAPTURE_MAX) {
                options->capture = (size_t) bytes;
                options->capture_given = true;
                return 0;
        }
        quoted = diag_quote(value);
        return option_invalid(ret_text, "--capture %s %s; give 0 to %u bytes, such as 64K",
                              quoted ?: "", r == 0 ? "is too large" : parse_error_to_string(r),
                              CAPTURE_MAX);
}

/* --- the table --- */

#define MEMBER(m) offsetof(RunOptions, m)

static const Option option_table[] = {
        {"workspace", 'w', "DIR[:ro]", take_workspace, 0,
         "the host's folder DIR is /workspace, and the command starts there; :ro makes it "
         "read-only. Without it /workspace is empty and private"},
        {"ro", 0, "PATH", take_bind, 0, "show the host's PATH, read-only, at the same place"},
        {"rw", 0, "PATH", take_bind, 0, "show the host's PATH, writable, at the same place"},
        {"allow", 0, "NAME:PORT[/TYPE][@CIDR,...]", take_allow, 0,
         "let the command connect to that name and port; TYPE says what is spoken there: tls "
         "(default "
         "for port 443), http (80) or tcp, which is anything (others); @CIDR opens private, "
         "loopback or host addresses that the name leads to; may be given repeatedly"},
        {"operation", 0, "CREDENTIAL.OPERATION", take_operation, 0,
         "let the command call that operation, or with * all of them, at "
         "http://CREDENTIAL.crate.internal/, of the credentials in credentials.d; may be given "
         "repeatedly"},
        {NULL, 'C', "DIR", take_cwd, 0,
         "start the command in this folder of the crate; a relative one is below /workspace"},
        {NULL, 'e', "NAME[=VALUE]", take_env, 0,
         "set a variable for the command; without VALUE it is taken from here"},
        {"template", 0, "NAME", option_take_string, MEMBER(template),
         "what the crate sees; default host"},
        {"profile", 0, "NAME", option_take_string, MEMBER(profile),
         "the seccomp profile; default is the template's"},
        {"timeout", 't', "TIME", take_timeout, 0,
         "end the job after TIME (ms, s, m, h; seconds without a suffix); the same as --limit "
         "wall_time=TIME"},
        {"limit", 0, "NAME=VALUE", take_limit, 0,
         "bound memory, pids, cpus, cpu_time, wall_time, disk, inodes, open_files, file_size, "
         "output, "
         "io_read_bps or io_write_bps; may be given repeatedly"},
        {"enforce", 0, "strict|sampled", take_enforce, 0,
         "refuse to run where a limit could only be sampled (strict), or look at the job from time "
         "to time then (sampled, default)"},
        {"on-hit", 0, "end|refuse", take_on_hit, 0,
         "what a limit does that the kernel refuses piecemeal: end the job (default), or refuse "
         "and count"},
        {"capture", 0, "BYTES", take_capture, 0,
         "with --json: how much of each output stream the record keeps, first and last half; "
         "default 256K"},
        {"result", 0, "FILE", option_take_string, MEMBER(result),
         "write the result record, without output, to FILE"},
        {"json", 0, NULL, option_take_flag, MEMBER(json),
         "print the result record, with output, instead of the output"},
        {"tty", 0, NULL, option_take_flag, MEMBER(tty), "give the command a terminal of its own"},
        {"print-plan", 0, NULL, take_action, RUN_ACTION_PRINT_PLAN,
         "print what the crate would be made of, and run nothing"},
        {"help", 'h', NULL, take_action, RUN_ACTION_HELP, "print this text"},
        {"version", 0, NULL, take_action, RUN_ACTION_VERSION, "print the version"},
};

static const OptionTable run_options_table = {
        .options = option_table,
        .n_options = ELEMENTSOF(option_table),
};

/* --- what no row can tell --- */

/* A string longer than this is refused by the kernel's exec, whatever ARG_MAX says. */
static int check_size(const char *what, size_t number, const char *string, char **ret_text) {
        size_t size = strlen(string);

        if (size <= JOB_ARGUMENT_MAX)
                return 0;
        return option_invalid(
                ret_text,
                "%s %zu is %zu bytes long, the limit is %u; hand it over by a file or by "
                "standard input",
                what, number, size, JOB_ARGUMENT_MAX);
}

static int check_sizes(const RunOptions *options, char **ret_text) {
        size_t size = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < options->argv.n_items; i++) {
                r = check_size("argument", i, options->argv.items[i], ret_text);
                size += strlen(options->argv.items[i]) + 1;
        }
        for (size_t i = 0; r == 0 && i < options->env.n_items; i++) {
                r = check_size("-e number", i + 1, options->env.items[i], ret_text);
                size += strlen(options->env.items[i]) + 1;
        }
        if (r == 0 && (size > JOB_WIRE_SIZE_MAX / 2 ||
                       options->argv.n_items + options->env.n_items > JOB_WIRE_STRINGS_MAX / 2))
                return option_invalid(
                        ret_text,
                        "arguments and -e together are %zu strings of %zu bytes, the limit "
                        "is %u of %u; hand them over by a file or by standard input",
                        options->argv.n_items + options->env.n_items, size,
                        JOB_WIRE_STRINGS_MAX / 2, JOB_WIRE_SIZE_MAX / 2);
        return r;
}

static int check_together(RunOptions *options, char **ret_text) {
        uint64_t usec;
        int r;

        if (options->timeout && options->limits.given & 1U << LIMIT_WALL_TIME)
                return option_invalid(ret_text,
                                      "--timeout and --limit wall_time are the same limit; give "
                                      "one of them");
        if (options->timeout) {
                r = limit_parse_value(LIMIT_WALL_TIME, options->timeout, &usec, ret_text);
                if (r < 0)
                        return error_trace(r);
                limits_set(&options->limits, LIMIT_WALL_TIME, usec);
        }
        if (options->tty && options->json)
                return option_invalid(ret_text,
                                      "--tty and --json exclude each other: a terminal's output "
                                      "is not kept; use --result for the record");
        if (options->capture_given && !options->json)
                return option_invalid(ret_text, "--capture has no meaning without --json");
        if (options->argv.n_items == 0 && options->action == RUN_ACTION_RUN)
                return option_invalid(ret_text, "no command was given; see agentcrate-run --help");
        return check_sizes(options, ret_text);
}

void run_options_done(RunOptions *options) {
        strv_done(&options->argv);
        free(options->workspace);
        for (size_t i = 0; i < options->n_binds; i++)
                free(options->binds[i].path);
        free(options->binds);
        free(options->cwd);
        strv_done(&options->env);
        free(options->template);
        free(options->profile);
        free(options->timeout);
        free(options->result);
        destination_list_done(&options->allow);
        strv_done(&options->operations);
        *options = (RunOptions){};
}

int run_options_parse(int argc, char *const *argv, RunOptions *ret_options, char **ret_text) {
        _cleanup_(run_options_done) RunOptions options = {.capture = CAPTURE_DEFAULT};
        int r;

        r = option_table_parse(&run_options_table, argc, argv, &options, &options.argv, ret_text);
        if (r == 0 && (options.action == RUN_ACTION_RUN || options.action == RUN_ACTION_PRINT_PLAN))
                r = check_together(&options, ret_text);
        if (r != 0)
                return r < 0 ? error_trace(r) : RUN_OPTIONS_E_INVALID;

        *ret_options = options;
        options = (RunOptions){};
        return 0;
}

void run_options_print_help(FILE *out) {
        fputs("Usage: agentcrate-run [OPTIONS] [--] COMMAND [ARG...]\n"
              "Run a command in a fresh crate: new namespaces, no capabilities, no network but\n"
              "what --allow names, and of the host only what the template and the options "
              "show.\n\n",
              out);
        option_table_print(&run_options_table, out);
        fputs("\nExit status: the command's own; 128+n when signal n ended it; 124 wall_time; 137\n"
              "another limit; 125 agentcrate-run itself failed; 126 the command cannot be\n"
              "executed; 127 it was not found. See agentcrate-run(1).\n",
              out);
}
