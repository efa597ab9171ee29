/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate audit: reads the audit log. It asks no broker, so it works where none runs, and on
 * files that were brought from elsewhere.
 */

#include "cli/audit.h"

#include <time.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/parse-util.h"
#include "basic/time-util.h"
#include "policy/policy.h"

#define TAIL_LINES 10U

typedef struct Verb {
        const char *name;
        int (*run)(const AuditOptions *options, StrV *files);
        size_t files_max;
        bool filters, follows, heads, prints; /* the options that it takes */
} Verb;

static const Verb verbs[] = {
        {.name = "verify", .run = audit_verify, .files_max = SIZE_MAX, .heads = true},
        {.name = "query",
         .run = audit_query,
         .files_max = SIZE_MAX,
         .filters = true,
         .prints = true},
        {.name = "tail", .run = audit_tail, .files_max = 1, .follows = true, .prints = true},
};

static void audit_options_done(AuditOptions *options) {
        common_options_done(&options->common);
        free(options->head);
        free(options->tenant);
        free(options->tool);
        free(options->outcome);
        *options = (AuditOptions){};
}

/* --- options --- */

static int take_lines(const Option *option _unused_, const char *value, void *target,
                      char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;
        AuditOptions *options = target;
        int r;

        r = parse_uint64(value, &options->lines);
        if (r == 0) {
                options->lines_given = true;
                return 0;
        }
        quoted = diag_quote(value);
        return option_invalid(ret_text, "-n %s: it %s; give a number of lines", quoted ?: "",
                              parse_error_to_string(r));
}

/* Those of the result record, and of calls that have none. */
static int take_outcome(const Option *option, const char *value, void *target, char **ret_text) {
        static const char *const words[] = {"exited",      "signaled",  "limit",
                                            "exec_failed", "cancelled", "lost",
                                            "denied",      "refused",   "error"};
        _cleanup_(freep) char *quoted = NULL;

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (string_equal(value, words[i]))
                        return option_take_string(option, value, target, ret_text);
        quoted = diag_quote(value);
        return option_invalid(ret_text,
                              "--outcome %s: there is no such outcome; there are exited, signaled, "
                              "limit, exec_failed, cancelled, lost, denied, refused and error",
                              quoted ?: "");
}

/* A moment, or so long ago. */
static int take_moment(const Option *option, const char *value, void *target, char **ret_text) {
        uint64_t *usec = (uint64_t *) ((char *) target + option->offset), ago;
        _cleanup_(freep) char *quoted = NULL;
        uint64_t now = audit_stamp_now().wall_usec;

        if (audit_parse_time(value, usec) == 0)
                return 0;
        if (parse_time_usec(value, &ago) == 0 && ago < now) {
                *usec = now - ago;
                return 0;
        }
        quoted = diag_quote(value);
        return option_invalid(ret_text,
                              "--%s %s: give a time in UTC such as 2026-01-31T12:00:00Z, a day "
                              "such as 2026-01-31, or so long ago such as 10m",
                              option->name, quoted ?: "");
}

