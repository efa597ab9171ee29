/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may do what. Until there are tenants: the broker's own user and root may connect, and may use
 * every tool. A host directory may be used by a connection only at or below the one that
 * "agentcrate stdio -w" has announced for it, and for writing only if that one is.
 *
 * A denial is an answer with a reason; a failure to decide is an error, and never "allowed".
 */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "basic/json-scan.h"
#include "broker/client.h"
#include "mcp/exec-args.h"

enum {
        _AUTHORIZE_E_SUCCESS,
        AUTHORIZE_E_DENIED, /* ret_text tells */
};

/*
 * Whether this peer may connect. A job in a user's crate has the user's uid, and may be shown a
 * folder with the broker's socket in it: a peer in another user namespace than the broker's is
 * denied.
 */
int authorize_peer(int connection, const struct ucred *peer, char **ret_text);

/*
 * The host directory for a call of sandbox_exec: what its arguments name, else the connection's.
 * *ret_path is resolved (no symbolic link in it when it was looked at) and NULL for none.
 */
int authorize_workspace(const ClientWorkspace *workspace, const ExecArgs *args, char **ret_path,
                        bool *ret_ro, char **ret_text);

/* Takes the announcement of a connection. What is wrong with it is kept, and told to each call. 0
 * or -ENOMEM. */
int client_workspace_set(ClientWorkspace *workspace, const JsonDoc *doc, const JsonNode *params);
void client_workspace_done(ClientWorkspace *workspace);
