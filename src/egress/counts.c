/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/counts.h"

#include <stdio.h>
#include <stdlib.h>

#include "basic/string-util.h"

struct CountsEntry {
        CountsEntry *next;
        char *key; /* names have no space but a tenant's, which is the last of them */
        MinuteCount count;
};

/* Those that are older than a minute count no more. */
uint64_t minute_count_look(MinuteCount *count, uint64_t second) {
        uint64_t sum = 0;

        for (uint64_t s = count->second + 1; s <= second && s <= count->second + COUNTS_SECONDS;
             s++)
                count->seconds[s % COUNTS_SECONDS] = 0;
        count->second = second;
        for (size_t i = 0; i < COUNTS_SECONDS; i++)
                sum += count->seconds[i];
        return sum;
}

void minute_count_add(MinuteCount *count) {
        count->seconds[count->second % COUNTS_SECONDS]++;
}

static void entry_remove(Counts *counts, CountsEntry **place) {
        CountsEntry *entry = *place;

        *place = entry->next;
        counts->n--;
        free(entry->key);
        free(entry);
}

void counts_done(Counts *counts) {
        while (counts->first)
                entry_remove(counts, &counts->first);
}

/* Takes out those in which nothing counts any more, and finds the one with that key. */
static CountsEntry *find(Counts *counts, const char *key, uint64_t second) {
        CountsEntry *found = NULL;

        for (CountsEntry **place = &counts->first; *place;) {
                if (string_equal((*place)->key, key))
                        found = *place;
                else if (second - (*place)->count.second > COUNTS_SECONDS) {
                        entry_remove(counts, place);
                        continue;
                }
                place = &(*place)->next;
        }
        return found;
}

MinuteCount *counts_get(Counts *counts, const char *tenant, const char *credential,
                        const char *operation, uint64_t second) {
        CountsEntry *entry;
        char *key;

        if (asprintf(&key, "%s %s %s", credential, operation, tenant) < 0)
                return NULL;
        entry = find(counts, key, second);
        if (entry || counts->n >= COUNTS_MAX) {
                free(key);
                return entry ? &entry->count : NULL;
        }
        entry = calloc(1, sizeof(*entry));
        if (!entry) {
                free(key);
                return NULL;
        }
        *entry = (CountsEntry){.next = counts->first, .key = key, .count = {.second = second}};
        counts->first = entry;
        counts->n++;
        return &entry->count;
}
