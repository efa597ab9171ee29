/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one crate may reach, as the host tells it in a sealed memfd: a JSON text, of which every
 * member is checked, since the host may have been taken over.
 *
 *   dns       numbers of the stub's sockets: UDP and TCP of IPv4, then of IPv6; -1: there is none
 *   names     name, slots (a pair of addresses each; a wildcard has several, one for each concrete
 *             name that is asked for) and ports: port, type, addresses that are opened, and for
 *             each slot the sockets that listen there, of IPv4 and IPv6
 *   deny      networks that nothing opens, and names and wildcards that nothing allows
 *   limits    connections at one time, idle_ms, bytes of all connections (0: any number), and
 *             head_ms, to say who is wanted, where that is less than usual
 *   resolver  servers, ADDRESS:PORT; without it the system's are asked
 *   credentials  name, slots and sockets (one pair each) of its host NAME.crate.internal; what its
 *             file says, with the operations of this job only; and ca, the certificates that its
 *             file names. The secret is a name only. Instead of slots and sockets one may have
 *             connection, the number of a socket on whose other end one request is made
 *   tenant    whose calls of operations count together in a minute; without it this session's do
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "egress/address.h"
#include "ipc/proto.h"
#include "policy/credential.h"

#define SESSION_NAMES_MAX 64U
#define SESSION_PORTS_MAX 64U /* of one name */
#define SESSION_SLOTS_MAX 16U
#define SESSION_CIDRS_MAX 256U
#define SESSION_CREDENTIALS_MAX 32U
#define SESSION_TENANT_MAX 128U
#define SESSION_CONNECTIONS_MAX 65536U

enum {
        SESSION_DNS_UDP4,
        SESSION_DNS_TCP4,
        SESSION_DNS_UDP6,
        SESSION_DNS_TCP6,
        _SESSION_DNS_MAX,
};

typedef enum DestinationType {
        DESTINATION_TLS,
        DESTINATION_HTTP,
        DESTINATION_TCP,
        _DESTINATION_TYPE_MAX,
} DestinationType;

typedef struct CidrList {
        Cidr *items;
        size_t n_items;
} CidrList;

typedef struct DestinationPort {
        uint16_t port;
        DestinationType type;
        CidrList open;
        int sockets[SESSION_SLOTS_MAX][2]; /* numbers; -1: none */
} DestinationPort;

typedef struct DestinationSlot {
        Address v4, v6;
        char *name; /* owned; NULL: not given to a name yet */
        bool has_v6;
} DestinationSlot;

typedef struct Destination {
        char *name; /* or wildcard */
        bool is_wildcard;
        DestinationSlot *slots;
        size_t n_slots;
        DestinationPort *ports;
        size_t n_ports;
} Destination;

typedef struct SessionCredential {
        Credential *credential;
        char *ca; /* PEM; NULL: the system's certificates */
        CidrList open;
        Destination host; /* with one slot and one port */
        int connection;   /* number of the socket; -1: none */
} SessionCredential;

/* To say who is wanted. */
#define SESSION_HEAD_MSEC 15000U

typedef struct SessionDocument {
        int dns[_SESSION_DNS_MAX];
        Destination *names;
        size_t n_names;
        CidrList deny;
        StrV deny_names;
        uint64_t connections_max, idle_msec, bytes_max, head_msec;
        StrV servers;
        char *tenant; /* or NULL */
        SessionCredential *credentials;
        size_t n_credentials;
} SessionDocument;

SessionDocument *session_document_free(SessionDocument *document);
DEFINE_CLEANUP(SessionDocument, session_document_free);

enum {
        _SESSION_DOCUMENT_E_SUCCESS,
        SESSION_DOCUMENT_E_INVALID, /* ret_reason is filled */
};

typedef struct SessionReason {
        char text[PROTO_EGRESS_TEXT_MAX]; /* one clause */
} SessionReason;

/* 0, SESSION_DOCUMENT_E_INVALID or -ENOMEM. Numbers of sockets are below n_sockets, each at one
 * place only. */
int session_document_parse(const char *text, size_t size, size_t n_sockets,
                           SessionDocument **ret_document, SessionReason *ret_reason);

const char *destination_type_to_string(DestinationType type);
