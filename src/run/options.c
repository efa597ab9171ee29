/* SPDX-License-Identifier: Apache-2.0 */
#include "run/options.h"

#include <inttypes.h>
#include <stdarg.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/parse-util.h"
#include "crate/capture.h"
#include "plan/job-wire.h"

typedef struct Option Option;

struct Option {
        const char *name;     /* long name without dashes; NULL if none */
        char letter;          /* 0 if none */
        const char *argument; /* what stands behind it; NULL: a flag */
        int (*take)(const Option *option, const char *value, RunOptions *options, char **ret_text);
        size_t offset; /* of the member, for those that only store */
        const char *help;
};

/* --- what an option does with its value --- */

static int _printf_(2, 3) invalid(char **ret_text, const char *format, ...) {
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(ret_text, format, ap);
        va_end(ap);
        return n < 0 ? error_origin(-ENOMEM) : RUN_OPTIONS_E_INVALID;
}

/* "--limit" or "-w", as messages name it. */
static const char *option_spell(const Option *option, char buf[static 40]) {
        if (option->name)
                (void) snprintf(buf, 40, "--%s", option->name);
        else
                (void) snprintf(buf, 40, "-%c", option->letter);
        return buf;
}

static int string_replace(char **string, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return error_origin(-ENOMEM);
        free(*string);
        *string = copy;
        return 0;
}

static int take_flag(const Option *option, const char *value _unused_, RunOptions *options,
                     char **ret_text _unused_) {
        *(bool *) ((char *) options + option->offset) = true;
        return 0;
}

static int take_string(const Option *option, const char *value, RunOptions *options,
                       char **ret_text) {
        char spelled[40];

        if (string_empty(value))
                return invalid(ret_text, "%s has an empty value; give %s",
                               option_spell(option, spelled), option->argument);
        return string_replace((char **) ((char *) options + option->offset), value);
}

static int take_action(const Option *option, const char *value _unused_, RunOptions *options,
                       char **ret_text _unused_) {
        options->action = (RunAction) option->offset;
        return 0;
}

static int take_workspace(const Option *option _unused_, const char *value, RunOptions *options,
                          char **ret_text) {
        _cleanup_(freep) char *path = NULL;
        const char *mode = strrchr(value, ':');

        options->workspace_ro = mode && string_equal(mode, ":ro");
        if (mode && string_equal(mode, ":cow"))
                return invalid(ret_text, "--workspace: the mode cow is not built yet; use DIR for "
                                         "reading and writing or DIR:ro");
        path = options->workspace_ro ? strndup(value, (size_t) (mode - value)) : strdup(value);
        if (!path)
                return error_origin(-ENOMEM);
        if (string_empty(path))
                return invalid(ret_text, "--workspace has an empty path; give a folder");
        free(options->workspace);
        options->workspace = TAKE_PTR(path);
        return 0;
}

