/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/authorize.h"

#include <string.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/string-util.h"
#include "broker/peer.h"

#define deny(ret_text, ...) outcome_text(AUTHORIZE_E_DENIED, (ret_text), __VA_ARGS__)

/* A user's own instance where nothing was said about tenants. */
static bool has_owner_only(const Policy *policy) {
        return policy->n_tenants == 1 && string_equal(policy->tenants[0]->file, TENANT_BUILT_IN);
}

static int deny_nobody(const Policy *policy, uid_t uid, char **ret_text) {
        if (has_owner_only(policy))
                return deny(ret_text,
                            "this broker serves user %u and root only, and you are user %u: use a "
                            "broker of your own",
                            (unsigned) geteuid(), (unsigned) uid);
        return deny(ret_text,
                    "user %u is no tenant of this broker: ask its administrator to add the user, "
                    "or one of its groups, to match of a file in tenants.d",
                    (unsigned) uid);
}

static int check_tenant(const Policy *policy, const Peer *peer, char **ret_text) {
        const Tenant *tenant = NULL, *other = NULL;
        int r;

        r = policy_match(policy, peer->uid, peer->gids, peer->n_gids, &tenant, &other);
        switch (r) {
        case POLICY_MATCH_E_NOBODY:
                return deny_nobody(policy, peer->uid, ret_text);
        case POLICY_MATCH_E_SEVERAL:
                return deny(ret_text,
                            "user %u is tenant %s by one of its groups and tenant %s by another: "
                            "ask the administrator of this broker to name the user in one of them",
                            (unsigned) peer->uid, tenant->name, other->name);
        default:
                return error_trace(r);
        }
}

int authorize_peer(int connection, const Policy *policy, const Peer *peer, char **ret_text) {
        int r;

        r = check_tenant(policy, peer, ret_text);
        /* No crate ever has root's uid. */
        if (r != 0 || peer->uid == 0)
                return r;

        r = peer_check_namespace(connection, peer);
        switch (r) {
        case PEER_E_FOREIGN:
                return deny(ret_text, "this broker serves its own user namespace only, and you are "
                                      "in another: a job in a crate cannot ask for crates");
        case PEER_E_UNKNOWN:
                return deny(ret_text, "the process that connected cannot be looked at or has "
                                      "ended: keep it until it was served");
        default:
                return error_trace(r);
        }
}

const Tenant *authorize_tenant(const Policy *policy, const Peer *peer) {
        const Tenant *tenant = NULL, *other = NULL;

        if (policy_match(policy, peer->uid, peer->gids, peer->n_gids, &tenant, &other) != 0)
                return NULL;
        return tenant;
}

/* --- workspaces --- */

/* The directory itself, or why it cannot be used. */
static int resolve_directory(const char *path, char **ret_path, char **ret_text) {
        _cleanup_(freep) char *resolved = NULL, *quoted = NULL;
        struct stat st;

        quoted = diag_quote_path(path);
        if (!quoted)
                return error_origin(-ENOMEM);

        resolved = realpath(path, NULL);
        if (!resolved && errno == ENOMEM)
                return error_origin(-ENOMEM);
        if (!resolved || stat(resolved, &st) < 0)
                return deny(ret_text, "the workspace %s cannot be used: %s", quoted,
                            strerrordesc_np(errno));
        if (!S_ISDIR(st.st_mode))
                return deny(ret_text, "the workspace %s is no directory", quoted);

        *ret_path = TAKE_PTR(resolved);
        return 0;
}

static bool path_is_below(const char *path, const char *root) {
        const char *rest;

        if (string_equal(root, "/"))
                return true;
        rest = string_after(path, root);
        return rest && (*rest == 0 || *rest == '/');
}

/* Whether a resolved path lies in one of the tenant's workspaces, as they are now. */
static bool tenant_has(const Tenant *tenant, const char *path) {
        for (size_t i = 0; i < tenant->workspaces.n_items; i++) {
                _cleanup_(freep) char *root = realpath(tenant->workspaces.items[i], NULL);

                if (root && path_is_below(path, root))
                        return true;
        }
        return false;
}

static int deny_for(const Tenant *tenant, Decision *decision, const char *needed,
                    const char *text) {
        int r;

        r = decision_deny(decision, EVALUATE_WORKSPACE, tenant->workspaces_line,
                          evaluate_step_to_string(EVALUATE_WORKSPACE), needed, "%s", text);
        return r < 0 ? error_trace(r) : AUTHORIZE_E_DENIED;
}

static int deny_workspace(const Tenant *tenant, Decision *decision, const char *text) {
        bool has = tenant->workspaces.n_items > 0 || tenant->workspace_connection;

        return deny_for(tenant, decision,
                        has ? "a folder that the tenant may use, or that the administrator of "
                              "this broker adds this one to workspaces"
                            : "to leave workspace out, or that the administrator of this broker "
                              "adds the folder to workspaces",
                        text);
}

