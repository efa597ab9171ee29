/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A secret that a credential needs: what is known of it, but not it. */

#include "basic/string-util.h"
#include "egress/secret.h"

/* How much could be seen from here. */
typedef enum SecretSight {
        SECRET_SEEN,    /* the fault is the answer */
        SECRET_HIDDEN,  /* from a plain user */
        SECRET_SEALED,  /* it is encrypted, and not loaded now */
        SECRET_DISTANT, /* it comes from something that is no plain file */
        SECRET_STALE,   /* the unit has it, but not the service that runs */
        SECRET_IN_UNIT, /* it stands in the unit, in clear */
} SecretSight;

typedef struct SecretFacts {
        char *name;
        StrV credentials; /* that need it */
        StrV files;       /* in which they are described */
        bool is_machines; /* of agentcrate-egress.service, and else of whoever asks */
        char *path;       /* where it lies, or should; NULL: not known */
        SecretPlace place;
        SecretSight sight;
        SecretFault fault;
} SecretFacts;

typedef struct SecretList {
        SecretFacts *items; /* sorted by name */
        size_t n_items;
} SecretList;

void secret_list_done(SecretList *list);
