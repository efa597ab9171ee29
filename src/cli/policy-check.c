/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/policy-check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "mcp/tools.h"
#include "policy/evaluate.h"

static void warn_at(const Tenant *tenant, uint32_t line, const char *format, ...) _printf_(3, 4);

/* Of a place in the file of a tenant. */
static void warn_at(const Tenant *tenant, uint32_t line, const char *format, ...) {
        va_list args;

        fprintf(stderr, "warning: %s:%u: ", tenant->file, (unsigned) line);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
}

/* A name that is written out and none that there is was hardly meant. */
static void warn_of_tools(const Policy *policy, const Tenant *tenant, const char *list,
                          const Rules *rules) {
        for (size_t i = 0; i < rules->n_exact; i++) {
                const Rule *rule = &rules->items[i];

                if (!tools_rights(policy, rule->text))
                        warn_at(tenant, rule->line, "%s[%zu]: there is no tool %s in this version",
                                list, rule->index, rule->text);
        }
}

static void warn_of_templates(const Policy *policy, const Tenant *tenant) {
        for (size_t i = 0; i < tenant->templates.n_exact; i++) {
                const Rule *rule = &tenant->templates.items[i];

                if (!policy_find_template(policy, rule->text))
                        warn_at(tenant, rule->line,
                                "templates[%zu]: there is no template %s; add %s.json to a "
                                "templates.d, or correct the name",
                                rule->index, rule->text, rule->text);
        }
}

/* It may be one of a disk that is mounted later. */
static void warn_of_workspaces(const Tenant *tenant) {
        for (size_t i = 0; i < tenant->workspaces.n_items; i++) {
                const char *path = tenant->workspaces.items[i];
                struct stat status;
                int found = stat(path, &status) < 0 ? errno : 0;

                if (found == ENOENT || found == ENOTDIR)
                        warn_at(tenant, tenant->workspaces_line,
                                "workspaces: %s is not there; make it, or correct the path", path);
                else if (found == 0 && !S_ISDIR(status.st_mode))
                        warn_at(tenant, tenant->workspaces_line, "workspaces: %s is no folder",
                                path);
        }
}

/* Its jobs would have nothing to work on. A list without any folder says that this is meant. */
static void warn_of_no_workspaces(const Policy *policy, const Tenant *tenant) {
        const ToolRights *rights = tools_rights(policy, TOOL_SANDBOX_EXEC);
        bool own = policy->instance == POLICY_USER;

        if (tenant->workspaces_line > 0 || !tenant->file || !rights ||
            !evaluate_may_call(tenant, rights))
                return;
        fprintf(stderr,
                "warning: %s: there is no workspaces, so jobs see no folder of the host; add "
                "\"workspaces\": [\"%s\"]%s, or [] if that is meant\n",
                tenant->file, own ? TENANT_CONNECTION : "/srv/work",
                own ? ", which is that of agentcrate stdio -w" : " with the folders");
}

/* What could be called if the tenant had the scope. */
static bool lacks_scopes(const Policy *policy, const Tenant *tenant) {
        const ToolRights *tool;

        for (size_t i = 0; (tool = tools_rights_at(policy, i)); i++)
                if (rules_find(&tenant->allow, tool->name) &&
                    !rules_find(&tenant->deny, tool->name) &&
                    tenant_missing_scope(tenant, &tool->scopes))
                        return true;
        return false;
}

/* A key that another one needs. A list that is empty says that this is meant. */
static void warn_of_no_rights(const Policy *policy, const Tenant *tenant) {
        if (!tenant->file)
                return;
        if (tenant->scopes_line == 0 && lacks_scopes(policy, tenant))
                fprintf(stderr,
                        "warning: %s: there is no scopes, so no tool that needs one may be called; "
                        "add \"scopes\": [\"exec\"] for " TOOL_SANDBOX_EXEC
                        ", or [] if that is meant\n",
                        tenant->file);
        if (tenant->templates_line == 0 && rules_find(&tenant->allow, TOOL_SANDBOX_EXEC) &&
            !rules_find(&tenant->deny, TOOL_SANDBOX_EXEC))
                fprintf(stderr,
                        "warning: %s: there is no templates, so " TOOL_SANDBOX_EXEC
                        " may not be called; add \"templates\": [\"" TOOL_TEMPLATE_DEFAULT
                        "\"], or [] if that is meant\n",
                        tenant->file);
}

static bool has_scope(const Tenant *tenant, const char *scope) {
        char *items[] = {(char *) scope, NULL};
        const StrV one = {.items = items, .n_items = 1};

        return !tenant_missing_scope(tenant, &one);
}

/* A scope and the list that says what for: either is in vain without the other. */
static void warn_of_half(const Tenant *tenant, const char *key, uint32_t line, bool some,
                         const char *scope, const char *example) {
        bool has = has_scope(tenant, scope);

        if (some && !has)
                warn_at(tenant, line,
                        "%s: nothing of it may be used without the scope %s; add it "
                        "to scopes, or take %s away",
                        key, scope, key);
        else if (has && line == 0)
                warn_at(tenant, tenant->scopes_line,
                        "scopes: %s allows nothing, for there is no %s; add \"%s\": [\"%s\"] or "
                        "the like, or take the scope away",
                        scope, key, key, example);
}

static bool rule_leads_somewhere(const Policy *policy, const StrV *rule) {
        for (size_t i = 0; i < policy->n_credentials; i++)
                if (credential_n_covered(policy->credentials[i], rule) > 0)
                        return true;
        return string_equal(rule->items[0], "*");
}

static int warn_of_operations(const Policy *policy, const Tenant *tenant) {
        int r = 0;

        for (size_t i = 0; i < tenant->operations.n_items && r == 0; i++) {
                _cleanup_(strv_done) StrV rule = STRV_NULL;

                r = strv_append(&rule, tenant->operations.items[i]);
                if (r == 0 && !rule_leads_somewhere(policy, &rule))
                        warn_at(tenant, tenant->operations_line,
                                "operations: %s is no operation of any credential; add it to a "
                                "credentials.d, or correct the name",
                                rule.items[0]);
        }
        return error_trace(r);
}

int policy_check_print(const Policy *policy) {
        int r = 0;

        if (policy->n_tenants == 0)
                fputs("warning: there is no tenant, so nobody may call anything; write one, see "
                      "agentcrate-tenant(5)\n",
                      stderr);
        for (size_t i = 0; i < policy->n_tenants && r == 0; i++) {
                const Tenant *tenant = policy->tenants[i];

                warn_of_tools(policy, tenant, "tools.allow", &tenant->allow);
                warn_of_tools(policy, tenant, "tools.deny", &tenant->deny);
                warn_of_templates(policy, tenant);
                warn_of_workspaces(tenant);
                warn_of_no_workspaces(policy, tenant);
                warn_of_no_rights(policy, tenant);
                warn_of_half(tenant, "egress", tenant->egress.line,
                             tenant->egress.n_items > 0 || tenant->egress_templates, "net:egress",
                             TENANT_TEMPLATES);
                warn_of_half(tenant, "operations", tenant->operations_line,
                             tenant->operations.n_items > 0, "credential:use", "*");
                r = warn_of_operations(policy, tenant);
        }
        printf("no faults: %zu tenant%s, %zu template%s, %zu credential%s, %s\n", policy->n_tenants,
               plural(policy->n_tenants), policy->n_templates, plural(policy->n_templates),
               policy->n_credentials, plural(policy->n_credentials), policy->digest);
        return error_trace(r);
}