/* What is wrong with a folder is told to those only who may have looked at it themselves. */
static int deny_unusable(const Tenant *tenant, Decision *decision, const char *text) {
        return deny_workspace(tenant, decision,
                              tenant->workspace_connection
                                      ? text
                                      : "the workspace is no folder that this tenant may use");
}

/* The one that the connection came with, if it did. */
static int check_connection(const Tenant *tenant, const ClientWorkspace *workspace,
                            Decision *decision) {
        if (workspace->fault)
                return deny_unusable(tenant, decision, workspace->fault);
        if (!workspace->path || tenant->workspace_connection || tenant_has(tenant, workspace->path))
                return 0;
        return deny_workspace(tenant, decision,
                              "the workspace of this connection is no folder that this tenant may "
                              "use");
}

static int check_named(const Tenant *tenant, const ClientWorkspace *workspace, const char *path,
                       Decision *decision) {
        _cleanup_(freep) char *text = NULL;

        if (!workspace->path && tenant_has(tenant, path))
                return 0;
        if (!workspace->path && tenant->workspace_connection)
                return deny_for(tenant, decision,
                                "to leave workspace out, or to connect with \"agentcrate stdio -w "
                                "DIR\"",
                                "this connection came without a folder, and may use no host "
                                "directory");
        if (!workspace->path)
                return deny_workspace(tenant, decision,
                                      "the workspace is no folder that this tenant may use");
        if (path_is_below(path, workspace->path))
                return 0;
        if (asprintf(&text,
                     "workspace.path is outside of %s, which is all that this connection "
                     "may use",
                     workspace->path) < 0) {
                text = NULL;
                return error_origin(-ENOMEM);
        }
        return deny_workspace(tenant, decision, text);
}

static int resolve_named(const Tenant *tenant, const ClientWorkspace *workspace,
                         const ExecArgs *args, char **ret_path, Decision *decision) {
        _cleanup_(freep) char *path = NULL, *text = NULL;
        int r;

        r = resolve_directory(args->workspace, &path, &text);
        if (r == AUTHORIZE_E_DENIED)
                return deny_unusable(tenant, decision, text);
        if (r == 0)
                r = check_named(tenant, workspace, path, decision);
        if (r == 0)
                *ret_path = TAKE_PTR(path);
        return r;
}

int authorize_workspace(const Tenant *tenant, const ClientWorkspace *workspace,
                        const ExecArgs *args, char **ret_path, bool *ret_ro, Decision *decision) {
        _cleanup_(freep) char *path = NULL;
        int r;

        r = check_connection(tenant, workspace, decision);
        if (r != 0)
                return r;

        if (!args->workspace) {
                path = workspace->path ? strdup(workspace->path) : NULL;
                if (workspace->path && !path)
                        return error_origin(-ENOMEM);
                *ret_path = TAKE_PTR(path);
                *ret_ro = workspace->ro;
                return 0;
        }

        r = resolve_named(tenant, workspace, args, &path, decision);
        if (r != 0)
                return r;
        if (args->workspace_mode_given && !args->workspace_ro && workspace->ro)
                return deny_for(tenant, decision, "workspace.mode \"ro\"",
                                "this connection may use its workspace for reading only");
        *ret_ro = workspace->ro || args->workspace_ro;
        *ret_path = TAKE_PTR(path);
        return 0;
}

void client_workspace_done(ClientWorkspace *workspace) {
        free(workspace->path);
        free(workspace->fault);
        *workspace = (ClientWorkspace){};
}

int client_workspace_set(ClientWorkspace *workspace, const JsonDoc *doc, const JsonNode *params) {
        const JsonNode *object, *path, *mode;
        _cleanup_(freep) char *name = NULL;
        int r;

        object = json_node_member(doc, params, "workspace");
        if (!object)
                return 0;

        path = json_node_member(doc, object, "path");
        mode = json_node_member(doc, object, "mode");
        r = path ? json_node_string(doc, path, &name, NULL) : JSON_NODE_E_TYPE;
        if (r < 0)
                return error_trace(r);

        if (r > 0 || name[0] != '/')
                r = deny(&workspace->fault, "the connection's workspace has no absolute path");
        else if (mode && !json_node_string_equal(doc, mode, "ro") &&
                 !json_node_string_equal(doc, mode, "rw"))
                r = deny(&workspace->fault,
                         "the connection's workspace must have the mode ro or rw");
        else
                r = resolve_directory(name, &workspace->path, &workspace->fault);

        workspace->ro = mode && json_node_string_equal(doc, mode, "ro");
        return r < 0 ? error_trace(r) : 0;
}