static int take_bind(const Option *option, const char *value, RunOptions *options,
                     char **ret_text) {
        _cleanup_(freep) char *path = NULL;
        RunBind *binds;

        if (string_empty(value))
                return invalid(ret_text, "--%s has an empty path; give a file or a folder",
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

static int take_cwd(const Option *option _unused_, const char *value, RunOptions *options,
                    char **ret_text) {
        char *cwd;

        if (string_empty(value))
                return invalid(ret_text, "-C has an empty path; give a folder in the crate");
        if (asprintf(&cwd, "%s%s", value[0] == '/' ? "" : "/workspace/", value) < 0)
                return error_origin(-ENOMEM);
        free(options->cwd);
        options->cwd = cwd;
        return 0;
}

static int take_env(const Option *option _unused_, const char *value, RunOptions *options,
                    char **ret_text) {
        const char *equals = strchr(value, '=');
        _cleanup_(freep) char *name = NULL, *quoted = NULL;
        const char *content;

        name = equals ? strndup(value, (size_t) (equals - value)) : strdup(value);
        if (!name)
                return error_origin(-ENOMEM);
        if (string_empty(name))
                return invalid(ret_text, "-e has an empty name; give NAME or NAME=VALUE");

        content = equals ? equals + 1 : secure_getenv(name);
        if (!content) {
                quoted = diag_quote(name);
                return invalid(ret_text, "-e %s: not set in this environment; give NAME=VALUE",
                               quoted ?: "");
        }
        return error_trace(strv_env_set(&options->env, name, content));
}

static int take_timeout(const Option *option _unused_, const char *value, RunOptions *options,
                        char **ret_text) {
        _cleanup_(freep) char *text = NULL;
        uint64_t usec;
        int r;

        r = limit_parse_value(LIMIT_WALL_TIME, value, &usec, &text);
        if (r == -EINVAL)
                return invalid(ret_text, "--timeout: %s", text);
        if (r < 0)
                return error_trace(r);
        return string_replace(&options->timeout, value);
}

static int take_limit(const Option *option _unused_, const char *value, RunOptions *options,
                      char **ret_text) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = limits_parse_option(&options->limits, value, &text);
        if (r == -EINVAL)
                return invalid(ret_text, "--limit: %s", text);
        return error_trace(r);
}

static int take_on_hit(const Option *option _unused_, const char *value, RunOptions *options,
                       char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;

        options->on_hit_given = true;
        if (on_hit_from_string(value, &options->on_hit) >= 0)
                return 0;
        quoted = diag_quote(value);
        return invalid(ret_text, "--on-hit %s is unknown; known are end and refuse", quoted ?: "");
}

static int take_capture(const Option *option _unused_, const char *value, RunOptions *options,
                        char **ret_text) {
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
        return invalid(ret_text, "--capture %s %s; give 0 to %u bytes, such as 64K", quoted ?: "",
                       r == 0 ? "is too large" : parse_error_to_string(r), CAPTURE_MAX);
}

/* --- the table --- */

#define MEMBER(m) offsetof(RunOptions, m)

static const Option option_table[] = {
        {"workspace", 'w', "DIR[:ro]", take_workspace, 0,
         "the host's folder DIR is /workspace, and the command starts there; :ro makes it "
         "read-only. Without it /workspace is empty and private"},
        {"ro", 0, "PATH", take_bind, 0, "show the host's PATH, read-only, at the same place"},
        {"rw", 0, "PATH", take_bind, 0, "show the host's PATH, writable, at the same place"},
        {NULL, 'C', "DIR", take_cwd, 0,
         "start the command in this folder of the crate; a relative one is below /workspace"},
        {NULL, 'e', "NAME[=VALUE]", take_env, 0,
         "set a variable for the command; without VALUE it is taken from here"},
        {"template", 0, "NAME", take_string, MEMBER(template), "what the crate sees; default host"},
        {"profile", 0, "NAME", take_string, MEMBER(profile),
         "the seccomp profile; default is the template's"},
        {"timeout", 't', "TIME", take_timeout, 0,
         "end the job after TIME (ms, s, m, h; seconds without a suffix); the same as --limit "
         "wall_time=TIME"},
        {"limit", 0, "NAME=VALUE", take_limit, 0,
         "bound wall_time, output, open_files, file_size, disk or inodes; may be given repeatedly"},
        {"on-hit", 0, "end|refuse", take_on_hit, 0,
         "what a limit does that the kernel refuses piecemeal: end the job (default), or refuse "
         "and count"},
        {"capture", 0, "BYTES", take_capture, 0,
         "with --json: how much of each output stream the record keeps, first and last half; "
         "default 256K"},
        {"result", 0, "FILE", take_string, MEMBER(result),
         "write the result record, without output, to FILE"},
        {"json", 0, NULL, take_flag, MEMBER(json),
         "print the result record, with output, instead of the output"},
        {"tty", 0, NULL, take_flag, MEMBER(tty), "give the command a terminal of its own"},
        {"print-plan", 0, NULL, take_action, RUN_ACTION_PRINT_PLAN,
         "print what the crate would be made of, and run nothing"},
        {"help", 'h', NULL, take_action, RUN_ACTION_HELP, "print this text"},
        {"version", 0, NULL, take_action, RUN_ACTION_VERSION, "print the version"},
};

/* --- the parser --- */

typedef struct Parser {
        int argc;
        char *const *argv;
        int i;
        RunOptions *options;
        char **ret_text;
} Parser;

static const Option *option_find(const char *name, size_t size) {
        for (size_t i = 0; i < ELEMENTSOF(option_table); i++)
                if (option_table[i].name && strlen(option_table[i].name) == size &&
                    memcmp(option_table[i].name, name, size) == 0)
                        return &option_table[i];
        return NULL;
}

static const Option *option_find_letter(char letter) {
        for (size_t i = 0; i < ELEMENTSOF(option_table); i++)
                if (option_table[i].letter && option_table[i].letter == letter)
                        return &option_table[i];
        return NULL;
}

static int unknown_option(Parser *parser, const char *argument) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = diag_quote(argument);

        for (size_t i = 0; i < ELEMENTSOF(option_table); i++) {
                char spelled[40];

                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "",
                                   option_spell(&option_table[i], spelled)) < 0)
                        return error_origin(-ENOMEM);
        }
        return invalid(parser->ret_text, "option %s is unknown; known are %s", quoted ?: "",
                       known.data);
}

