/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/sharers.h"

#include <stdlib.h>
#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"

uint64_t shared_get(const Shared *shared, LimitName name) {
        return name == LIMIT_MEMORY ? shared->memory : shared->pids;
}

void shared_move(Shared *sum, const Shared *from, const Shared *to) {
        sum->memory += to->memory - from->memory;
        sum->pids += to->pids - from->pids;
}

static Sharer *sharer_free(Sharer *sharer) {
        if (!sharer)
                return NULL;

        free(sharer->name);
        free(sharer);
        return NULL;
}
DEFINE_CLEANUP(Sharer, sharer_free);

void sharers_init(Sharers *sharers) {
        *sharers = (Sharers){};
        LIST_INIT(&sharers->list);
}

void sharers_done(Sharers *sharers) {
        while (!LIST_EMPTY(&sharers->list)) {
                Sharer *sharer = LIST_FIRST(&sharers->list);

                LIST_REMOVE(sharer, entry);
                (void) sharer_free(sharer);
        }
}

static bool is_built_in(const Tenant *tenant) {
        return string_equal(tenant->file, TENANT_BUILT_IN);
}

bool sharer_is(const Sharer *sharer, const Tenant *tenant) {
        return string_equal(sharer->name, tenant->name) &&
               (sharer->number == 0) == is_built_in(tenant);
}

int sharers_get(Sharers *sharers, const Tenant *tenant, Sharer **ret_sharer) {
        _cleanup_(sharer_freep) Sharer *sharer = NULL;
        Sharer *known;

        LIST_FOREACH (known, &sharers->list, entry)
                if (sharer_is(known, tenant)) {
                        *ret_sharer = known;
                        return 0;
                }
        if (sharers->n == UINT32_MAX)
                return error_origin(-EOVERFLOW);
        sharer = calloc(1, sizeof(Sharer));
        if (!sharer)
                return error_origin(-ENOMEM);
        sharer->name = strdup(tenant->name);
        if (!sharer->name)
                return error_origin(-ENOMEM);
        sharer->number = is_built_in(tenant) ? 0 : ++sharers->n;
        LIST_INSERT_HEAD(&sharers->list, sharer, entry);
        *ret_sharer = TAKE_PTR(sharer);
        return 0;
}
