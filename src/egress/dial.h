/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to the first of several addresses that answers. The next one is tried when the one
 * before has failed, or has not answered within a quarter of a second; so one family that leads
 * nowhere does not hold anybody up. Nothing but these addresses is ever dialled.
 */

#include "egress/address.h"
#include "egress/loop.h"

#define DIAL_ADDRESSES_MAX 16U

typedef struct Dial Dial;

/* fd is consumed by whoever is called, and not watched; or a negative errno, of the last one that
 * failed, whose address is given. The dial is gone then. */
typedef void (*DialDone)(void *userdata, int fd, const Address *address);

/* addresses: 1 … DIAL_ADDRESSES_MAX. done is never called before this returns. */
int dial_new(Loop *loop, const Address *addresses, size_t n_addresses, uint16_t port, DialDone done,
             void *userdata, Dial **ret_dial);
/* Gives it up. NULL is ignored. */
Dial *dial_free(Dial *dial);