/* Hands the option its value: the rest of its own argument if there is one, else the next argument.
 */
static int option_apply(Parser *parser, const Option *option, const char *attached) {
        const char *value = attached;
        char spelled[40];

        if (!option->argument && attached)
                return invalid(parser->ret_text, "option %s takes no value",
                               option_spell(option, spelled));
        if (option->argument && !attached) {
                if (parser->i >= parser->argc)
                        return invalid(parser->ret_text, "option %s needs a value: %s",
                                       option_spell(option, spelled), option->argument);
                value = parser->argv[parser->i++];
        }
        return option->take(option, value, parser->options, parser->ret_text);
}

static int parse_one(Parser *parser) {
        const char *argument = parser->argv[parser->i++];
        const Option *option;

        if (argument[1] == '-') {
                const char *name = argument + 2;
                const char *equals = strchr(name, '=');

                option = option_find(name, equals ? (size_t) (equals - name) : strlen(name));
                return option ? option_apply(parser, option, equals ? equals + 1 : NULL)
                              : unknown_option(parser, argument);
        }
        option = option_find_letter(argument[1]);
        return option ? option_apply(parser, option, argument[2] ? argument + 2 : NULL)
                      : unknown_option(parser, argument);
}

/* A string longer than this is refused by the kernel's exec, whatever ARG_MAX says. */
static int check_size(const char *what, size_t number, const char *string, char **ret_text) {
        size_t size = strlen(string);

        if (size <= JOB_ARGUMENT_MAX)
                return 0;
        return invalid(ret_text,
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
                return invalid(ret_text,
                               "arguments and -e together are %zu strings of %zu bytes, the limit "
                               "is %u of %u; hand them over by a file or by standard input",
                               options->argv.n_items + options->env.n_items, size,
                               JOB_WIRE_STRINGS_MAX / 2, JOB_WIRE_SIZE_MAX / 2);
        return r;
}

/* What no option alone can tell. */
static int check_together(RunOptions *options, char **ret_text) {
        uint64_t usec;
        int r;

        if (options->timeout && options->limits.given & 1U << LIMIT_WALL_TIME)
                return invalid(ret_text, "--timeout and --limit wall_time are the same limit; give "
                                         "one of them");
        if (options->timeout) {
                r = limit_parse_value(LIMIT_WALL_TIME, options->timeout, &usec, ret_text);
                if (r < 0)
                        return error_trace(r);
                limits_set(&options->limits, LIMIT_WALL_TIME, usec);
        }
        if (options->tty && options->json)
                return invalid(ret_text, "--tty and --json exclude each other: a terminal's output "
                                         "is not kept; use --result for the record");
        if (options->capture_given && !options->json)
                return invalid(ret_text, "--capture has no meaning without --json");
        if (options->argv.n_items == 0 && options->action == RUN_ACTION_RUN)
                return invalid(ret_text, "no command was given; see agentcrate-run --help");
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
        *options = (RunOptions){};
}

int run_options_parse(int argc, char *const *argv, RunOptions *ret_options, char **ret_text) {
        _cleanup_(run_options_done) RunOptions options = {.capture = CAPTURE_DEFAULT};
        Parser parser = {
                .argc = argc, .argv = argv, .i = 1, .options = &options, .ret_text = ret_text};
        int r;

        while (parser.i < argc && argv[parser.i][0] == '-' && argv[parser.i][1]) {
                if (string_equal(argv[parser.i], "--")) {
                        parser.i++;
                        break;
                }
                r = parse_one(&parser);
                if (r != 0)
                        return r;
                if (options.action == RUN_ACTION_HELP || options.action == RUN_ACTION_VERSION) {
                        parser.i = argc;
                        break;
                }
        }
        while (parser.i < argc) {
                r = strv_append(&options.argv, argv[parser.i++]);
                if (r < 0)
                        return error_trace(r);
        }
        if (options.action == RUN_ACTION_RUN || options.action == RUN_ACTION_PRINT_PLAN) {
                r = check_together(&options, ret_text);
                if (r != 0)
                        return r;
        }
        *ret_options = options;
        options = (RunOptions){};
        return 0;
}

/* --- help --- */

#define HELP_COLUMN 26U
#define HELP_WIDTH 78U

/* The words of text in lines, the first of which begins at the present column. */
static void print_wrapped(FILE *out, const char *text) {
        size_t column = HELP_COLUMN;

        while (*text) {
                size_t word = strcspn(text, " ");

                if (column > HELP_COLUMN && column + 1 + word > HELP_WIDTH) {
                        fprintf(out, "\n%*s", (int) HELP_COLUMN, "");
                        column = HELP_COLUMN;
                } else if (column > HELP_COLUMN) {
                        fputc(' ', out);
                        column++;
                }
                fprintf(out, "%.*s", (int) word, text);
                column += word;
                text += word + strspn(text + word, " ");
        }
        fputc('\n', out);
}

static void print_option(FILE *out, const Option *option) {
        char letter[8] = "    ", left[80];

        if (option->letter)
                (void) snprintf(letter, sizeof(letter), "-%c%s", option->letter,
                                option->name ? ", " : "");
        (void) snprintf(left, sizeof(left), "  %s%s%s%s%s", letter, option->name ? "--" : "",
                        option->name ?: "", option->argument ? " " : "", option->argument ?: "");
        fputs(left, out);
        if (strlen(left) + 2 > HELP_COLUMN)
                fprintf(out, "\n%*s", (int) HELP_COLUMN, "");
        else
                fprintf(out, "%*s", (int) (HELP_COLUMN - strlen(left)), "");
        print_wrapped(out, option->help);
}

void run_options_print_help(FILE *out) {
        fputs("Usage: agentcrate-run [OPTIONS] [--] COMMAND [ARG...]\n"
              "Run a command in a fresh crate: new namespaces, no network, no capabilities, and\n"
              "of the host only what the template and the options show.\n\n",
              out);
        for (size_t i = 0; i < ELEMENTSOF(option_table); i++)
                print_option(out, &option_table[i]);
        fputs("\nExit status: the command's own; 128+n when signal n ended it; 124 wall_time; 137\n"
              "another limit; 125 agentcrate-run itself failed; 126 the command cannot be\n"
              "executed; 127 it was not found. See agentcrate-run(1).\n",
              out);
}
