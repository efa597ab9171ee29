/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tenants as those whose jobs share a ceiling: the number by which the cgroups know each, and what
 * its jobs use together. A tenant keeps its number as long as the broker lives, whatever becomes of
 * its file, so that no two ever share a cgroup. Names stay here: a job can read its own path.
 */

#include <stdint.h>
#include <sys/queue.h>

#include "policy/limits.h"
#include "policy/tenant.h"

/* What is in use by several jobs, or one's part in it. */
typedef struct Shared {
        uint64_t memory, pids;
} Shared;

/* LIMIT_MEMORY or LIMIT_PIDS */
uint64_t shared_get(const Shared *shared, LimitName name);
/* One part of the sum has changed. */
void shared_move(Shared *sum, const Shared *from, const Shared *to);

typedef struct Sharer {
        LIST_ENTRY(Sharer) entry;
        char *name;
        uint32_t number; /* 0: the owner of a user's instance, where nobody has named tenants */
        Shared used;
} Sharer;

LIST_HEAD(SharerList, Sharer);

typedef struct Sharers {
        struct SharerList list;
        uint32_t n; /* numbers given out */
} Sharers;

void sharers_init(Sharers *sharers);
void sharers_done(Sharers *sharers);
/* A file may take the name of the built-in owner: that is another tenant. */
bool sharer_is(const Sharer *sharer, const Tenant *tenant);
/* The one of that tenant's name, which is made if it is new. Borrowed, and there until the end. 0
 * or a negative errno. */
int sharers_get(Sharers *sharers, const Tenant *tenant, Sharer **ret_sharer);
