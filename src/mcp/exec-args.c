/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/exec-args.h"

#include <inttypes.h>
#include <nettle/base64.h>
#include <stdarg.h>
#include <stdio.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/time-util.h"
#include "plan/job-wire.h"
#include "policy/credential.h"
#include "policy/reader.h"

/* What the environment of the template may add to the caller's strings. */
#define STRINGS_RESERVE 256U
#define BYTES_RESERVE (256U << 10)

#define ARGUMENTS_PREFIX "params.arguments."

typedef struct ExecParser {
        const JsonDoc *doc;
        ExecArgs *args;
        char *text; /* the first fault */
        bool timeout_given;
        bool stdin_base64;
        size_t n_strings, n_bytes; /* of argv and env together */
} ExecParser;

typedef struct ExecArgument {
        const char *name;
        int (*parse)(ExecParser *parser, const JsonNode *node);
        bool hidden; /* known, but not taken yet */
} ExecArgument;

void exec_args_init(ExecArgs *args) {
        *args = (ExecArgs){};
}

void exec_args_done(ExecArgs *args) {
        strv_done(&args->argv);
        free(args->command);
        free(args->stdin_data);
        free(args->cwd);
        strv_done(&args->env);
        free(args->template);
        free(args->workspace);
        destination_list_done(&args->egress);
        strv_done(&args->operations);
        *args = (ExecArgs){};
}

/* Returns EXEC_ARGS_E_INVALID, or -ENOMEM. */
static int fault(ExecParser *parser, const char *format, ...) _printf_(2, 3);
static int fault(ExecParser *parser, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&parser->text, format, ap);
        va_end(ap);
        if (r < 0) {
                parser->text = NULL;
                return error_origin(-ENOMEM);
        }
        return EXEC_ARGS_E_INVALID;
}

/* A string without NUL; what is its name in texts. */
static int parse_string(ExecParser *parser, const JsonNode *node, const char *what,
                        char **ret_string) {
        int r;

        r = json_node_string(parser->doc, node, ret_string, NULL);
        if (r < 0)
                return error_trace(r);
        if (r == JSON_NODE_E_NUL)
                return fault(parser, "%s holds the character NUL (U+0000): leave it out", what);
        if (r > 0)
                return fault(parser, "%s must be a string", what);
        return 0;
}

static int parse_not_empty(ExecParser *parser, const JsonNode *node, const char *what,
                           char **ret_string) {
        _cleanup_(freep) char *string = NULL;
        int r;

        r = parse_string(parser, node, what, &string);
        if (r != 0)
                return r;
        if (string_empty(string))
                return fault(parser, "%s must not be empty", what);

        *ret_string = TAKE_PTR(string);
        return 0;
}

static int parse_absolute(ExecParser *parser, const JsonNode *node, const char *what,
                          char **ret_path) {
        _cleanup_(freep) char *path = NULL, *quoted = NULL;
        int r;

        r = parse_not_empty(parser, node, what, &path);
        if (r != 0)
                return r;
        if (path[0] != '/') {
                quoted = diag_quote(path);
                return fault(parser, "%s must be an absolute path, not %s", what, quoted ?: "that");
        }

        *ret_path = TAKE_PTR(path);
        return 0;
}

/* Counts one string of argv or env and checks what the kernel would refuse. */
static int count_string(ExecParser *parser, const char *what, size_t size) {
        if (size > JOB_ARGUMENT_MAX)
                return fault(parser,
                             "%s has %zu bytes, and the limit for one string is %u: send long "
                             "input as stdin, or shell text as command",
                             what, size, JOB_ARGUMENT_MAX);

        parser->n_strings++;
        parser->n_bytes += size + 1;
        if (parser->n_strings > JOB_WIRE_STRINGS_MAX - STRINGS_RESERVE)
                return fault(parser, "argv and env together have more than %u strings",
                             JOB_WIRE_STRINGS_MAX - STRINGS_RESERVE);
        if (parser->n_bytes > JOB_WIRE_SIZE_MAX - BYTES_RESERVE)
                return fault(parser,
                             "argv and env together have more than %u bytes: send long input as "
                             "stdin",
                             JOB_WIRE_SIZE_MAX - BYTES_RESERVE);
        return 0;
}

