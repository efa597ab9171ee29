/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/denials.h"

#include <string.h>

static const char *const kinds[_DENIAL_KIND_MAX] = {
        [DENIAL_DNS] = "dns",
        [DENIAL_ADDRESS] = "address",
        [DENIAL_SNI] = "sni",
        [DENIAL_HOST] = "host",
        [DENIAL_LIMIT] = "limit",
        [DENIAL_OPERATION] = "operation",
        [DENIAL_UNREACHABLE] = "unreachable",
};

const char *denial_kind_to_string(DenialKind kind) {
        return kinds[kind];
}

void denials_done(Denials *denials) {
        free(denials->items);
        *denials = (Denials){};
}

static void put(char to[static DENIAL_NAME_MAX + 1], const char *from) {
        size_t size = strnlen(from, DENIAL_NAME_MAX);

        memcpy(to, from, size);
        to[size] = 0;
}

void denials_drop(Denials *denials, uint64_t n) {
        denials->count += n;
        denials->n_dropped += n;
}

void denials_add(Denials *denials, DenialKind kind, const char *name, uint16_t port,
                 const char *reason, const char *seen) {
        Denial denial = {.kind = kind, .port = port, .reason = reason, .count = 1};
        size_t n_of_kind = 0;

        put(denial.name, name);
        put(denial.seen, seen ?: "");
        for (size_t i = 0; i < denials->n_items; i++) {
                Denial *item = &denials->items[i];

                n_of_kind += item->kind == kind;
                if (item->kind == kind && item->port == port &&
                    string_equal(item->reason, reason) && string_equal(item->name, denial.name) &&
                    string_equal(item->seen, denial.seen)) {
                        item->count++;
                        denials->count++;
                        return;
                }
        }
        if (!denials->items)
                denials->items = calloc(DENIALS_MAX, sizeof(Denial));
        if (!denials->items || denials->n_items == DENIALS_MAX ||
            n_of_kind == DENIALS_OF_KIND_MAX) {
                denials_drop(denials, 1);
                return;
        }
        denials->count++;
        denials->items[denials->n_items++] = denial;
}
