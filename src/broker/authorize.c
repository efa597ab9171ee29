/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/authorize.h"

#include <string.h>
#include <sys/stat.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/string-util.h"
#include "broker/peer.h"

#define deny(ret_text, ...) outcome_text(AUTHORIZE_E_DENIED, (ret_text), __VA_ARGS__)

int authorize_peer(int connection, const struct ucred *peer, char **ret_text) {
        int r;

        if (peer->uid != geteuid() && peer->uid != 0)
                return deny(ret_text,
                            "this broker serves user %u and root only, and you are user %u: use a "
                            "broker of your own",
                            (unsigned) geteuid(), (unsigned) peer->uid);
        /* No crate ever has root's uid. */
        if (peer->uid == 0)
                return 0;

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

static int check_mode(const ClientWorkspace *workspace, const ExecArgs *args, bool *ret_ro,
                      char **ret_text) {
        if (args->workspace_mode_given && !args->workspace_ro && workspace->ro)
                return deny(ret_text,
                            "this connection may use its workspace for reading only: send "
                            "workspace.mode \"ro\"");

        *ret_ro = workspace->ro || args->workspace_ro;
        return 0;
}

int authorize_workspace(const ClientWorkspace *workspace, const ExecArgs *args, char **ret_path,
                        bool *ret_ro, char **ret_text) {
        _cleanup_(freep) char *path = NULL;
        int r;

        if (workspace->fault)
                return deny(ret_text, "%s", workspace->fault);

        if (!args->workspace) {
                path = workspace->path ? strdup(workspace->path) : NULL;
                if (workspace->path && !path)
                        return error_origin(-ENOMEM);
                *ret_path = TAKE_PTR(path);
                *ret_ro = workspace->ro;
                return 0;
        }

        if (!workspace->path)
                return deny(ret_text, "this connection may use no host directory: leave workspace "
                                      "out, or connect with \"agentcrate stdio -w DIR\"");

        r = resolve_directory(args->workspace, &path, ret_text);
        if (r != 0)
                return r;
        if (!path_is_below(path, workspace->path))
                return deny(ret_text,
                            "workspace.path is outside of %s, which is all that this "
                            "connection may use",
                            workspace->path);

        r = check_mode(workspace, args, ret_ro, ret_text);
        if (r != 0)
                return r;
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