static int parse_argv(ExecParser *parser, const JsonNode *node) {
        char what[32];
        size_t i = 0;
        int r;

        if (node->type != JSON_NODE_ARRAY)
                return fault(parser, "argv must be an array of strings such as [\"ls\", \"-l\"]; "
                                     "shell text goes into command");
        if (node->n_children == 0)
                return fault(parser, "argv must not be empty: its first string is the program");

        for (node = node->first; node; node = node->next, i++) {
                _cleanup_(freep) char *string = NULL;

                (void) snprintf(what, sizeof(what), "argv[%zu]", i);
                r = parse_string(parser, node, what, &string);
                if (r == 0)
                        r = count_string(parser, what, strlen(string));
                if (r == 0)
                        r = error_trace(strv_append(&parser->args->argv, string));
                if (r != 0)
                        return r;
        }

        if (string_empty(parser->args->argv.items[0]))
                return fault(parser, "argv[0] must not be empty: it is the program");
        return 0;
}

static int parse_command(ExecParser *parser, const JsonNode *node) {
        int r;

        r = parse_string(parser, node, "command", &parser->args->command);
        if (r != 0)
                return r;

        parser->args->command_size = strlen(parser->args->command);
        if (parser->args->command[strspn(parser->args->command, " \t\r\n")] == 0)
                return fault(parser, "command must not be empty: it is shell text");
        return 0;
}

/* stdin may hold any character, NUL as well. */
static int parse_stdin(ExecParser *parser, const JsonNode *node) {
        int r;

        r = json_node_string(parser->doc, node, &parser->args->stdin_data,
                             &parser->args->stdin_size);
        if (r < 0)
                return error_trace(r);
        if (r > 0)
                return fault(parser, "stdin must be a string");
        return 0;
}

static int parse_stdin_encoding(ExecParser *parser, const JsonNode *node) {
        if (json_node_string_equal(parser->doc, node, "base64"))
                parser->stdin_base64 = true;
        else if (!json_node_string_equal(parser->doc, node, "utf-8"))
                return fault(parser, "stdin_encoding must be \"utf-8\" or \"base64\"");
        return 0;
}

static int parse_cwd(ExecParser *parser, const JsonNode *node) {
        return parse_absolute(parser, node, "cwd", &parser->args->cwd);
}

static int parse_env(ExecParser *parser, const JsonNode *node) {
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return fault(parser, "env must be an object such as {\"NAME\": \"value\"}");

        for (node = node->first; node; node = node->next) {
                _cleanup_(freep) char *name = NULL, *value = NULL, *quoted = NULL, *what = NULL;

                r = json_node_key(parser->doc, node, &name);
                if (r < 0)
                        return error_trace(r);

                quoted = diag_quote(name);
                if (!quoted || asprintf(&what, "env[%s]", quoted) < 0)
                        return error_origin(-ENOMEM);
                if (name[0] == 0 || strchr(name, '='))
                        return fault(parser, "%s: a name must not be empty and must not hold \"=\"",
                                     what);

                r = parse_string(parser, node, what, &value);
                if (r == 0)
                        r = count_string(parser, what, strlen(name) + 1 + strlen(value));
                if (r == 0)
                        r = error_trace(strv_env_set(&parser->args->env, name, value));
                if (r != 0)
                        return r;
        }
        return 0;
}

/* An integer of at least min and at most max. */
static int parse_integer(ExecParser *parser, const JsonNode *node, const char *what, int64_t min,
                         int64_t max, int64_t *ret_value) {
        int64_t value;
        int r;

        r = json_node_int64(parser->doc, node, &value);
        if (r < 0)
                return error_trace(r);
        if (r > 0 || value < min || value > max)
                return fault(parser, "%s must be an integer from %" PRIi64 " to %" PRIi64, what,
                             min, max);

        *ret_value = value;
        return 0;
}

static int parse_timeout(ExecParser *parser, const JsonNode *node) {
        int64_t ms = 0;
        int r;

        r = json_node_int64(parser->doc, node, &ms);
        if (r < 0)
                return error_trace(r);
        if (r > 0 || ms < 1)
                return fault(parser, "timeout_ms must be a positive integer: milliseconds");

        /* More than this no clock reaches. */
        if (ms > INT64_MAX / (int64_t) USEC_PER_MSEC)
                ms = INT64_MAX / (int64_t) USEC_PER_MSEC;
        parser->timeout_given = true;
        limits_set(&parser->args->limits, LIMIT_WALL_TIME, (uint64_t) ms * USEC_PER_MSEC);
        return 0;
}

