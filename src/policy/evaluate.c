/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/evaluate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "basic/error.h"
#include "policy/credential.h"
#include "schema/schema.h"

static const char *const step_words[_EVALUATE_STEP_MAX] = {
        [EVALUATE_TENANT] = "match",          [EVALUATE_DENY] = "tools.deny",
        [EVALUATE_ALLOW] = "tools.allow",     [EVALUATE_SCOPES] = "scopes",
        [EVALUATE_TEMPLATE] = "templates",    [EVALUATE_ARGUMENTS] = "arguments",
        [EVALUATE_WORKSPACE] = "workspaces",  [EVALUATE_EGRESS] = "egress",
        [EVALUATE_OPERATIONS] = "operations",
};

const char *evaluate_step_to_string(EvaluateStep step) {
        return step_words[step];
}

/* --- decisions --- */

void decision_done(Decision *decision) {
        free(decision->reason);
        free(decision->needed);
        *decision = DECISION_NULL;
}

static void set_rule(Decision *decision, const char *rule) {
        (void) snprintf(decision->rule, sizeof(decision->rule), "%s:%s",
                        decision->tenant ? decision->tenant->name : "nobody", rule);
}

int decision_deny(Decision *decision, EvaluateStep step, uint32_t line, const char *rule,
                  const char *needed, const char *format, ...) {
        _cleanup_(freep) char *reason = NULL, *copy = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&reason, format, ap);
        va_end(ap);
        if (n < 0)
                reason = NULL;
        copy = strdup(needed);
        if (!reason || !copy)
                return error_origin(-ENOMEM);

        free(decision->reason);
        free(decision->needed);
        decision->allowed = false;
        decision->step = step;
        decision->file = decision->tenant ? decision->tenant->file : NULL;
        decision->line = line;
        decision->reason = TAKE_PTR(reason);
        decision->needed = TAKE_PTR(copy);
        set_rule(decision, rule);
        return 0;
}

char *decision_text(const Decision *decision, const char *tool) {
        char *text;

        if (asprintf(&text, "The call of %s was denied: %s (rule %s). Needed: %s.", tool,
                     decision->reason ?: "it could not be decided", decision->rule,
                     decision->needed ?: "a decision") < 0)
                return NULL;
        return text;
}

/* --- the steps; what is denied is written into the decision --- */

static int rule_name(EvaluateStep step, const Rule *rule, char *ret, size_t size) {
        return snprintf(ret, size, "%s[%zu]", step_words[step], rule->index);
}

static int deny_nobody(Decision *decision) {
        return error_trace(decision_deny(
                decision, EVALUATE_TENANT, 0, "match",
                "that the administrator of this broker adds the user to a tenant",
                "who asks is no tenant of this broker, and nobody else may call anything"));
}

static int ask_deny(const Tenant *tenant, const ToolRights *tool, Decision *decision) {
        const Rule *rule = rules_find(&tenant->deny, tool->name);
        char name[48];

        if (!rule)
                return 0;
        (void) rule_name(EVALUATE_DENY, rule, name, sizeof(name));
        return error_trace(decision_deny(
                decision, EVALUATE_DENY, rule->line, name,
                "that the administrator of this broker takes the tool out of tools.deny",
                "tenant %s must not call %s", tenant->name, tool->name));
}

static int ask_allow(const Tenant *tenant, const ToolRights *tool, Decision *decision) {
        const Rule *rule = rules_find(&tenant->allow, tool->name);
        char name[48];

        if (rule) {
                (void) rule_name(EVALUATE_ALLOW, rule, name, sizeof(name));
                set_rule(decision, name);
                decision->step = EVALUATE_ALLOW;
                decision->file = tenant->file;
                decision->line = rule->line;
                return 0;
        }
        return error_trace(decision_deny(
                decision, EVALUATE_ALLOW, tenant->allow.line, step_words[EVALUATE_ALLOW],
                "that the administrator of this broker adds the tool to tools.allow",
                "no rule lets tenant %s call %s, and what is not allowed is denied", tenant->name,
                tool->name));
}

static int ask_scopes(const Tenant *tenant, const ToolRights *tool, Decision *decision) {
        const char *missing = tenant_missing_scope(tenant, &tool->scopes);
        _cleanup_(freep) char *needed = NULL;

        if (!missing)
                return 0;
        if (asprintf(&needed, "the scope %s, which the administrator of this broker can grant",
                     missing) < 0) {
                needed = NULL;
                return error_origin(-ENOMEM);
        }
        return error_trace(decision_deny(decision, EVALUATE_SCOPES, tenant->scopes_line,
                                         step_words[EVALUATE_SCOPES], needed,
                                         "%s needs the scope %s, and tenant %s does not have it",
                                         tool->name, missing, tenant->name));
}

