/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names to addresses, outside, by c-ares: hosts file and DNS, whatever the name without any search
 * list. What it finds is judged by whoever asks. */

#include "basic/string-util.h"
#include "egress/address.h"
#include "egress/loop.h"

#define RESOLVER_ADDRESSES_MAX 32U
#define RESOLVER_CHAIN_MAX 512U

typedef struct Resolver Resolver;
typedef struct ResolverQuery ResolverQuery;

typedef struct ResolverAnswer {
        const char *error;        /* NULL: there is an answer */
        const Address *addresses; /* in the order in which they are best tried */
        size_t n_addresses;
        const char *chain; /* the names that led to them, "a > b"; "" if none did */
} ResolverAnswer;

typedef void (*ResolverDone)(void *userdata, const ResolverAnswer *answer);

/* servers: ADDRESS:PORT each; none: the system's, read again when they change. */
int resolver_new(Loop *loop, const StrV *servers, Resolver **ret_resolver);
/* Nothing is answered any more. */
Resolver *resolver_free(Resolver *resolver);
DEFINE_CLEANUP(Resolver, resolver_free);

/* The answer always comes later, and once. */
int resolver_ask(Resolver *resolver, const char *name, ResolverDone done, void *userdata,
                 ResolverQuery **ret_query);
/* That address of the name has answered: as long as the name's addresses are known, it stands
 * before the others. */
void resolver_prefer(Resolver *resolver, const char *name, const Address *address);
/* It is not answered any more. NULL is ignored. */
void resolver_query_cancel(ResolverQuery *query);