static int parse_limits(ExecParser *parser, const JsonNode *node) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        Limits limits = {};
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return fault(parser, "limits must be an object such as {\"wall_time\": \"10s\"}");

        r = limits_parse_json(&limits, parser->doc, node, "", &diags);
        if (r < 0 && diags.n_items == 0)
                return error_trace(r);

        for (size_t i = 0; i < diags.n_items; i++) {
                const char *path = diags.items[i].path ?: "";

                r = strbuf_appendf(&text, "%s%s: %s", i > 0 ? "; " : "",
                                   string_after(path, ARGUMENTS_PREFIX) ?: path,
                                   diags.items[i].text);
                if (r < 0)
                        return error_trace(r);
        }
        if (diags.n_items > 0)
                return fault(parser, "%s", text.data);

        if (parser->timeout_given && limits.given & (1U << LIMIT_WALL_TIME))
                return fault(parser, "timeout_ms and limits.wall_time are the same limit: send "
                                     "only one of them");

        limits_merge(&parser->args->limits, &limits);
        return 0;
}

static int parse_capture(ExecParser *parser, const JsonNode *node) {
        int64_t value = 0;
        int r;

        r = parse_integer(parser, node, "capture (bytes)", 0, EXEC_ARGS_CAPTURE_MAX, &value);
        if (r != 0)
                return r;

        parser->args->capture_given = true;
        parser->args->capture = (size_t) value;
        return 0;
}

static int parse_on_hit(ExecParser *parser, const JsonNode *node) {
        _cleanup_(freep) char *value = NULL;
        int r;

        r = parse_string(parser, node, "on_hit", &value);
        if (r != 0)
                return r;
        if (on_hit_from_string(value, &parser->args->on_hit) < 0)
                return fault(parser, "on_hit must be \"end\" or \"refuse\"");

        parser->args->on_hit_given = true;
        return 0;
}

static int parse_template(ExecParser *parser, const JsonNode *node) {
        return parse_not_empty(parser, node, "template", &parser->args->template);
}

static int parse_workspace_mode(ExecParser *parser, const JsonNode *node) {
        if (json_node_string_equal(parser->doc, node, "cow"))
                return fault(parser, "workspace.mode \"cow\" is not built yet: send \"ro\" or "
                                     "\"rw\"");
        if (json_node_string_equal(parser->doc, node, "ro"))
                parser->args->workspace_ro = true;
        else if (!json_node_string_equal(parser->doc, node, "rw"))
                return fault(parser, "workspace.mode must be \"ro\" or \"rw\"");

        parser->args->workspace_mode_given = true;
        return 0;
}

static int parse_workspace(ExecParser *parser, const JsonNode *node) {
        const JsonNode *path, *mode;
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return fault(parser, "workspace must be an object such as {\"path\": "
                                     "\"/home/me/project\", \"mode\": \"ro\"}");

        path = json_node_member(parser->doc, node, "path");
        mode = json_node_member(parser->doc, node, "mode");
        if (node->n_children != (size_t) (!!path + !!mode))
                return fault(parser, "workspace has the members path and mode, and no others");
        if (!path)
                return fault(parser, "workspace.path is missing");

        r = parse_absolute(parser, path, "workspace.path", &parser->args->workspace);
        if (r != 0 || !mode)
                return r;
        return parse_workspace_mode(parser, mode);
}

static int parse_sandbox(ExecParser *parser, const JsonNode *node _unused_) {
        return fault(parser, "sandbox is not built yet: leave it out, each call gets a fresh "
                             "sandbox of its own");
}

/* By the reader of files, whose first fault is the text. */
static int parse_egress(ExecParser *parser, const JsonNode *node) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        const Reader reader = {.file = "arguments", .doc = parser->doc, .diags = &diags};
        const char *path;
        int r;

        r = destination_list_read(&reader, node, &parser->args->egress);
        if (r < 0 || diags.n_items == 0)
                return error_trace(r);
        path = diags.items[0].path ? strstr(diags.items[0].path, "egress") : NULL;
        return fault(parser, "%s: %s", path ?: "egress", diags.items[0].text);
}

static int parse_operations(ExecParser *parser, const JsonNode *node) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        const Reader reader = {.file = "arguments", .doc = parser->doc, .diags = &diags};
        const char *path;
        int r;

        r = credential_rules_read(&reader, node, &parser->args->operations);
        if (r < 0 || diags.n_items == 0)
                return error_trace(r);
        path = diags.items[0].path ? strstr(diags.items[0].path, "operations") : NULL;
        return fault(parser, "%s: %s", path ?: "operations", diags.items[0].text);
}