/* A tool that is an operation itself. */
static int ask_operation(const Tenant *tenant, const ToolRights *tool, Decision *decision) {
        if (!tool->operation ||
            credential_rules_cover(&tenant->operations, tool->credential, tool->operation))
                return 0;
        return error_trace(
                decision_deny(decision, EVALUATE_OPERATIONS, tenant->operations_line,
                              step_words[EVALUATE_OPERATIONS],
                              "that the administrator of this broker adds it to operations",
                              "tenant %s may not call %s.%s, which the tool is", tenant->name,
                              tool->credential, tool->operation));
}

/* The template that a call asks for. What is no string is for the tool itself to refuse. */
static int asked_template(const ToolRights *tool, const JsonDoc *doc, const JsonNode *arguments,
                          char **ret_name) {
        const JsonNode *node = json_node_member(doc, arguments, "template");
        int r;

        r = node ? json_node_string(doc, node, ret_name, NULL) : JSON_NODE_E_TYPE;
        if (r <= 0)
                return error_trace(r);
        *ret_name = strdup(tool->template_default);
        return *ret_name ? 0 : error_origin(-ENOMEM);
}

static int ask_template(const Tenant *tenant, const ToolRights *tool, const JsonDoc *doc,
                        const JsonNode *arguments, Decision *decision) {
        _cleanup_(freep) char *name = NULL, *quoted = NULL;
        int r;

        if (!tool->template_default)
                return 0;
        r = asked_template(tool, doc, arguments, &name);
        if (r < 0)
                return error_trace(r);
        if (rules_find(&tenant->templates, name))
                return 0;
        quoted = diag_quote(name);
        if (!quoted)
                return error_origin(-ENOMEM);
        return error_trace(decision_deny(
                decision, EVALUATE_TEMPLATE, tenant->templates.line, step_words[EVALUATE_TEMPLATE],
                "another template, or that the administrator of this broker adds this one to "
                "templates",
                "tenant %s may not use the template %s", tenant->name, quoted));
}

static int deny_arguments(const Tenant *tenant, const TenantArguments *constraint,
                          const SchemaReason *why, Decision *decision) {
        _cleanup_(freep) char *rule = NULL, *needed = NULL, *path = NULL;
        const char *dot = string_empty(why->path) || *why->path == '[' ? "" : ".";

        if (asprintf(&rule, "arguments.%s", constraint->tool) < 0) {
                rule = NULL;
                return error_origin(-ENOMEM);
        }
        if (asprintf(&path, "arguments%s%s", dot, why->path ?: "") < 0) {
                path = NULL;
                return error_origin(-ENOMEM);
        }
        if (asprintf(&needed, "%s that must %s", path, why->allowed ?: "be another one") < 0) {
                needed = NULL;
                return error_origin(-ENOMEM);
        }
        return error_trace(decision_deny(
                decision, EVALUATE_ARGUMENTS, why->line > 0 ? why->line : constraint->line, rule,
                needed, "%s of %s is not what tenant %s may give: it must %s (%s)", path,
                constraint->tool, tenant->name, why->allowed ?: "be another one",
                why->keyword ?: "schema"));
}

static int ask_arguments(const Tenant *tenant, const ToolRights *tool, const JsonDoc *doc,
                         const JsonNode *arguments, Decision *decision) {
        const TenantArguments *constraint = tenant_find_arguments(tenant, tool->name);
        SchemaReason why = SCHEMA_REASON_NULL;
        int r;

        if (!constraint)
                return 0;
        r = schema_check(constraint->schema, doc, arguments, &why);
        if (r == SCHEMA_E_REFUSED)
                r = deny_arguments(tenant, constraint, &why, decision);
        schema_reason_done(&why);
        return error_fold(r);
}

int evaluate(const Tenant *tenant, const ToolRights *tool, const JsonDoc *doc,
             const JsonNode *arguments, Decision *ret_decision) {
        _cleanup_(decision_done) Decision d = {.tenant = tenant};
        int r;

        if (!tenant)
                r = deny_nobody(&d);
        else {
                r = ask_deny(tenant, tool, &d);
                if (r == 0 && !d.reason)
                        r = ask_allow(tenant, tool, &d);
                if (r == 0 && !d.reason)
                        r = ask_scopes(tenant, tool, &d);
                if (r == 0 && !d.reason)
                        r = ask_template(tenant, tool, doc, arguments, &d);
                if (r == 0 && !d.reason)
                        r = ask_arguments(tenant, tool, doc, arguments, &d);
                if (r == 0 && !d.reason)
                        r = ask_operation(tenant, tool, &d);
        }
        if (r < 0)
                return error_trace(r);

        d.allowed = !d.reason;
        *ret_decision = d;
        d = DECISION_NULL;
        return 0;
}

