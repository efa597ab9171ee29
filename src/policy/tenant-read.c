/* SPDX-License-Identifier: Apache-2.0 */

/* From the text of tenants.d/NAME.json to a Tenant. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "policy/credential.h"
#include "policy/tenant-warn.h"
#include "schema/schema.h"

#define TOOL_SIZE_MAX 128U
#define SANDBOXES_MAX 65536U
/* (uid_t) -1 means "no change" to the kernel, and nobody is it. */
#define ID_MAX (UINT32_MAX - 1)

/* --- names --- */

/* What looks like a letter and is none would make a rule that never covers what it seems to. */
static bool is_ascii(const char *s) {
        for (; *s; s++)
                if ((unsigned char) *s < ' ' || (unsigned char) *s > '~')
                        return false;
        return true;
}

#define NOT_ASCII "holds a character that is not printable ASCII, as no name does: type it anew"
#define TWICE "stands twice in this list: take one away"

static size_t tool_name_span(const char *s) {
        return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/");
}

/* What is wrong with a tool's name or pattern, or NULL. */
static const char *tool_fault(const char *s) {
        size_t n = tool_name_span(s);

        if (!is_ascii(s))
                return NOT_ASCII;
        if (s[n] == '*' && s[n + 1])
                return "has a * that is not at its end: a pattern is the beginning of a name and "
                       "a *";
        if (s[n] == '*')
                n++;
        if (n == 0 || n > TOOL_SIZE_MAX || s[n])
                return "is no tool's name: give 1 to 128 of letters, digits, _, ., - and /, or a "
                       "pattern such as \"file_*\"";
        return NULL;
}

/* A template's name or pattern. */
static const char *template_fault(const char *s) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
        size_t n = strspn(s, letters);

        if (!is_ascii(s))
                return NOT_ASCII;
        if (s[n] == '*' && s[n + 1])
                return "has a * that is not at its end: a pattern is the beginning of a name and "
                       "a *";
        if (s[n] == '*')
                n++;
        if (n == 0 || n > 32 || s[n])
                return "is no template's name: give 1 to 32 of a-z, 0-9 and -, or a pattern such "
                       "as \"python-*\"";
        return NULL;
}

static int read_rule(const Reader *reader, const JsonNode *node, Rules *rules,
                     const char *(*find_fault)(const char *) ) {
        _cleanup_(freep) char *text = NULL;
        const char *wrong;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0)
                return error_trace(r);
        if (!text)
                return 0;

        wrong = find_fault(text);
        if (wrong)
                return error_trace(reader_fault_value(reader, node, wrong));
        for (size_t i = 0; i < rules->n_items; i++)
                if (string_equal(rules->items[i].text, text))
                        return error_trace(reader_fault_value(reader, node, TWICE));
        return error_trace(rules_add(rules, text, node->line));
}

static int read_tool_rule(const Reader *reader, const JsonNode *node, void *target) {
        return read_rule(reader, node, target, tool_fault);
}

static int read_template_rule(const Reader *reader, const JsonNode *node, void *target) {
        return read_rule(reader, node, target, template_fault);
}

static int read_rules(const Reader *reader, const JsonNode *node, Rules *rules,
                      int (*read)(const Reader *reader, const JsonNode *node, void *target)) {
        int r;

        rules->line = node->line;
        r = reader_array(reader, node, read, rules);
        return error_trace(r);
}

/* --- who --- */

static int read_id(const Reader *reader, const JsonNode *node, TenantIds *ids, const char *how) {
        TenantId *items;
        uint64_t id = UINT64_MAX;
        int r;

        /* A name is not looked up: whose it is could change. */
        if (node->type == JSON_NODE_STRING)
                return reader_fault_value(reader, node, how);
        r = reader_count(reader, node, 0, ID_MAX, &id);
        if (r < 0)
                return error_trace(r);
        if (id == UINT64_MAX)
                return 0;
        for (size_t i = 0; i < ids->n_items; i++)
                if (ids->items[i].id == id)
                        return error_trace(reader_fault_value(reader, node, TWICE));

        items = reallocarray(ids->items, ids->n_items + 1, sizeof(TenantId));
        if (!items)
                return error_origin(-ENOMEM);
        ids->items = items;
        items[ids->n_items] = (TenantId){
                .id = (uint32_t) id,
                .line = node->line,
                .column = node->column,
                .index = ids->n_items,
        };
        ids->n_items++;
        return 0;
}

