/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/explain.h"

#include <inttypes.h>
#include <stdio.h>

#include "basic/error.h"

/* "templates" is the longest but one. */
#define WORD_COLUMN 12

static int add_rule(StrBuf *out, const char *list, const Rule *rule, const char *name) {
        return strbuf_appendf(out, "%s[%zu], \"%s\" in line %" PRIu32 ", covers %s", list,
                              rule->index, rule->text, rule->line, name);
}

static int add_scopes(StrBuf *out, const ToolRights *tool) {
        int r;

        if (tool->scopes.n_items == 0)
                return strbuf_append_string(out, "the tool needs none");
        r = strbuf_append_string(out, "the tenant has");
        for (size_t i = 0; i < tool->scopes.n_items && r == 0; i++)
                r = strbuf_appendf(out, "%s %s", i > 0 ? "," : "", tool->scopes.items[i]);
        return r;
}

static int add_workspaces(StrBuf *out, const Tenant *t) {
        int r;

        if (t->workspaces.n_items == 0 && !t->workspace_connection)
                return strbuf_append_string(out, "no folder of the host may be used");
        r = strbuf_append_string(out, "if the call uses a folder of the host, it must be");
        for (size_t i = 0; i < t->workspaces.n_items && r == 0; i++)
                r = strbuf_appendf(out, "%s in %s", i > 0 ? " or" : "", t->workspaces.items[i]);
        if (r == 0 && t->workspace_connection)
                r = strbuf_appendf(out, "%s in the one that the connection came with",
                                   t->workspaces.n_items > 0 ? " or" : "");
        return r;
}

static int add_egress(StrBuf *out, const Tenant *t) {
        int r;

        if (t->egress.n_items == 0 && !t->egress_templates)
                return strbuf_append_string(out, "nothing may be reached");
        r = strbuf_append_string(out, "if the job reaches something, it must be");
        if (r == 0 && t->egress_templates)
                r = strbuf_append_string(out, " what its template names");
        for (size_t i = 0; i < t->egress.n_items && r == 0; i++) {
                _cleanup_(freep) char *text = destination_format(&t->egress.items[i]);

                r = text ? strbuf_appendf(out, "%s %s", i > 0 || t->egress_templates ? " or" : "",
                                          text)
                         : error_origin(-ENOMEM);
        }
        return r;
}

static int add_operations(StrBuf *out, const Tenant *t) {
        int r = 0;

        if (t->operations.n_items == 0)
                return strbuf_append_string(out, "a job may call none");
        for (size_t i = 0; i < t->operations.n_items && r == 0; i++)
                r = strbuf_appendf(out, "%s%s", i == 0 ? "a job may call " : " or ",
                                   t->operations.items[i]);
        return error_trace(r);
}

/* A step that was passed. */
static int add_passed(StrBuf *out, const Tenant *t, const ToolRights *tool, EvaluateStep step) {
        const TenantArguments *arguments;

        switch (step) {
        case EVALUATE_TENANT:
                return strbuf_appendf(out, "tenant %s", t->name);
        case EVALUATE_DENY:
                return strbuf_appendf(out, "no rule covers %s", tool->name);
        case EVALUATE_ALLOW:
                return add_rule(out, "tools.allow", rules_find(&t->allow, tool->name), tool->name);
        case EVALUATE_SCOPES:
                return add_scopes(out, tool);
        case EVALUATE_TEMPLATE:
                return strbuf_append_string(out, tool->template_default
                                                         ? "a rule covers the template"
                                                         : "the tool makes no crate");
        case EVALUATE_ARGUMENTS:
                arguments = tenant_find_arguments(t, tool->name);
                return arguments ? strbuf_appendf(out, "they keep those of line %" PRIu32,
                                                  arguments->line)
                                 : strbuf_append_string(out, "there are no constraints");
        case EVALUATE_WORKSPACE:
                return tool->template_default ? add_workspaces(out, t)
                                              : strbuf_append_string(out, "the tool uses none");
        case EVALUATE_EGRESS:
                return tool->template_default
                               ? add_egress(out, t)
                               : strbuf_append_string(out, "the tool reaches nothing");
        default:
                if (tool->operation)
                        return strbuf_appendf(out, "a rule covers %s.%s", tool->credential,
                                              tool->operation);
                return tool->template_default ? add_operations(out, t)
                                              : strbuf_append_string(out, "the tool calls none");
        }
}

char *explain_step(const Decision *decision, const ToolRights *tool, EvaluateStep step) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        int r;

        if (!decision->allowed && step == decision->step)
                r = strbuf_appendf(&out, "denied: %s", decision->reason);
        else if (!decision->allowed && step > decision->step)
                r = strbuf_append_string(&out, "not asked");
        else
                r = add_passed(&out, decision->tenant, tool, step);
        return r < 0 ? NULL : strbuf_steal(&out);
}

static int add_word(StrBuf *out, const char *indent, const char *word, const char *text) {
        return strbuf_appendf(out, "%s%-*s %s\n", indent, WORD_COLUMN, word, text);
}

static int add_rule_place(StrBuf *out, const Decision *d) {
        int r;

        r = strbuf_appendf(out, "%-*s %s", WORD_COLUMN, "rule", d->rule);
        if (r == 0 && d->file)
                r = strbuf_appendf(out, ", %s", d->file);
        if (r == 0 && d->file && d->line > 0)
                r = strbuf_appendf(out, ":%" PRIu32, d->line);
        else if (r == 0 && d->file)
                r = strbuf_append_string(out, ", where there is no such key");
        return r == 0 ? strbuf_append_byte(out, '\n') : r;
}

int explain_decision(const Decision *decision, const ToolRights *tool, StrBuf *out) {
        int r;

        r = strbuf_append_string(out, decision->allowed ? "allowed\n" : "denied\n");
        if (r == 0)
                r = add_rule_place(out, decision);
        if (r == 0 && decision->reason)
                r = add_word(out, "", "reason", decision->reason);
        if (r == 0 && decision->needed)
                r = add_word(out, "", "needed", decision->needed);
        if (r == 0)
                r = strbuf_append_string(
                        out,
                        "\nRules are asked in this order, and the first that denies decides:\n");
        for (EvaluateStep step = 0; step < _EVALUATE_STEP_MAX && r == 0; step++) {
                _cleanup_(freep) char *text = explain_step(decision, tool, step);

                r = text ? add_word(out, "  ", evaluate_step_to_string(step), text)
                         : error_origin(-ENOMEM);
        }
        return error_trace(r);
}