static const Option option_rows[] = {
        {"lines", 'n', "NUMBER", take_lines, 0, "tail: print so many lines; default is 10"},
        {"follow", 'f', NULL, option_take_flag, offsetof(AuditOptions, follow),
         "tail: go on with what comes, also in the file that follows a rotation"},
        {"tenant", 0, "NAME", option_take_string, offsetof(AuditOptions, tenant),
         "query: only calls of that tenant"},
        {"tool", 0, "NAME", option_take_string, offsetof(AuditOptions, tool),
         "query: only calls of that tool"},
        {"outcome", 0, "WORD", take_outcome, offsetof(AuditOptions, outcome),
         "query: only ends with that outcome, such as exited, limit or denied"},
        {"since", 0, "TIME", take_moment, offsetof(AuditOptions, since_usec),
         "query: only from that time on: 2026-01-31T12:00:00Z, 2026-01-31, or 10m for so long ago"},
        {"until", 0, "TIME", take_moment, offsetof(AuditOptions, until_usec),
         "query: only what was before that time"},
        {"head", 0, "FILE", option_take_string, offsetof(AuditOptions, head),
         "verify: the head that the chain must come to; default is audit.head beside audit.jsonl"},
        OPTION_ROW_JSON("tail, query: print the lines as they are"),
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

static const char *find_misplaced(const AuditOptions *options, const Verb *verb) {
        if (!verb->follows && (options->lines_given || options->follow))
                return options->follow ? "--follow" : "--lines";
        if (!verb->filters && (options->tenant || options->tool || options->outcome))
                return options->tenant ? "--tenant" : options->tool ? "--tool" : "--outcome";
        if (!verb->filters && (options->since_usec || options->until_usec))
                return options->since_usec ? "--since" : "--until";
        if (!verb->heads && options->head)
                return "--head";
        return !verb->prints && options->common.json ? "--json" : NULL;
}

/* --- what the verbs share --- */

int audit_log_path(char **ret_path) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(config_done) Config config = {};
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        config_init(&config);
        r = policy_default_dirs(&dirs);
        if (r == 0)
                r = policy_load_config(&dirs, &diags, &config);
        if (r < 0)
                return error_trace(r);
        /* Without a configuration that can be read the broker does not run, but its log is there.
         */
        if (r == 0 && config.audit_path) {
                *ret_path = TAKE_PTR(config.audit_path);
                return 0;
        }
        r = audit_default_path(ret_path, &text);
        if (r == AUDIT_E_UNUSABLE)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s", text);
        return error_trace(r);
}

/* What a broker wrote is printable ASCII; anything else was put there by somebody else. */
static void print_safe(const char *s, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (s[i] >= ' ' && s[i] <= '~')
                        putchar(s[i]);
                else
                        printf("\\x%02x", (unsigned char) s[i]);
}

/* A JSON string without its quotes. A quote or a slash is shown as it is; every other escape, that
 * of a backslash too, is left, so that none can be mistaken for text. */
static void print_string(const AuditRecord *record, const JsonNode *node) {
        const char *s = json_node_slice(record->doc, node) + 1;
        size_t size = node->size - 2;

        for (size_t i = 0; i < size; i++) {
                size_t n = s[i] == '\\' && i + 1 < size ? 2 : 1;
                bool is_plain = n == 2 && (s[i + 1] == '"' || s[i + 1] == '/');

                if (n == 2)
                        i++;
                print_safe(&s[is_plain ? i : i + 1 - n], is_plain ? 1 : n);
        }
}

static void print_member(const AuditRecord *record, const JsonNode *parent, const char *name) {
        const JsonNode *node = json_node_member(record->doc, parent, name);

        putchar(' ');
        if (!node || node->type == JSON_NODE_NULL)
                putchar('-');
        else if (node->type == JSON_NODE_STRING)
                print_string(record, node);
        else
                print_safe(json_node_slice(record->doc, node), node->size);
}

static void print_reason(const AuditRecord *record, const JsonNode *root) {
        static const char *const names[] = {"reason", "text"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const JsonNode *node = json_node_member(record->doc, root, names[i]);

                if (!node || node->type != JSON_NODE_STRING)
                        continue;
                fputs(": ", stdout);
                print_string(record, node);
        }
}

static void print_member_ms(const AuditRecord *record, const JsonNode *parent, const char *name) {
        print_member(record, parent, name);
        fputs("ms", stdout);
}

/* CREDENTIAL.OPERATION, and what came of it. */
static void print_operation(const AuditRecord *record, const JsonNode *root) {
        const JsonNode *operation = json_node_member(record->doc, root, "operation");

        print_member(record, root, "decision");
        print_member(record, root, "credential");
        putchar('.');
        if (operation && operation->type == JSON_NODE_STRING)
                print_string(record, operation);
        else
                putchar('-');
        print_member(record, root, "status");
        print_member_ms(record, root, "ms");
}

static void print_bytes(const AuditRecord *record, const JsonNode *root, const char *name) {
        const JsonNode *bytes = json_node_member(record->doc, root, "bytes");
        const JsonNode *node = json_node_member(record->doc, bytes, name);

        printf(" %s=", name);
        if (node)
                print_safe(json_node_slice(record->doc, node), node->size);
}

