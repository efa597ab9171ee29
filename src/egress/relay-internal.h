/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A relay: one connection of a job and the one that is made for it outside. relay.c has its life,
 * relay-flow.c moves its bytes.
 */

#include "egress/client-hello.h"
#include "egress/dial.h"
#include "egress/http-guard.h"
#include "egress/session-internal.h"

typedef enum RelayState {
        RELAY_HEAD, /* waits for what tells who is wanted */
        RELAY_RESOLVE,
        RELAY_DIAL,
        RELAY_OPEN,
} RelayState;

typedef struct RelayEnd {
        LoopFd fd;               /* fd.fd is owned; negative: there is none yet */
        bool readable, writable; /* as far as is known; epoll tells of every change once */
        bool ending;             /* its end was told of, and is behind what it has sent */
        bool ended;              /* it sends nothing any more */
} RelayEnd;

/* From one end to the other. */
typedef struct RelayFlow {
        StrBuf pending;   /* bytes that were looked at, and go before all that is in the buffer */
        size_t n_written; /* of pending */
        Buffer buffer;
        size_t begin, n_held; /* of what is in it */
        bool ended;           /* and the other end was told */
        uint64_t bytes;
} RelayFlow;

struct Relay {
        Session *session;
        Relay *previous, *next;
        Listener *listener;
        RelayState state;
        RelayEnd client, upstream;
        RelayFlow out, in;
        ClientHello *hello; /* of TLS, as long as it is read */
        HttpGuard *guard;   /* of HTTP */
        ResolverQuery *query;
        Dial *dial;
        LoopTimer timer;
        LoopTask turn; /* goes on later, so that others have theirs */
        uint64_t started_usec, moved_usec;
        Address address; /* that was dialled */
        char *chain;
};

typedef enum RelayEndReason {
        RELAY_DONE,
        RELAY_RESET, /* one end has broken off */
        RELAY_IDLE,
        RELAY_BYTES,   /* the session has had all its bytes */
        RELAY_REFUSED, /* it was said why */
        RELAY_SLOW,    /* it does not say whom it wants */
        RELAY_UNRESOLVED,
        RELAY_UNREACHABLE,
        RELAY_DENIED, /* there is no address that may be dialled */
        RELAY_CLOSED, /* the session ends */
        RELAY_FAILED, /* something here broke */
        _RELAY_END_REASON_MAX,
} RelayEndReason;

/* The relay is gone after this. The ends are reset, but after RELAY_DONE and RELAY_REFUSED. */
void relay_end(Relay *relay, RelayEndReason reason);

/* --- relay-flow.c --- */

/* Moves what can be moved. The relay may be gone after this. */
void relay_move(Relay *relay);
/* Reads what is wanted first. The relay may be gone after this; true: it is known now, and not yet
 * acted on. */
bool relay_read_head(Relay *relay);
void relay_flow_done(Relay *relay, RelayFlow *flow);
