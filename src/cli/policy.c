/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate policy: the configuration as a broker would read it. It asks no broker, so that a
 * change can be tried before it is made.
 */

#include <fcntl.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "cli/command.h"
#include "cli/policy-check.h"
#include "mcp/exec-args.h"
#include "mcp/operation-args.h"
#include "mcp/tools.h"
#include "policy/dump.h"
#include "policy/explain.h"

#define EXIT_FAULTS 1
#define EXIT_DENIED 1

typedef struct PolicyOptions {
        CommonOptions common;
        bool system, user;
        char *dir, *to, *tenant, *tool, *args;
} PolicyOptions;

typedef struct Verb {
        const char *name;
        int (*run)(const PolicyOptions *options, const Policy *policy);
        bool writes, asks; /* the options that it takes */
} Verb;

static void policy_options_done(PolicyOptions *options) {
        common_options_done(&options->common);
        free(options->dir);
        free(options->to);
        free(options->tenant);
        free(options->tool);
        free(options->args);
        *options = (PolicyOptions){};
}

static const Option option_rows[] = {
        {"system", 0, NULL, option_take_flag, offsetof(PolicyOptions, system),
         "the policy of the machine's broker; default for root"},
        {"user", 0, NULL, option_take_flag, offsetof(PolicyOptions, user),
         "that of a broker of one's own; default for other users"},
        {"dir", 0, "DIR", option_take_string, offsetof(PolicyOptions, dir),
         "read DIR alone, as if it held all the configuration"},
        {"to", 0, "DIR", option_take_string, offsetof(PolicyOptions, to),
         "dump: write files into DIR, which is made, instead of one text"},
        {"tenant", 0, "NAME", option_take_string, offsetof(PolicyOptions, tenant),
         "explain: who would call"},
        {"tool", 0, "NAME", option_take_string, offsetof(PolicyOptions, tool),
         "explain: what would be called"},
        {"args", 0, "JSON", option_take_string, offsetof(PolicyOptions, args),
         "explain: the arguments, an object; default is none"},
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

/* --- reading --- */

static void print_diags(const char *before, const DiagList *diags) {
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags->items[i]);

                fprintf(stderr, "%s%s\n", before, line ?: diags->items[i].text);
        }
        if (diags->n_dropped > 0)
                fprintf(stderr, "%sand %zu more\n", before, diags->n_dropped);
}

static PolicyInstance choose_instance(const PolicyOptions *options) {
        if (options->system || options->user)
                return options->system ? POLICY_SYSTEM : POLICY_USER;
        return geteuid() == 0 ? POLICY_SYSTEM : POLICY_USER;
}

enum {
        _POLICY_CLI_E_SUCCESS,
        POLICY_CLI_E_FAULTS, /* it was said which */
};

/* A folder that was named and is not there holds no faults, but was hardly meant. */
static bool dir_is_readable(const char *dir) {
        _cleanup_(fd_closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                (void) complain_status(EXIT_FAILURE, "--dir %s: %s; name a folder that can be read",
                                       dir, strerror(errno));
        return fd >= 0;
}

static int find_dirs(const PolicyOptions *options, PolicyInstance instance, StrV *dirs) {
        return options->dir ? strv_append(dirs, options->dir)
                            : error_trace(policy_instance_dirs(instance, dirs));
}

static int read_policy(const PolicyOptions *options, Policy **ret_policy) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        PolicyInstance instance = choose_instance(options);
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        if (options->dir && !dir_is_readable(options->dir))
                return POLICY_CLI_E_FAULTS;
        r = find_dirs(options, instance, &dirs);
        if (r == 0)
                r = policy_load_instance(instance, &dirs, &diags, ret_policy);
        print_diags("", &diags);
        return r == POLICY_E_INVALID ? POLICY_CLI_E_FAULTS : error_trace(r);
}

/* --- check --- */

