/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a session was refused, and what it was used for: counted by what it is, so that a job that
 * asks a million times costs one line; what there is no room for is counted alone.
 */

#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"
#include "egress/address.h"

#define DENIALS_MAX 100U
/* So that nobody hides a refusal of one kind behind many of another. */
#define DENIALS_OF_KIND_MAX 80U
/* A name may be longer, and is cut. */
#define DENIAL_NAME_MAX 200U

typedef enum DenialKind {
        DENIAL_DNS,     /* a name that is not allowed was asked for */
        DENIAL_ADDRESS, /* an allowed name leads to an address that is not dialled */
        DENIAL_SNI,     /* TLS for another name, for none, or no TLS */
        DENIAL_HOST,    /* HTTP for another host, or what is no HTTP */
        DENIAL_LIMIT,
        DENIAL_OPERATION,   /* what is no operation of a credential's, or one more than allowed */
        DENIAL_UNREACHABLE, /* what was allowed, and could not be had: nobody refused it here */
        _DENIAL_KIND_MAX,
} DenialKind;

typedef struct Denial {
        DenialKind kind;
        char name[DENIAL_NAME_MAX + 1];
        uint16_t port; /* 0: of the name as a whole */
        /* Why, where the kind leaves it open: one word or clause, static. NULL: it does not. */
        const char *reason;
        char seen[DENIAL_NAME_MAX + 1]; /* the address, or what the client asked for; "": nothing */
        uint64_t count;
} Denial;

typedef struct Denials {
        Denial *items;
        size_t n_items;
        uint64_t count;     /* of all */
        uint64_t n_dropped; /* of those that are not among the items */
} Denials;

void denials_done(Denials *denials);
/* name and seen are cut if they are too long; seen may be NULL. */
void denials_add(Denials *denials, DenialKind kind, const char *name, uint16_t port,
                 const char *reason, const char *seen);
/* What nobody could look at: so many more. */
void denials_drop(Denials *denials, uint64_t n);
const char *denial_kind_to_string(DenialKind kind);
