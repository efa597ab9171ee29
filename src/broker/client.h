/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One connection: bytes to messages, and messages to bytes, with back-pressure in both directions.
 * Nothing that a client does or leaves undone holds up another one.
 *
 * A connection whose client has closed it ends, and its jobs with it. One that was closed for
 * writing only still gets the answers that it waits for.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "broker/batch.h"
#include "broker/manager.h"
#include "broker/outbox.h"
#include "broker/peer.h"
#include "broker/subscriptions.h"
#include "mcp/framing.h"
#include "mcp/protocol.h"

typedef struct ClientWorkspace {
        char *path; /* resolved; NULL: none */
        bool ro;
        char *fault; /* why the one that was announced cannot be used */
} ClientWorkspace;

struct Client {
        LIST_ENTRY(Client) entry;
        Manager *manager;
        int fd;
        Peer who;
        sd_event_source *io;
        sd_event_source *end;    /* frees it when the event loop is back */
        sd_event_source *resume; /* goes on with what waited for the outbox */
        Framer framer;
        Outbox outbox;
        McpPeer peer;
        ClientWorkspace workspace;
        struct CallList calls;
        Subscriptions subscriptions;
        bool heard;       /* the first byte has come */
        bool spoken;      /* the first message has come */
        bool handed_over; /* somebody else has the connection, and its place in the budget */
        bool input_ended;
        bool waits;   /* the outbox holds something */
        bool blocked; /* the outbox is above its bound */
        bool gone;    /* nothing more is sent or read */
};

/* Consumes fd and who, also on failure. The budget was charged by the caller and is released with
 * it. */
int client_new(Manager *manager, int fd, Peer *who);
Client *client_free(Client *client);
DEFINE_CLEANUP(Client, client_free);

/* Sends a frame. What fails here ends the connection, not its caller. */
void client_send(Client *client, const char *frame, size_t size);
/* The same for the answer to a message of a batch; batch may be NULL. */
void client_answer(Client *client, Batch *batch, const char *frame, size_t size);
/* Whether everything that was sent has left. */
bool client_is_drained(const Client *client);
/* Tells it, as it wants it, that its tools are others. */
void client_tell_tools_changed(Client *client);
/* Answers open subscriptions: the broker stops. */
void client_end_subscriptions(Client *client);
/* To be called when one of its calls has gone. */
void client_check(Client *client);