#define NO_ID "is no whole number from 0 to 4294967294: give, without quotes, the one that "

static int read_uid(const Reader *reader, const JsonNode *node, void *target) {
        return read_id(reader, node, target, NO_ID "\"id -u NAME\" shows");
}

static int read_gid(const Reader *reader, const JsonNode *node, void *target) {
        return read_id(reader, node, target, NO_ID "\"getent group NAME\" shows");
}

static int read_uids(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        return reader_array(reader, node, read_uid, &t->uids);
}

static int read_gids(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        return reader_array(reader, node, read_gid, &t->gids);
}

static const ReaderKey match_keys[] = {
        {.name = "uid", .read = read_uids},
        {.name = "gid", .read = read_gids},
        {},
};

/* --- what --- */

static int read_description(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        return reader_string(reader, node, &t->description);
}

static int read_scope(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *scope = NULL;
        StrV *scopes = target;
        int r;

        r = reader_string(reader, node, &scope);
        if (r < 0)
                return error_trace(r);
        if (!scope)
                return 0;

        if (!is_ascii(scope))
                return error_trace(reader_fault_value(reader, node, NOT_ASCII));
        if (strchr(scope, '*'))
                return error_trace(reader_fault_value(
                        reader, node, "is a pattern, and scopes are given one by one"));
        if (!scope_is_valid(scope))
                return error_trace(reader_fault_value(
                        reader, node,
                        "is no scope; there are \"exec\", \"fs:read\", \"fs:write\", "
                        "\"net:egress\", \"credential:use\" and \"server:NAME\""));
        for (size_t i = 0; i < scopes->n_items; i++)
                if (string_equal(scopes->items[i], scope))
                        return error_trace(reader_fault_value(reader, node, TWICE));
        return error_trace(strv_append(scopes, scope));
}

static int compare_strings(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static int read_scopes(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        t->scopes_line = node->line;
        return reader_array(reader, node, read_scope, &t->scopes);
}

static int read_allow(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        return read_rules(reader, node, &t->allow, read_tool_rule);
}

static int read_deny(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        return read_rules(reader, node, &t->deny, read_tool_rule);
}

static const ReaderKey tools_keys[] = {
        {.name = "allow", .read = read_allow},
        {.name = "deny", .read = read_deny},
        {},
};

static int read_templates(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        t->templates_line = node->line;
        return read_rules(reader, node, &t->templates, read_template_rule);
}

static int read_workspace(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *path = NULL;
        Tenant *t = target;
        int r;

        if (json_node_string_equal(reader->doc, node, TENANT_CONNECTION)) {
                t->workspace_connection = true;
                t->connection_place = (TenantId){.line = node->line, .column = node->column};
                return 0;
        }
        r = reader_path(reader, node, &path);
        if (r < 0)
                return error_trace(r);
        if (!path)
                return 0;
        if (strchr(path, '*'))
                return error_trace(reader_fault_value(
                        reader, node,
                        "has a *, and workspaces are no patterns: what lies below a folder is "
                        "granted with it"));
        return error_trace(strv_append(&t->workspaces, path));
}

static int read_workspaces(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        t->workspaces_line = node->line;
        return reader_array(reader, node, read_workspace, t);
}

/* --- arguments --- */

/* The bytes of a value without what is blank between its tokens. */
static char *compact(const char *s, size_t size) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        bool quoted = false;

        if (strbuf_reserve(&buf, size + 1) < 0)
                return NULL;
        for (size_t i = 0; i < size; i++) {
                if (quoted && s[i] == '\\' && i + 1 < size) {
                        (void) strbuf_append(&buf, s + i++, 2);
                        continue;
                }
                if (s[i] == '"')
                        quoted = !quoted;
                if (quoted || !strchr(" \t\r\n", s[i]))
                        (void) strbuf_append_byte(&buf, s[i]);
        }
        return strbuf_steal(&buf);
}

