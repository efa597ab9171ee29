/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of a session share. */

#include "egress/denials.h"
#include "egress/rate.h"
#include "egress/resolver.h"
#include "egress/session.h"
#include "egress/turns.h"

#define SESSION_LOG_MAX 100U

typedef struct Caller Caller;
typedef struct Endpoint Endpoint;
typedef struct Listener Listener;
typedef struct Relay Relay;
typedef struct Stub Stub;

typedef struct UseCount {
        uint64_t connections, bytes_in, bytes_out;
} UseCount;

/* Of one name and port. */
typedef struct PortUse {
        UseCount all;
        UseCount unlogged; /* of connections for which the log had no room */
} PortUse;

struct Listener {
        Session *session;
        LoopFd fd; /* fd.fd is owned */
        LoopTimer pause;
        Destination *name;
        DestinationSlot *slot;
        DestinationPort *port;
        PortUse *use;
        Endpoint *endpoint; /* of a credential; NULL: of a destination */
};

/* One connection that has ended. */
typedef struct LogEntry {
        char *name;
        uint16_t port;
        Address address; /* family 0: none was dialled */
        char *chain;     /* NULL: no other names led to it */
        const char *end; /* static */
        uint64_t bytes_in, bytes_out, begun_usec, usec;
} LogEntry;

struct Session {
        SessionHost host;
        SessionDocument *document;
        Resolver *resolver; /* NULL: nothing was looked up yet */
        Stub *stub;
        Listener *listeners;
        size_t n_listeners;
        PortUse *uses;
        Relay *relays;
        size_t n_relays;
        Endpoint *endpoints; /* as many as the document has credentials, or none */
        Caller *callers;     /* connections to them */
        Turns turns;         /* of their requests */
        SessionTell tell;
        void *tell_userdata;
        Rate tells;
        size_t n_held; /* bytes of requests to endpoints, of which not all has come or been
                          answered */
        uint64_t n_untold;
        Rate accepts;
        uint64_t connections, bytes_in, bytes_out;
        Denials denials;
        LogEntry log[SESSION_LOG_MAX];
        size_t n_log;
};

/* Counts a refusal of what it is for; reason and seen as with denials_add(). */
void listener_deny(Listener *listener, DenialKind kind, const char *reason, const char *seen);

/* --- session-name.c --- */

enum {
        _SESSION_FIND_E_SUCCESS,
        SESSION_FIND_E_NONE,   /* nothing allows it */
        SESSION_FIND_E_DENIED, /* the operator denies it, whatever allows it */
        SESSION_FIND_E_FULL,   /* a wildcard does, which has given away all its addresses */
};

/* The addresses of a name. A wildcard gives one of its pairs to a name that is asked for for the
 * first time, and never to another one after that. */
int session_find_slot(Session *session, const char *name, const DestinationSlot **ret_slot);
/* Whether the operator denies that name. */
bool session_denies_name(const Session *session, const char *name);

/* --- relay.c --- */

/* fd is consumed. */
void relay_start(Listener *listener, int fd);
Relay *relay_free(Relay *relay);
/* All of them, at once. */
void session_end_relays(Session *session);

/* Its own, when something is to be looked up for the first time. */
int session_get_resolver(Session *session, Resolver **ret_resolver);

/* --- endpoint.c --- */

/* Reads the secrets of all credentials. 0, SESSION_DOCUMENT_E_INVALID or a negative errno. */
int session_begin_endpoints(Session *session, SessionReason *ret_reason);
void session_end_endpoints(Session *session);
Endpoint *session_get_endpoint(Session *session, size_t index);

/* --- endpoint-caller.c --- */

/* fd is consumed. */
void caller_start(Listener *listener, int fd);
/* All of them, at once. */
void session_end_callers(Session *session);

/* --- stub.c --- */

/* The sockets are owned by the stub from here on; negative: none. */
int stub_new(Session *session, const int sockets[static _SESSION_DNS_MAX], Stub **ret_stub);
Stub *stub_free(Stub *stub);