/* Whose broker follows it: there are two, and the one that was edited may be the other. */
static int print_origin(const PolicyOptions *options, const Policy *policy) {
        bool system = policy->instance == POLICY_SYSTEM;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = find_dirs(options, policy->instance, &dirs);
        if (r < 0)
                return error_trace(r);
        printf("the policy of %s, from ",
               system ? "the machine's broker" : "a broker of one's own");
        for (size_t i = 0; i < dirs.n_items; i++)
                printf("%s%s", i > 0 ? ", " : "", dirs.items[i]);
        printf("%s\n",
               options->system || options->user ? ""
               : system ? "; --user: that of a broker of one's own, which is any without --launcher"
                        : "; --system: that of the machine's broker");
        return 0;
}

static int run_check(const PolicyOptions *options, const Policy *policy) {
        int r;

        print_diags("warning: ", &policy->warnings);
        r = print_origin(options, policy);
        if (r == 0)
                r = policy_check_print(policy);
        return r < 0 ? error_trace(r) : EXIT_SUCCESS;
}

/* --- dump --- */

static int make_folder(const char *path) {
        if (mkdir(path, 0755) == 0 || errno == EEXIST)
                return 0;
        return complain_status(EXIT_FAILURE, "policy dump: %s cannot be made: %s", path,
                               strerror(errno));
}

static int write_file(const char *path, const StrBuf *text) {
        FILE *f = fopen(path, "we");
        bool good;

        if (!f)
                return complain_status(EXIT_FAILURE, "policy dump: %s cannot be written: %s", path,
                                       strerror(errno));
        good = fwrite(text->data, 1, text->size, f) == text->size;
        if (fclose(f) != 0 || !good)
                return complain_status(EXIT_FAILURE, "policy dump: %s cannot be written: %s", path,
                                       strerror(errno));
        return 0;
}

static int write_entry(const char *dir, const char *folder, const char *name, const StrBuf *text) {
        _cleanup_(freep) char *path = NULL;

        if (asprintf(&path, "%s/%s/%s.json", dir, folder, name) < 0) {
                path = NULL;
                return error_origin(-ENOMEM);
        }
        return write_file(path, text);
}

static int make_folders(const char *dir) {
        const char *const subs[] = {source_templates.name, source_tenants.name};
        int r;

        r = make_folder(dir);
        for (size_t i = 0; i < ELEMENTSOF(subs) && r == 0; i++) {
                _cleanup_(freep) char *path = NULL;

                if (asprintf(&path, "%s/%s", dir, subs[i]) < 0) {
                        path = NULL;
                        return error_origin(-ENOMEM);
                }
                r = make_folder(path);
        }
        return r;
}

static int dump_files(const char *dir, const Policy *policy) {
        _cleanup_(strbuf_done) StrBuf config = STRBUF_NULL;
        int r;

        r = make_folders(dir);
        if (r == 0)
                r = policy_dump_config(&policy->config, &config);
        if (r == 0)
                r = write_entry(dir, ".", "agentcrated", &config);
        for (size_t i = 0; i < policy->n_templates && r == 0; i++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

                r = policy_dump_template(policy->templates[i], &text);
                if (r == 0)
                        r = write_entry(dir, source_templates.name, policy->templates[i]->name,
                                        &text);
        }
        for (size_t i = 0; i < policy->n_tenants && r == 0; i++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

                r = policy_dump_tenant(policy->tenants[i], &text);
                if (r == 0)
                        r = write_entry(dir, source_tenants.name, policy->tenants[i]->name, &text);
        }
        return r;
}

static int run_dump(const PolicyOptions *options, const Policy *policy) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        if (options->to)
                return dump_files(options->to, policy);
        r = policy_dump(policy, true, &text);
        if (r < 0)
                return error_trace(r);
        (void) fwrite(text.data, 1, text.size, stdout);
        return EXIT_SUCCESS;
}

/* --- explain --- */

