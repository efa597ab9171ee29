/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "policy/dump.h"
#include "policy/reader.h"

Policy *policy_ref(Policy *policy) {
        policy->n_refs++;
        return policy;
}

Policy *policy_free(Policy *policy) {
        if (!policy || --policy->n_refs > 0)
                return NULL;

        config_done(&policy->config);
        for (size_t i = 0; i < policy->n_templates; i++)
                (void) template_free(policy->templates[i]);
        free(policy->templates);
        for (size_t i = 0; i < policy->n_tenants; i++)
                (void) tenant_free(policy->tenants[i]);
        free(policy->tenants);
        exposed_tools_done(&policy->exposed);
        for (size_t i = 0; i < policy->n_credentials; i++)
                (void) credential_free(policy->credentials[i]);
        free(policy->credentials);
        free(policy->uids.items);
        free(policy->gids.items);
        diag_list_done(&policy->warnings);
        free(policy);
        return NULL;
}

static int load_templates(const PolicyFiles *files, DiagList *diags, Policy *policy) {
        _cleanup_(strv_done) StrV names = STRV_NULL;
        int r;

        r = policy_list(files, &source_templates, diags, &names);
        if (r < 0)
                return error_trace(r);

        policy->templates = calloc(names.n_items + 1, sizeof(Template *));
        if (!policy->templates)
                return error_origin(-ENOMEM);

        for (size_t i = 0; i < names.n_items; i++) {
                Template *template = NULL;

                r = policy_read_template(files, names.items[i], diags, &template);
                if (r < 0)
                        return error_trace(r);
                if (template)
                        policy->templates[policy->n_templates++] = template;
        }
        return 0;
}

static int load_credentials(const PolicyFiles *files, DiagList *diags, Policy *policy) {
        _cleanup_(strv_done) StrV names = STRV_NULL;
        int r;

        r = policy_list(files, &source_credentials, diags, &names);
        if (r < 0)
                return error_trace(r);
        policy->credentials = calloc(names.n_items + 1, sizeof(Credential *));
        if (!policy->credentials)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < names.n_items; i++) {
                Credential *credential = NULL;

                r = policy_read_credential(files, names.items[i], diags, &credential);
                if (r < 0)
                        return error_trace(r);
                if (credential)
                        policy->credentials[policy->n_credentials++] = credential;
        }
        return 0;
}

/* --- tenants --- */

static int load_tenant(const PolicyFiles *files, const char *name, DiagList *diags,
                       Policy *policy) {
        _cleanup_(freep) char *file = NULL, *text = NULL, *entry = NULL;
        Tenant *tenant = NULL;
        size_t size;
        int r;

        if (asprintf(&entry, "%s/%s.json", source_tenants.name, name) < 0) {
                entry = NULL;
                return error_origin(-ENOMEM);
        }
        r = policy_read_newest(files, entry, diags, &file, &text, &size);
        if (r == 0)
                r = tenant_parse(name, file, text, size, diags, &policy->warnings, &tenant);
        if (r < 0)
                return error_trace(r);
        if (tenant)
                policy->tenants[policy->n_tenants++] = tenant;
        return 0;
}

/* The folders of this instance's tenants; those of a user are not the administrator's. */
static int tenant_files(const PolicyFiles *files, PolicyInstance instance, StrV *ret_dirs) {
        bool own = instance == POLICY_USER && geteuid() != 0;
        int r = 0;

        for (size_t i = 0; i < files->dirs.n_items && r == 0; i++)
                if (!own || !string_equal(files->dirs.items[i], SYSCONFDIR))
                        r = strv_append(ret_dirs, files->dirs.items[i]);
        return error_trace(r);
}

