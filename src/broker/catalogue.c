/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/catalogue.h"

#include "basic/error.h"
#include "basic/json-scan.h"
#include "policy/evaluate.h"
#include "schema/schema.h"

struct Catalogue {
        Policy *policy;
        Tools *all;
        Tools **own;   /* by the tenant's place in the policy; NULL: not made, or all of them */
        bool *decided; /* the same: whether it was looked at */
        Tools *none;
};

Catalogue *catalogue_free(Catalogue *catalogue) {
        if (!catalogue)
                return NULL;

        for (size_t i = 0; catalogue->own && i < catalogue->policy->n_tenants; i++)
                tools_free(catalogue->own[i]);
        free(catalogue->own);
        free(catalogue->decided);
        tools_free(catalogue->none);
        tools_free(catalogue->all);
        policy_free(catalogue->policy);
        free(catalogue);
        return NULL;
}

int catalogue_new(Policy *policy, Catalogue **ret_catalogue) {
        _cleanup_(catalogue_freep) Catalogue *catalogue = NULL;
        int r;

        catalogue = calloc(1, sizeof(Catalogue));
        if (!catalogue)
                return error_origin(-ENOMEM);
        catalogue->policy = policy_ref(policy);
        catalogue->own = calloc(policy->n_tenants + 1, sizeof(Tools *));
        catalogue->decided = calloc(policy->n_tenants + 1, sizeof(bool));
        if (!catalogue->own || !catalogue->decided)
                return error_origin(-ENOMEM);
        r = tools_new(policy, &catalogue->all);
        if (r < 0)
                return error_trace(r);
        *ret_catalogue = TAKE_PTR(catalogue);
        return 0;
}

const Tools *catalogue_all(const Catalogue *catalogue) {
        return catalogue->all;
}

/* Nothing of any tool is kept from the tenant. */
static bool sees_all(const Policy *policy, const Tenant *tenant) {
        const ToolRights *rights;

        for (size_t i = 0; (rights = tools_rights_at(policy, i)); i++)
                if (!evaluate_may_call(tenant, rights) ||
                    tenant_find_arguments(tenant, rights->name))
                        return false;
        return true;
}

/* The tool as it is listed, with its schema narrowed. */
static int append_narrowed(StrBuf *out, const JsonDoc *doc, const JsonNode *tool,
                           const TenantArguments *arguments) {
        const JsonNode *schema = json_node_member(doc, tool, "inputSchema");
        _cleanup_(strbuf_done) StrBuf narrowed = STRBUF_NULL;
        const char *text = json_node_slice(doc, tool);
        size_t before, after;
        int r;

        if (!arguments || !schema)
                return error_trace(strbuf_append(out, text, tool->size));

        before = schema->offset - tool->offset;
        after = before + schema->size;
        r = schema_narrow(arguments->schema, json_node_slice(doc, schema), schema->size, &narrowed);
        if (r == 0)
                r = strbuf_append(out, text, before);
        if (r == 0)
                r = strbuf_append(out, narrowed.data, narrowed.size);
        if (r == 0)
                r = strbuf_append(out, text + after, tool->size - after);
        return error_trace(r);
}

static int append_tool(StrBuf *out, const Policy *policy, const JsonDoc *doc, const JsonNode *tool,
                       const Tenant *tenant) {
        _cleanup_(freep) char *name = NULL;
        const ToolRights *rights;
        int r;

        r = json_node_string(doc, json_node_member(doc, tool, "name"), &name, NULL);
        if (r != 0)
                return error_fold(r);
        rights = tools_rights(policy, name);
        if (!rights || !evaluate_may_call(tenant, rights))
                return 0;
        r = out->size > 1 ? strbuf_append_byte(out, ',') : 0;
        if (r == 0)
                r = append_narrowed(out, doc, tool, tenant_find_arguments(tenant, name));
        return error_trace(r);
}

/* One revision's list; tenant may be NULL. */
static int make_list(const Policy *policy, const char *all, const Tenant *tenant, char **ret_list) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        JsonError error;
        int r;

        r = json_scan(all, strlen(all), &doc, &error);
        if (r != 0)
                return error_fold(r);
        r = strbuf_append_byte(&out, '[');
        for (const JsonNode *tool = json_doc_root(doc)->first; r == 0 && tool; tool = tool->next)
                r = append_tool(&out, policy, doc, tool, tenant);
        if (r == 0)
                r = strbuf_append_byte(&out, ']');
        if (r < 0)
                return error_trace(r);
        *ret_list = strbuf_steal(&out);
        return *ret_list ? 0 : error_origin(-ENOMEM);
}

static int make_tools(const Catalogue *catalogue, const Tenant *tenant, Tools **ret_tools) {
        const Tools *all = catalogue->all;
        _cleanup_(tools_freep) Tools *tools = NULL;
        int r;

        tools = calloc(1, sizeof(Tools));
        if (!tools)
                return error_origin(-ENOMEM);
        r = strv_copy(&tools->names, &all->names);
        for (McpRevision revision = 0; r == 0 && revision < _MCP_REVISION_MAX; revision++)
                r = make_list(catalogue->policy, all->json[revision], tenant,
                              &tools->json[revision]);
        if (r < 0)
                return error_trace(r);
        *ret_tools = TAKE_PTR(tools);
        return 0;
}

static size_t tenant_place(const Policy *policy, const Tenant *tenant) {
        size_t i = 0;

        while (policy->tenants[i] != tenant)
                i++;
        return i;
}

int catalogue_get(Catalogue *catalogue, const Tenant *tenant, const Tools **ret_tools) {
        Tools **own = &catalogue->none;
        size_t i;
        int r = 0;

        if (tenant) {
                i = tenant_place(catalogue->policy, tenant);
                own = &catalogue->own[i];
                if (!catalogue->decided[i] && !sees_all(catalogue->policy, tenant))
                        r = make_tools(catalogue, tenant, own);
                catalogue->decided[i] = r == 0;
        } else if (!catalogue->none)
                r = make_tools(catalogue, NULL, own);
        if (r < 0)
                return error_trace(r);
        *ret_tools = *own ?: catalogue->all;
        return 0;
}