/* --- egress --- */

#define SCOPE_EGRESS "net:egress"

static int deny_egress_scope(const Tenant *tenant, Decision *decision) {
        return error_trace(decision_deny(decision, EVALUATE_SCOPES, tenant->scopes_line,
                                         step_words[EVALUATE_SCOPES],
                                         "the scope " SCOPE_EGRESS
                                         ", which the administrator of this broker can grant, or a "
                                         "job that reaches nothing",
                                         "to reach anything needs the scope " SCOPE_EGRESS
                                         ", and tenant %s does not have it",
                                         tenant->name));
}

static int deny_destination(const Tenant *tenant, const Destination *destination,
                            const char *template, Decision *decision) {
        _cleanup_(freep) char *text = destination_format(destination);

        if (!text)
                return error_origin(-ENOMEM);
        return error_trace(decision_deny(
                decision, EVALUATE_EGRESS, tenant->egress.line, step_words[EVALUATE_EGRESS],
                template ? "another template, or that the administrator of this broker adds it to "
                           "egress"
                         : "to leave it out, or that the administrator of this broker adds it to "
                           "egress",
                "tenant %s may not reach %s%s%s", tenant->name, text,
                template ? ", which is asked for by template " : "", template ?: ""));
}

int evaluate_egress(const Tenant *tenant, const char *template, const DestinationList *of_template,
                    const DestinationList *asked, Decision *decision) {
        char word[] = SCOPE_EGRESS, *words[] = {word, NULL};
        const StrV scope = {.items = words, .n_items = 1};

        if (of_template->n_items + asked->n_items == 0)
                return 0;
        if (tenant_missing_scope(tenant, &scope))
                return deny_egress_scope(tenant, decision);
        for (size_t i = 0; !tenant->egress_templates && i < of_template->n_items; i++)
                if (!destination_list_cover(&tenant->egress, &of_template->items[i]))
                        return deny_destination(tenant, &of_template->items[i], template, decision);
        for (size_t i = 0; i < asked->n_items; i++)
                if (!destination_list_cover(&tenant->egress, &asked->items[i]) &&
                    !(tenant->egress_templates &&
                      destination_list_cover(of_template, &asked->items[i])))
                        return deny_destination(tenant, &asked->items[i], NULL, decision);
        return 0;
}

/* --- operations --- */

#define SCOPE_CREDENTIAL "credential:use"

static int deny_credential_scope(const Tenant *tenant, Decision *decision) {
        return error_trace(decision_deny(
                decision, EVALUATE_SCOPES, tenant->scopes_line, step_words[EVALUATE_SCOPES],
                "the scope " SCOPE_CREDENTIAL ", which the administrator of this broker can grant, "
                "or a job that calls no operation",
                "to call operations with a credential needs the scope " SCOPE_CREDENTIAL
                ", and tenant %s does not have it",
                tenant->name));
}

static int deny_operation(const Tenant *tenant, const char *rule, const char *template,
                          Decision *decision) {
        return error_trace(decision_deny(
                decision, EVALUATE_OPERATIONS, tenant->operations_line,
                step_words[EVALUATE_OPERATIONS],
                template ? "another template, or that the administrator of this broker adds it to "
                           "operations"
                         : "to leave it out, or that the administrator of this broker adds it to "
                           "operations",
                "tenant %s may not call %s%s%s", tenant->name, rule,
                template ? ", which is asked for by template " : "", template ?: ""));
}

int evaluate_operations(const Tenant *tenant, const char *template, const StrV *of_template,
                        const StrV *asked, Decision *decision) {
        char word[] = SCOPE_CREDENTIAL, *words[] = {word, NULL};
        const StrV scope = {.items = words, .n_items = 1};

        if (of_template->n_items + asked->n_items == 0)
                return 0;
        if (tenant_missing_scope(tenant, &scope))
                return deny_credential_scope(tenant, decision);
        for (size_t i = 0; i < of_template->n_items; i++)
                if (!credential_rules_cover_rule(&tenant->operations, of_template->items[i]))
                        return deny_operation(tenant, of_template->items[i], template, decision);
        for (size_t i = 0; i < asked->n_items; i++)
                if (!credential_rules_cover_rule(&tenant->operations, asked->items[i]))
                        return deny_operation(tenant, asked->items[i], NULL, decision);
        return 0;
}

bool evaluate_may_call(const Tenant *tenant, const ToolRights *tool) {
        return tenant && !rules_find(&tenant->deny, tool->name) &&
               rules_find(&tenant->allow, tool->name) &&
               !tenant_missing_scope(tenant, &tool->scopes) &&
               (!tool->template_default || tenant->templates.n_items > 0) &&
               (!tool->operation ||
                credential_rules_cover(&tenant->operations, tool->credential, tool->operation));
}