static int load_tenants(const PolicyFiles *files, DiagList *diags, Policy *policy) {
        _cleanup_(strv_done) StrV dirs = STRV_NULL, names = STRV_NULL;
        PolicyFiles own = {.trust = files->trust};
        int r;

        r = tenant_files(files, policy->instance, &dirs);
        own.dirs = dirs;
        if (r == 0)
                r = policy_list(&own, &source_tenants, diags, &names);
        if (r < 0)
                return error_trace(r);

        policy->tenants = calloc(names.n_items + 1, sizeof(Tenant *));
        if (!policy->tenants)
                return error_origin(-ENOMEM);
        if (names.n_items == 0 && policy->instance == POLICY_USER) {
                r = tenant_new_owner(geteuid(), &policy->tenants[0]);
                if (r < 0)
                        return error_trace(r);
                policy->n_tenants = 1;
        }
        for (size_t i = 0; i < names.n_items; i++) {
                r = load_tenant(&own, names.items[i], diags, policy);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* --- who is who --- */

static int compare_matches(const void *a, const void *b) {
        const PolicyMatch *x = a, *y = b;

        if (x->id != y->id)
                return x->id < y->id ? -1 : 1;
        return strcmp(x->tenant->name, y->tenant->name);
}

static int index_ids(const Policy *policy, bool uids, PolicyMatches *matches) {
        size_t n = 0;

        for (size_t i = 0; i < policy->n_tenants; i++)
                n += uids ? policy->tenants[i]->uids.n_items : policy->tenants[i]->gids.n_items;
        matches->items = calloc(n + 1, sizeof(PolicyMatch));
        if (!matches->items)
                return error_origin(-ENOMEM);

        for (size_t i = 0; i < policy->n_tenants; i++) {
                const Tenant *tenant = policy->tenants[i];
                const TenantIds *ids = uids ? &tenant->uids : &tenant->gids;

                for (size_t k = 0; k < ids->n_items; k++)
                        matches->items[matches->n_items++] = (PolicyMatch){
                                .id = ids->items[k].id,
                                .tenant = tenant,
                                .place = &ids->items[k],
                        };
        }
        qsort(matches->items, matches->n_items, sizeof(PolicyMatch), compare_matches);
        return 0;
}

static int fault_match(DiagList *diags, const PolicyMatch *match, const char *key,
                       const char *text) {
        char path[48];

        (void) snprintf(path, sizeof(path), "match.%s[%zu]", key, match->place->index);
        return error_trace(diag_add(diags, match->tenant->file, match->place->line,
                                    match->place->column, path, "%s", text));
}

/* Somebody can be one tenant only. */
static int check_matches(const PolicyMatches *matches, const char *key, DiagList *diags) {
        for (size_t i = 1; i < matches->n_items; i++) {
                const PolicyMatch *match = &matches->items[i], *before = match - 1;
                _cleanup_(freep) char *text = NULL;
                int r;

                if (match->id != before->id)
                        continue;
                if (asprintf(&text,
                             "%s %" PRIu32 " is tenant %s too, by %s:%" PRIu32
                             ": take it out of one of them",
                             key, match->id, before->tenant->name, before->tenant->file,
                             before->place->line) < 0) {
                        text = NULL;
                        return error_origin(-ENOMEM);
                }
                r = fault_match(diags, match, key, text);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* A job that could reach the socket would be that tenant. */
static int check_subuids(const Policy *policy, DiagList *diags) {
        const Config *config = &policy->config;

        for (size_t i = 0; i < policy->uids.n_items; i++) {
                const PolicyMatch *match = &policy->uids.items[i];
                int r;

                if (match->id < config->subuid_base ||
                    match->id - config->subuid_base >= config->subuid_count)
                        continue;
                r = fault_match(diags, match, "uid",
                                "lies in subuid_range, whose ids are those of crates");
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* A user's broker opens what its user may open. The system's may open more than who asks. */
static int check_connections(const Policy *policy, DiagList *diags) {
        int r = 0;

        for (size_t i = 0; i < policy->n_tenants && r == 0; i++) {
                const Tenant *tenant = policy->tenants[i];

                if (!tenant->workspace_connection || policy->instance == POLICY_USER)
                        continue;
                r = diag_add(diags, tenant->file, tenant->connection_place.line,
                             tenant->connection_place.column, "workspaces",
                             "\"" TENANT_CONNECTION
                             "\" is for a user's own instance only, for this one may open what "
                             "the user must not: name the folders");
        }
        return error_trace(r);
}

static int index_tenants(Policy *policy, DiagList *diags) {
        int r;

        r = index_ids(policy, true, &policy->uids);
        if (r == 0)
                r = index_ids(policy, false, &policy->gids);
        if (r == 0)
                r = check_matches(&policy->uids, "uid", diags);
        if (r == 0)
                r = check_matches(&policy->gids, "gid", diags);
        if (r == 0)
                r = check_subuids(policy, diags);
        if (r == 0)
                r = check_connections(policy, diags);
        return error_trace(r);
}

static const PolicyMatch *find_match(const PolicyMatches *matches, uint32_t id) {
        size_t first = 0, n = matches->n_items;

        while (n > 0) {
                const PolicyMatch *middle = &matches->items[first + n / 2];

                if (middle->id == id)
                        return middle;
                if (middle->id < id) {
                        first += n / 2 + 1;
                        n -= n / 2 + 1;
                } else
                        n /= 2;
        }
        return NULL;
}

int policy_match(const Policy *policy, uid_t uid, const gid_t *gids, size_t n_gids,
                 const Tenant **ret_tenant, const Tenant **ret_other) {
        const PolicyMatch *match = find_match(&policy->uids, uid);
        const Tenant *tenant = match ? match->tenant : NULL;

        for (size_t i = 0; i < n_gids && !match; i++) {
                const PolicyMatch *group = find_match(&policy->gids, gids[i]);

                if (!group || group->tenant == tenant)
                        continue;
                if (tenant) {
                        *ret_tenant = tenant;
                        *ret_other = group->tenant;
                        return POLICY_MATCH_E_SEVERAL;
                }
                tenant = group->tenant;
        }
        if (!tenant)
                return POLICY_MATCH_E_NOBODY;
        *ret_tenant = tenant;
        return 0;
}

/* --- the whole --- */

int policy_load_instance(PolicyInstance instance, const StrV *dirs, DiagList *diags,
                         Policy **ret_policy) {
        const PolicyFiles files = {
                .dirs = *dirs,
                .trust = instance == POLICY_SYSTEM ? SOURCE_TRUST_ROOT : SOURCE_TRUST_USER,
        };
        _cleanup_(policy_freep) Policy *policy = NULL;
        size_t before = reader_n_faults(diags);
        int r;

        policy = calloc(1, sizeof(Policy));
        if (!policy)
                return error_origin(-ENOMEM);
        policy->n_refs = 1;
        policy->instance = instance;
        config_init(&policy->config);

        r = policy_read_config(&files, diags, &policy->config);
        if (r == 0)
                r = load_templates(&files, diags, policy);
        if (r == 0)
                r = load_credentials(&files, diags, policy);
        if (r == 0)
                r = exposed_tools_make(policy->credentials, policy->n_credentials,
                                       &policy->exposed);
        if (r == 0)
                r = load_tenants(&files, diags, policy);
        if (r == 0)
                r = index_tenants(policy, diags);
        if (r < 0)
                return error_trace(r);
        if (reader_n_faults(diags) > before)
                return POLICY_E_INVALID;

        r = policy_digest(policy, policy->digest);
        if (r < 0)
                return error_trace(r);
        *ret_policy = TAKE_PTR(policy);
        return 0;
}

int policy_load(const StrV *dirs, DiagList *diags, Policy **ret_policy) {
        return policy_load_instance(POLICY_USER, dirs, diags, ret_policy);
}

static int compare_template(const void *name, const void *item) {
        return strcmp(name, (*(Template *const *) item)->name);
}

const Template *policy_find_template(const Policy *policy, const char *name) {
        Template *const *found = bsearch(name, policy->templates, policy->n_templates,
                                         sizeof(Template *), compare_template);

        return found ? *found : NULL;
}

static int compare_tenant(const void *name, const void *item) {
        return strcmp(name, (*(Tenant *const *) item)->name);
}

const Tenant *policy_find_tenant(const Policy *policy, const char *name) {
        Tenant *const *found =
                bsearch(name, policy->tenants, policy->n_tenants, sizeof(Tenant *), compare_tenant);

        return found ? *found : NULL;
}
