/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/tenant.h"

#include <inttypes.h>
#include <string.h>

#include "basic/error.h"
#include "schema/schema.h"

static const char *const scope_words[] = {
        "exec", "fs:read", "fs:write", "net:egress", "credential:use",
};

#define SCOPE_SERVER "server:"
#define SCOPE_SERVER_MAX 64U

bool scope_is_valid(const char *scope) {
        const char *server = string_after(scope, SCOPE_SERVER);
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(scope_words); i++)
                if (string_equal(scope_words[i], scope))
                        return true;
        if (!server)
                return false;
        n = strspn(server, "abcdefghijklmnopqrstuvwxyz0123456789-");
        return n > 0 && n <= SCOPE_SERVER_MAX && server[n] == 0;
}

Tenant *tenant_free(Tenant *tenant) {
        if (!tenant)
                return NULL;

        free(tenant->name);
        free(tenant->file);
        free(tenant->description);
        free(tenant->uids.items);
        free(tenant->gids.items);
        strv_done(&tenant->scopes);
        rules_done(&tenant->allow);
        rules_done(&tenant->deny);
        for (size_t i = 0; i < tenant->n_arguments; i++) {
                free(tenant->arguments[i].tool);
                free(tenant->arguments[i].text);
                schema_free(tenant->arguments[i].schema);
        }
        free(tenant->arguments);
        strv_done(&tenant->workspaces);
        rules_done(&tenant->templates);
        destination_list_done(&tenant->egress);
        strv_done(&tenant->operations);
        free(tenant);
        return NULL;
}

int tenant_new_owner(uid_t uid, Tenant **ret_tenant) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        if (asprintf(&text,
                     "{\"description\": \"who runs this broker\","
                     " \"match\": {\"uid\": [%" PRIu32 "%s]},"
                     " \"scopes\": [\"exec\", \"fs:read\", \"fs:write\", \"net:egress\"],"
                     " \"tools\": {\"allow\": [\"*\"]},"
                     " \"workspaces\": [\"" TENANT_CONNECTION "\"],"
                     " \"templates\": [\"*\"],"
                     " \"egress\": [\"" TENANT_TEMPLATES "\"]}",
                     (uint32_t) uid, uid == 0 ? "" : ", 0") < 0) {
                text = NULL;
                return error_origin(-ENOMEM);
        }
        r = tenant_parse("owner", TENANT_BUILT_IN, text, strlen(text), &diags, NULL, ret_tenant);
        return error_fold(r);
}

static int compare_string(const void *key, const void *item) {
        return strcmp(key, *(char *const *) item);
}

const char *tenant_missing_scope(const Tenant *tenant, const StrV *needed) {
        for (size_t i = 0; i < needed->n_items; i++)
                if (tenant->scopes.n_items == 0 ||
                    !bsearch(needed->items[i], tenant->scopes.items, tenant->scopes.n_items,
                             sizeof(char *), compare_string))
                        return needed->items[i];
        return NULL;
}

static int compare_arguments(const void *key, const void *item) {
        return strcmp(key, ((const TenantArguments *) item)->tool);
}

const TenantArguments *tenant_find_arguments(const Tenant *tenant, const char *tool) {
        if (tenant->n_arguments == 0)
                return NULL;
        return bsearch(tool, tenant->arguments, tenant->n_arguments, sizeof(TenantArguments),
                       compare_arguments);
}