static int no_tenant(const Policy *policy, const char *name) {
        _cleanup_(freep) char *quoted = diag_quote(name);
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;

        for (size_t i = 0; i < policy->n_tenants; i++)
                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "", policy->tenants[i]->name) < 0)
                        return error_origin(-ENOMEM);
        return complain_status(EXIT_USAGE, "policy explain: there is no tenant %s; there are: %s",
                               quoted ?: "", known.data ?: "none");
}

static int no_tool(const Policy *policy, const char *name) {
        _cleanup_(freep) char *quoted = diag_quote(name);
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        const ToolRights *rights;

        for (size_t i = 0; (rights = tools_rights_at(policy, i)); i++)
                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "", rights->name) < 0)
                        return error_origin(-ENOMEM);
        return complain_status(EXIT_USAGE, "policy explain: there is no tool %s; there are: %s",
                               quoted ?: "", known.data);
}

/* *ret_doc stays NULL if there are no arguments. */
static int scan_args(const char *args, JsonDoc **ret_doc) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        int r;

        if (!args)
                return 0;
        r = json_scan(args, strlen(args), &doc, &error);
        if (r == JSON_SCAN_E_SYNTAX)
                return complain_status(EXIT_USAGE, "policy explain: --args: line %u, column %u: %s",
                                       (unsigned) error.line, (unsigned) error.column, error.text);
        if (r < 0)
                return error_trace(r);
        if (json_doc_root(doc)->type != JSON_NODE_OBJECT)
                return complain_status(EXIT_USAGE, "policy explain: --args: give an object, {…}");
        *ret_doc = TAKE_PTR(doc);
        return 0;
}

/* *ret_fault as below. */
static int check_operation(const Operation *operation, const JsonDoc *doc, char **ret_fault) {
        OperationArgs args = {};
        int r;

        r = operation_args_parse(operation, doc, json_doc_root(doc), &args, ret_fault);
        if (r == 0)
                operation_args_done(&args);
        return r == OPERATION_ARGS_E_INVALID ? 0 : error_trace(r);
}

/* Destinations that a rule allows and agentcrated.json denies: a job is run, and reaches none. */
static int add_denied(const Config *config, const DestinationList *list, StrBuf *denied) {
        int r = 0;

        for (size_t i = 0; i < list->n_items && r == 0; i++) {
                const Destination *d = &list->items[i];
                const char *entry = destination_name_find_denied(&config->egress.deny, d->name);

                if (entry)
                        r = strbuf_appendf(denied,
                                           "But %s:%u is denied, and the job does not reach it: "
                                           "\"%s\" of egress.deny in %s covers it\n",
                                           d->name, d->port, entry, config->file);
        }
        return error_trace(r);
}

/*
 * What is judged once the arguments are plain values: the template's and the call's destinations
 * and operations. *ret_fault: what is wrong with the request in itself, which no policy has to say.
 * denied: what egress.deny takes away, in lines.
 */
static int evaluate_request(const Policy *policy, const Tenant *tenant, const ToolRights *tool,
                            const JsonDoc *doc, Decision *decision, char **ret_fault,
                            StrBuf *denied) {
        static const DestinationList reach_none = {};
        static const StrV call_none = STRV_NULL;
        _cleanup_(exec_args_done) ExecArgs args = {};
        const ExposedTool *exposed = exposed_tools_find(&policy->exposed, tool->name);
        const Template *template;
        const char *name;
        int r;

        if (decision->allowed && exposed)
                return error_trace(check_operation(exposed->operation, doc, ret_fault));
        if (!decision->allowed || !string_equal(tool->name, TOOL_SANDBOX_EXEC))
                return 0;
        r = exec_args_parse(doc, json_doc_root(doc), &args, ret_fault);
        if (r != 0)
                return r == EXEC_ARGS_E_INVALID ? 0 : error_trace(r);
        name = args.template ?: tool->template_default;
        template = policy_find_template(policy, name);
        if (!template && args.template)
                return asprintf(ret_fault, "there is no template \"%s\"", args.template) < 0
                               ? error_origin(-ENOMEM)
                               : 0;
        r = evaluate_egress(tenant, name, template ? &template->egress : &reach_none, &args.egress,
                            decision);
        if (r == 0 && decision->allowed)
                r = evaluate_operations(tenant, name, template ? &template->operations : &call_none,
                                        &args.operations, decision);
        if (r == 0 && decision->allowed && template)
                r = add_denied(&policy->config, &template->egress, denied);
        if (r == 0 && decision->allowed)
                r = add_denied(&policy->config, &args.egress, denied);
        return error_trace(r);
}

