/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/subscriptions.h"

#include <stdlib.h>
#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "mcp/jsonrpc.h"

void subscriptions_done(Subscriptions *subscriptions) {
        for (size_t i = 0; i < subscriptions->n_items; i++)
                free(subscriptions->items[i].id);
        free(subscriptions->items);
        *subscriptions = (Subscriptions){};
}

static size_t find(const Subscriptions *subscriptions, const char *id, size_t id_size) {
        size_t i = 0;

        for (; i < subscriptions->n_items; i++)
                if (rpc_id_equal(subscriptions->items[i].id, strlen(subscriptions->items[i].id), id,
                                 id_size))
                        break;
        return i;
}

const Subscription *subscriptions_find(const Subscriptions *subscriptions, const char *id,
                                       size_t id_size) {
        size_t i = find(subscriptions, id, id_size);

        return i < subscriptions->n_items ? &subscriptions->items[i] : NULL;
}

int subscriptions_add(Subscriptions *subscriptions, const char *id, size_t id_size, bool tools) {
        _cleanup_(freep) char *copy = strndup(id, id_size);
        Subscription *items;

        items = reallocarray(subscriptions->items, subscriptions->n_items + 1,
                             sizeof(Subscription));
        if (items)
                subscriptions->items = items;
        if (!items || !copy)
                return error_origin(-ENOMEM);
        items[subscriptions->n_items++] = (Subscription){.id = TAKE_PTR(copy), .tools = tools};
        return 0;
}

void subscriptions_drop(Subscriptions *subscriptions, const char *id, size_t id_size) {
        size_t i = find(subscriptions, id, id_size);

        if (i == subscriptions->n_items)
                return;
        free(subscriptions->items[i].id);
        subscriptions->items[i] = subscriptions->items[--subscriptions->n_items];
}
