/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The subscriptions/listen requests that a connection has open: what each is told about. */

#include <stdbool.h>
#include <stddef.h>

/* So many are enough for anybody who does not forget what was opened. */
#define SUBSCRIPTIONS_MAX 64U

typedef struct Subscription {
        char *id;   /* the request's, raw */
        bool tools; /* hears of another list of tools */
} Subscription;

typedef struct Subscriptions {
        Subscription *items;
        size_t n_items;
} Subscriptions;

void subscriptions_done(Subscriptions *subscriptions);
/* NULL: there is none of that id. */
const Subscription *subscriptions_find(const Subscriptions *subscriptions, const char *id,
                                       size_t id_size);
int subscriptions_add(Subscriptions *subscriptions, const char *id, size_t id_size, bool tools);
/* Does nothing if there is none of that id. */
void subscriptions_drop(Subscriptions *subscriptions, const char *id, size_t id_size);
