/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sockets that live in a crate's net namespace and are served from outside. They are made before
 * there is an init, so that nobody inside was ever able to have their ports, and handed to the host
 * at once: who holds one keeps the whole namespace.
 */

#include <stddef.h>
#include <stdint.h>

#include "ipc/link.h"
#include "launcher/failure.h"
#include "plan/plan.h"

typedef struct Listen {
        int fd;
        uint32_t index; /* among the plan's listen operations */
} Listen;

typedef struct Listens {
        Listen *items;
        size_t n_items;
} Listens;

/* Makes those of the plan, in the net namespace that the caller is in. Where the kernel has no IPv6
 * at all the optional ones are left out. */
int listens_make(Listens *listens, const PlanReader *plan, ProtoFailure *ret_failure);
/* Sends and closes them. */
int listens_send(Listens *listens, Link *link, uint32_t id);
void listens_done(Listens *listens);