static int fill_arguments(const Reader *reader, const JsonNode *node, TenantArguments *arguments) {
        int r;

        r = schema_compile(reader->doc, node, reader->file, reader->diags, &arguments->schema);
        if (r < 0)
                return error_trace(r);
        arguments->line = node->line;
        arguments->text = compact(json_node_slice(reader->doc, node), node->size);
        return arguments->text ? 0 : error_origin(-ENOMEM);
}

static int read_tool_arguments(const Reader *reader, const JsonNode *node, Tenant *t) {
        _cleanup_(freep) char *tool = NULL;
        TenantArguments *arguments;
        int r;

        r = json_node_key(reader->doc, node, &tool);
        if (r < 0)
                return error_trace(r);
        if (!is_ascii(tool))
                return error_trace(reader_fault(reader, node, "the name %s", NOT_ASCII));
        if (strchr(tool, '*'))
                return error_trace(
                        reader_fault(reader, node,
                                     "is a pattern, and arguments are of one tool: give its name"));
        if (tool_fault(tool))
                return error_trace(reader_fault(reader, node,
                                                "is no tool's name: give 1 to 128 of letters, "
                                                "digits, _, ., - and /"));

        arguments = &t->arguments[t->n_arguments++];
        arguments->tool = TAKE_PTR(tool);
        return error_trace(fill_arguments(reader, node, arguments));
}

static int compare_arguments(const void *a, const void *b) {
        return strcmp(((const TenantArguments *) a)->tool, ((const TenantArguments *) b)->tool);
}

static int read_arguments(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({\"TOOL\": SCHEMA})");
        if (node->n_children > READER_ENTRIES_MAX)
                return reader_fault(reader, node, "%zu tools are more than %u", node->n_children,
                                    READER_ENTRIES_MAX);

        t->arguments = calloc(node->n_children + 1, sizeof(TenantArguments));
        if (!t->arguments)
                return error_origin(-ENOMEM);
        for (const JsonNode *child = node->first; child; child = child->next) {
                r = read_tool_arguments(reader, child, t);
                if (r < 0)
                        return error_trace(r);
        }
        qsort(t->arguments, t->n_arguments, sizeof(TenantArguments), compare_arguments);
        return 0;
}

/* --- how much --- */

static int read_ceiling(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *key = NULL;
        char least[LIMIT_TEXT_SIZE];
        Tenant *t = target;
        LimitName name;
        int r;

        r = json_node_key(reader->doc, node, &key);
        if (r < 0)
                return error_trace(r);
        name = limit_from_string(key);
        r = limit_parse_json(&t->ceilings.limits, name, reader->doc, node, reader->file,
                             reader->diags);
        if (r < 0 || t->ceilings.limits.max[name] >= limit_minimum(name))
                return error_trace(r);
        limit_format(name, limit_minimum(name), least, sizeof(least));
        return error_trace(reader_fault(
                reader, node, "nothing can be run under this ceiling: give at least %s", least));
}

static int read_sandboxes(const Reader *reader, const JsonNode *node, void *target) {
        uint64_t value = SIZE_MAX;
        Tenant *t = target;
        int r;

        r = reader_count(reader, node, 1, SANDBOXES_MAX, &value);
        t->sandboxes_max = (size_t) value;
        return error_trace(r);
}

static int read_on_excess(const Reader *reader, const JsonNode *node, void *target) {
        static const char *const words[] = {"refuse", "clamp", NULL};
        Tenant *t = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, words, &index);
        t->ceilings.on_excess = index == 0 ? CEILINGS_REFUSE : CEILINGS_CLAMP;
        return error_trace(r);
}

static const ReaderKey ceilings_keys[] = {
        CEILINGS_KEYS(read_ceiling),
        {.name = "sandboxes", .read = read_sandboxes},
        {.name = "on_excess", .read = read_on_excess},
        {},
};

_Static_assert(ELEMENTSOF(ceilings_keys) == _LIMIT_MAX + 3, "a limit has no key");

static bool is_text_with(const Reader *reader, const JsonNode *node, char c) {
        _cleanup_(freep) char *s = NULL;

        return json_node_string(reader->doc, node, &s, NULL) == 0 && strchr(s, c);
}

