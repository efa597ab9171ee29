/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small MCP client: one request at a time, each standing by itself as revision 2026-07-28 has it,
 * so no handshake comes first. It speaks to our own broker only.
 */

#include "basic/json-scan.h"
#include "basic/string-util.h"
#include "cli/command.h"
#include "mcp/framing.h"

typedef struct Client {
        int fd;
        Framer framer;
        unsigned next_id;
} Client;

#define CLIENT_NULL ((Client){.fd = -EBADF})

/* An answer. result or error is set; both point into doc. */
typedef struct ClientReply {
        char *line;
        JsonDoc *doc;
        const JsonNode *result;
        const JsonNode *error;
} ClientReply;

void client_reply_done(ClientReply *reply);

enum {
        _CLIENT_E_SUCCESS,
        CLIENT_E_COMPLAINED, /* no broker, or none that answers; the user was told */
};

/* Connects, and names the workspace of the connection if there is one. 0, CLIENT_E_COMPLAINED or a
 * negative errno. */
int client_connect(Client *client, const CommonOptions *options);
void client_done(Client *client);

/*
 * Sends a request and waits for its answer. members are the params' own, as JSON text such as
 * "\"name\":\"x\",", each with its comma; "" if there are none. With on_progress the texts of
 * progress notifications are handed out as they come. 0, CLIENT_E_COMPLAINED or a negative errno.
 */
int client_request(Client *client, const char *method, const char *members,
                   void (*on_progress)(const char *text), ClientReply *ret_reply);

/* Tells of reply->error, and gives the exit status that it means. remedy follows where the request
 * was wrong. */
int client_complain_error(const ClientReply *reply, const char *what, const char *remedy);
