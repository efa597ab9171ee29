/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may do what, by the policy. Whether a tenant may call a tool with these arguments is decided
 * by evaluate(), which is pure; here is what needs a look at the host: who somebody is, and where a
 * folder really lies.
 *
 * A host directory may be used only at or below one of the tenant's workspaces. A connection that
 * "agentcrate stdio -w" has announced one for has that one only, and for writing only if that one
 * is.
 *
 * A denial is an answer with a reason; a failure to decide is an error, and never "allowed".
 */

#include <stdbool.h>
#include <sys/types.h>

#include "basic/json-scan.h"
#include "broker/client.h"
#include "mcp/exec-args.h"
#include "policy/evaluate.h"

enum {
        _AUTHORIZE_E_SUCCESS,
        AUTHORIZE_E_DENIED, /* ret_text or the decision tells */
};

/*
 * Whether this peer may connect: it must be a tenant. A job in a user's crate has the user's uid,
 * and may be shown a folder with the broker's socket in it: a peer in another user namespace than
 * the broker's is denied.
 */
int authorize_peer(int connection, const Policy *policy, const Peer *peer, char **ret_text);
/* Who the peer is by this policy, which may be another one than that it connected under; NULL if
 * nobody. */
const Tenant *authorize_tenant(const Policy *policy, const Peer *peer);

/*
 * The host directory for a call of sandbox_exec: what its arguments name, else the connection's.
 * *ret_path is resolved (no symbolic link in it when it was looked at) and NULL for none. If it is
 * denied, the decision is changed to say so.
 */
int authorize_workspace(const Tenant *tenant, const ClientWorkspace *workspace,
                        const ExecArgs *args, char **ret_path, bool *ret_ro, Decision *decision);

/* Takes the announcement of a connection. What is wrong with it is kept, and told to each call. 0
 * or -ENOMEM. */
int client_workspace_set(ClientWorkspace *workspace, const JsonDoc *doc, const JsonNode *params);
void client_workspace_done(ClientWorkspace *workspace);