/* The word is taken by the key's own reader, the rest by that of destinations. */
static int read_egress_entry(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        if (node->type == JSON_NODE_STRING && !is_text_with(reader, node, ':') &&
            !json_node_string_equal(reader->doc, node, TENANT_TEMPLATES))
                return reader_fault_value(reader, node,
                                          "is neither a destination such as \"pypi.org:443\" nor "
                                          "\"templates\"");
        if (!json_node_string_equal(reader->doc, node, TENANT_TEMPLATES))
                return destination_list_read_one(reader, node, &t->egress);
        if (t->egress_templates)
                return reader_fault(reader, node, "\"templates\" is there twice");
        t->egress_templates = true;
        return 0;
}

static int read_egress(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        t->egress.line = node->line;
        return reader_array(reader, node, read_egress_entry, t);
}

static int read_operations(const Reader *reader, const JsonNode *node, void *target) {
        Tenant *t = target;

        t->operations_line = node->line;
        return credential_rules_read(reader, node, &t->operations);
}

static int read_no_members(const Reader *reader, const JsonNode *node, _unused_ void *target) {
        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({…})");
        if (node->n_children > 0)
                return reader_fault(reader, node, "not built yet: leave it empty");
        return 0;
}

static const ReaderKey tenant_keys[] = {
        {.name = "description", .read = read_description},
        {.name = "match", .keys = match_keys},
        {.name = "scopes", .read = read_scopes},
        {.name = "tools", .keys = tools_keys},
        {.name = "arguments", .read = read_arguments},
        {.name = "workspaces", .read = read_workspaces},
        {.name = "templates", .read = read_templates},
        {.name = "ceilings", .keys = ceilings_keys},
        {.name = "egress", .read = read_egress},
        {.name = "operations", .read = read_operations},
        {.name = "quotas", .read = read_no_members},
        {},
};

int tenant_key_names(StrV *names) {
        return reader_key_names(tenant_keys, names);
}

/* --- the whole --- */

static int check_whole(const Reader *reader, const JsonNode *root, Tenant *t) {
        const JsonNode *match = json_node_member(reader->doc, root, "match");

        if (t->uids.n_items == 0 && t->gids.n_items == 0)
                return error_trace(
                        reader_fault(reader, match ?: root,
                                     "this tenant is nobody: give match.uid or match.gid, a list "
                                     "of numbers"));
        /* Only from here on rules are found, and are no longer as they were written. */
        rules_sort(&t->allow);
        rules_sort(&t->deny);
        rules_sort(&t->templates);
        if (t->scopes.n_items > 0)
                qsort(t->scopes.items, t->scopes.n_items, sizeof(char *), compare_strings);
        return error_trace(tenant_warn(reader, root, t));
}

static int tenant_new(const char *name, const char *file, Tenant **ret_tenant) {
        _cleanup_(tenant_freep) Tenant *t = NULL;

        t = calloc(1, sizeof(Tenant));
        if (!t)
                return error_origin(-ENOMEM);

        ceilings_init(&t->ceilings);
        t->sandboxes_max = SIZE_MAX;
        t->name = strdup(name);
        t->file = strdup(file);
        t->description = strdup("");
        if (!t->name || !t->file || !t->description)
                return error_origin(-ENOMEM);
        *ret_tenant = TAKE_PTR(t);
        return 0;
}

int tenant_parse(const char *name, const char *file, const char *text, size_t size, DiagList *diags,
                 DiagList *warnings, Tenant **ret_tenant) {
        _cleanup_(tenant_freep) Tenant *t = NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        size_t before = reader_n_faults(diags);
        const JsonNode *tools;
        Reader reader;
        int r;

        r = reader_document(file, text, size, diags, &doc);
        if (r < 0)
                return error_trace(r);
        if (!doc)
                return TENANT_E_INVALID;

        r = tenant_new(name, file, &t);
        if (r < 0)
                return error_trace(r);
        tools = json_node_member(doc, json_doc_root(doc), "tools");
        t->tools_line = tools ? tools->line : 0;

        reader = (Reader){.file = file, .doc = doc, .diags = diags, .warnings = warnings};
        r = reader_object(&reader, json_doc_root(doc), tenant_keys, t);
        if (r == 0 && reader_n_faults(diags) == before)
                r = check_whole(&reader, json_doc_root(doc), t);
        if (r < 0)
                return error_trace(r);
        if (reader_n_faults(diags) > before)
                return TENANT_E_INVALID;

        *ret_tenant = TAKE_PTR(t);
        return 0;
}