/* In the order in which they are parsed: limits comes after timeout_ms, since both set wall_time.
 * What is hidden comes last, where exec_args_name() ends. */
static const ExecArgument arguments[] = {
        {"argv", parse_argv, false},
        {"command", parse_command, false},
        {"stdin", parse_stdin, false},
        {"stdin_encoding", parse_stdin_encoding, false},
        {"cwd", parse_cwd, false},
        {"env", parse_env, false},
        {"timeout_ms", parse_timeout, false},
        {"limits", parse_limits, false},
        {"capture", parse_capture, false},
        {"on_hit", parse_on_hit, false},
        {"template", parse_template, false},
        {"workspace", parse_workspace, false},
        {"egress", parse_egress, false},
        {"operations", parse_operations, false},
        {"sandbox", parse_sandbox, true},
};

const char *exec_args_name(size_t i) {
        return i < ELEMENTSOF(arguments) && !arguments[i].hidden ? arguments[i].name : NULL;
}

static int check_unknown(ExecParser *parser, const JsonNode *object) {
        size_t known = 0;

        for (size_t i = 0; i < ELEMENTSOF(arguments); i++)
                known += !!json_node_member(parser->doc, object, arguments[i].name);
        if (known == object->n_children)
                return 0;

        for (const JsonNode *node = object->first; node; node = node->next) {
                _cleanup_(freep) char *name = NULL, *quoted = NULL;
                _cleanup_(strbuf_done) StrBuf list = STRBUF_NULL;
                bool found = false;
                int r;

                r = json_node_key(parser->doc, node, &name);
                if (r < 0)
                        return error_trace(r);
                for (size_t i = 0; i < ELEMENTSOF(arguments); i++)
                        found = found || string_equal(arguments[i].name, name);
                if (found)
                        continue;

                for (size_t i = 0; exec_args_name(i); i++)
                        if (strbuf_appendf(&list, "%s%s", i > 0 ? ", " : "", exec_args_name(i)) < 0)
                                return error_origin(-ENOMEM);
                quoted = diag_quote(name);
                return fault(parser, "there is no argument %s; the arguments are %s",
                             quoted ?: name, list.data);
        }
        return 0;
}

static int decode_stdin(ExecParser *parser) {
        ExecArgs *args = parser->args;
        struct base64_decode_ctx context;
        _cleanup_(freep) char *decoded = NULL;
        size_t size;

        if (!args->stdin_data)
                return fault(parser, "stdin_encoding was sent without stdin");

        size = BASE64_DECODE_LENGTH(args->stdin_size);
        decoded = malloc(size + 1);
        if (!decoded)
                return error_origin(-ENOMEM);

        base64_decode_init(&context);
        if (!base64_decode_update(&context, &size, (uint8_t *) decoded, args->stdin_size,
                                  args->stdin_data) ||
            !base64_decode_final(&context))
                return fault(parser, "stdin is no valid base64");

        free(args->stdin_data);
        args->stdin_data = TAKE_PTR(decoded);
        args->stdin_size = size;
        return 0;
}

/* What only shows when all arguments are known. */
static int check_whole(ExecParser *parser) {
        ExecArgs *args = parser->args;

        if (args->argv.n_items == 0 && !args->command)
                return fault(parser, "send argv (program and arguments) or command (shell text)");
        if (args->argv.n_items > 0 && args->command)
                return fault(parser, "send either argv or command, not both");
        return parser->stdin_base64 ? decode_stdin(parser) : 0;
}

static int parse_all(ExecParser *parser, const JsonNode *object) {
        int r;

        if (!object)
                return check_whole(parser);

        r = check_unknown(parser, object);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(arguments); i++) {
                const JsonNode *node = json_node_member(parser->doc, object, arguments[i].name);

                if (node)
                        r = arguments[i].parse(parser, node);
        }
        return r == 0 ? check_whole(parser) : r;
}

int exec_args_parse(const JsonDoc *doc, const JsonNode *object, ExecArgs *ret_args,
                    char **ret_text) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        ExecParser parser = {.doc = doc, .args = &args};
        int r;

        exec_args_init(&args);
        r = parse_all(&parser, object);
        if (r == EXEC_ARGS_E_INVALID)
                *ret_text = parser.text;
        else
                free(parser.text);
        if (r != 0)
                return r;

        *ret_args = args;
        args = (ExecArgs){};
        return 0;
}
