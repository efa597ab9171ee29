/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request with a credential to its upstream, and the answer, from which the secret is taken out
 * on its way. The request is built from an operation and its values; the upstream is resolved and
 * judged as every destination is, spoken to by TLS with its certificate verified, over a connection
 * of this credential and session, and never left for another place that it names.
 */

#include "egress/answer-head.h"
#include "egress/connections.h"
#include "egress/curl-loop.h"
#include "egress/exchange-fault.h"
#include "egress/host-address.h"
#include "egress/redact.h"
#include "egress/resolver.h"
#include "egress/session-document.h"
#include "egress/usage.h"
#include "policy/credential.h"

/* A credential of one session, ready to be used. */
typedef struct Vault {
        const Credential *credential;
        char *ca;      /* certificates in PEM to trust instead of the system's, or NULL */
        CidrList open; /* of the credential's addresses */
        CidrList deny; /* the operator's */
        bool denied;   /* the upstream's name, by the operator */
        Secret secret;
} Vault;

#define VAULT_NULL ((Vault){})

void vault_done(Vault *vault);

typedef struct ExchangeHost {
        Loop *loop;
        CurlLoop *curl;
        Connections *connections; /* of this credential and this session */
        Resolver *resolver;
        HostAddresses *addresses;
} ExchangeHost;

/* A field that a request brings and that is passed on. */
typedef struct ExchangeRequest {
        const OperationMatch *match;
        StrV headers;     /* "Name: value" */
        const char *body; /* borrowed until the end */
        size_t body_size;
} ExchangeRequest;

typedef struct Exchange Exchange;

typedef struct ExchangeCalls {
        /* The answer begins: status, and fields that are passed on, each with its line end. False:
         * it is broken off. */
        bool (*on_head)(void *userdata, int status, const char *fields);
        /* What may be passed on of the content. */
        bool (*on_content)(void *userdata, const char *data, size_t size);
        /* Whether more can be taken now; if not, exchange_resume() is called when it can. */
        bool (*has_room)(void *userdata);
        /* fault NULL: the whole answer was passed on. The exchange is gone then. */
        void (*on_end)(void *userdata, const ExchangeFault *fault);
} ExchangeCalls;

/* Calls come later, never before this returns. vault and what it holds outlive it. 0 or a negative
 * errno. */
int exchange_new(const ExchangeHost *host, const Vault *vault, const ExchangeRequest *request,
                 const ExchangeCalls *calls, void *userdata, Exchange **ret_exchange);
void exchange_resume(Exchange *exchange);
/* Breaks it off. NULL is ignored. */
Exchange *exchange_free(Exchange *exchange);
/* What the answer told of tokens, so far. */
const Usage *exchange_get_usage(const Exchange *exchange);
/* Of the content: sent, and received from the upstream. */
void exchange_get_bytes(const Exchange *exchange, uint64_t *ret_out, uint64_t *ret_in);