static int run_explain(const PolicyOptions *options, const Policy *policy) {
        _cleanup_(decision_done) Decision decision = DECISION_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL, denied = STRBUF_NULL;
        _cleanup_(freep) char *fault = NULL;
        const ToolRights *tool;
        const Tenant *tenant;
        int r;

        tenant = policy_find_tenant(policy, options->tenant);
        if (!tenant)
                return no_tenant(policy, options->tenant);
        tool = tools_rights(policy, options->tool);
        if (!tool)
                return no_tool(policy, options->tool);
        r = scan_args(options->args, &doc);
        if (r != 0)
                return r;

        r = evaluate(tenant, tool, doc, doc ? json_doc_root(doc) : NULL, &decision);
        if (r == 0 && doc)
                r = evaluate_request(policy, tenant, tool, doc, &decision, &fault, &denied);
        if (r == 0)
                r = explain_decision(&decision, tool, &text);
        if (r < 0)
                return error_trace(r);
        (void) fwrite(text.data, 1, text.size, stdout);
        if (denied.size > 0)
                (void) fwrite(denied.data, 1, denied.size, stdout);
        if (fault)
                printf("But the request is refused, for it is wrong in itself: %s\n", fault);
        return decision.allowed && !fault ? EXIT_SUCCESS : EXIT_DENIED;
}

/* --- the command --- */

static const Verb verbs[] = {
        {.name = "check", .run = run_check},
        {.name = "dump", .run = run_dump, .writes = true},
        {.name = "explain", .run = run_explain, .asks = true},
};

static int check_options(const PolicyOptions *options, const Verb *verb) {
        const char *misplaced = NULL;

        if (options->system && options->user)
                return complain_status(EXIT_USAGE,
                                       "policy %s: --system and --user exclude one another",
                                       verb->name);
        if (!verb->writes && options->to)
                misplaced = "--to";
        if (!verb->asks && (options->tenant || options->tool || options->args))
                misplaced = options->tenant ? "--tenant" : options->tool ? "--tool" : "--args";
        if (misplaced)
                return complain_status(EXIT_USAGE, "policy %s: %s is no option of it", verb->name,
                                       misplaced);
        if (verb->asks && (!options->tenant || !options->tool))
                return complain_status(EXIT_USAGE, "policy %s: give --tenant and --tool",
                                       verb->name);
        return 0;
}

static int run_verb(const PolicyOptions *options, const char *word) {
        _cleanup_(freep) char *quoted = diag_quote(word);
        _cleanup_(policy_freep) Policy *policy = NULL;
        const Verb *verb = NULL;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (string_equal(word, verbs[i].name))
                        verb = &verbs[i];
        if (!verb)
                return complain_status(EXIT_USAGE,
                                       "policy: %s is unknown; known are check, dump and explain",
                                       quoted ?: "");
        r = check_options(options, verb);
        if (r != 0)
                return r;
        r = read_policy(options, &policy);
        if (r == POLICY_CLI_E_FAULTS)
                return EXIT_FAULTS;
        return r < 0 ? error_trace(r) : verb->run(options, policy);
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(policy_options_done) PolicyOptions options = {};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 1, 1, &options.common, &words, &status);
        if (r == COMMAND_E_DONE)
                return status;
        return r < 0 ? error_trace(r) : run_verb(&options, words.items[0]);
}

const Command command_policy = {
        .name = "policy",
        .arguments = "check|dump|explain",
        .summary = "check the configuration, show it, and tell why a call is allowed or denied",
        .options = &option_table,
        .run = run,
};