/* How often, where that is more than once. */
static void print_count(const AuditRecord *record, const JsonNode *root) {
        const JsonNode *node = json_node_member(record->doc, root, "count");

        if (!node || (node->size == 1 && *json_node_slice(record->doc, node) == '1'))
                return;
        fputs(" x", stdout);
        print_safe(json_node_slice(record->doc, node), node->size);
}

/* NAME:PORT and address; then the kind of a denial, or what a connection had. */
static void print_egress(const AuditRecord *record, const JsonNode *root) {
        const JsonNode *port = json_node_member(record->doc, root, "port");

        print_member(record, root, "decision");
        print_member(record, root, "rule");
        print_member(record, root, "name");
        if (port) {
                putchar(':');
                print_safe(json_node_slice(record->doc, port), port->size);
        }
        print_member(record, root, "address");
        if (!json_node_member(record->doc, root, "end")) {
                print_member(record, root, "kind");
                print_count(record, root);
                return;
        }
        print_member(record, root, "end");
        print_count(record, root);
        print_bytes(record, root, "in");
        print_bytes(record, root, "out");
        /* Those that are counted together have none. */
        if (json_node_member(record->doc, root, "ms"))
                print_member_ms(record, root, "ms");
}

static bool is_event(const AuditRecord *record, const JsonNode *root, const char *event) {
        return json_node_string_equal(record->doc, json_node_member(record->doc, root, "event"),
                                      event);
}

void audit_print(const AuditText *text, const AuditRecord *record, bool json) {
        const JsonNode *root;

        if (json || !record) {
                print_safe(text->data, text->size);
                putchar('\n');
                return;
        }
        root = json_doc_root(record->doc);
        printf("%llu", (unsigned long long) record->seq);
        print_member(record, root, "time");
        print_member(record, root, "event");
        print_member(record, root, "call");
        print_member(record, root, "tenant");
        print_member(record, root, "tool");
        if (json_node_member(record->doc, root, "credential")) {
                print_operation(record, root);
        } else if (is_event(record, root, "egress") || is_event(record, root, "dns")) {
                print_egress(record, root);
        } else if (json_node_member(record->doc, root, "decision")) {
                print_member(record, root, "decision");
                print_member(record, root, "rule");
        } else {
                const JsonNode *ms = json_node_member(record->doc, root, "ms");

                print_member(record, root, "outcome");
                print_member(record, json_node_member(record->doc, root, "exit"), "code");
                print_member(record, root, "limit");
                print_member_ms(record, ms, "total");
        }
        print_reason(record, root);
        putchar('\n');
}

/* --- the command --- */

static int run_verb(const AuditOptions *options, StrV *words) {
        _cleanup_(freep) char *quoted = diag_quote(words->items[0]);
        const Verb *verb = NULL;
        const char *misplaced;

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (string_equal(words->items[0], verbs[i].name))
                        verb = &verbs[i];
        if (!verb)
                return complain_status(EXIT_USAGE,
                                       "audit: %s is unknown; known are verify, query and tail",
                                       quoted ?: "");
        misplaced = find_misplaced(options, verb);
        if (misplaced)
                return complain_status(EXIT_USAGE, "audit %s: %s is no option of it", verb->name,
                                       misplaced);
        if (words->n_items - 1 > verb->files_max)
                return complain_status(EXIT_USAGE, "audit %s: it takes one file", verb->name);

        /* The rest are files. */
        free(words->items[0]);
        for (size_t i = 0; i < words->n_items; i++)
                words->items[i] = words->items[i + 1];
        words->n_items--;
        return verb->run(options, words);
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(audit_options_done) AuditOptions options = {.lines = TAIL_LINES};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 1, SIZE_MAX, &options.common, &words, &status);
        if (r == COMMAND_E_DONE)
                return status;
        return r < 0 ? error_trace(r) : run_verb(&options, &words);
}

const Command command_audit = {
        .name = "audit",
        .arguments = "verify|query|tail [FILE...]",
        .summary = "read the audit log, and check that nothing was changed in it",
        .options = &option_table,
        .run = run,
};
