/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list of names and patterns. A pattern is the beginning of a name with a * behind it; the *
 * stands nowhere else, so that what a pattern covers can be seen, and looked up.
 */

#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"

typedef struct Rule {
        char *text;
        size_t prefix; /* bytes before the *; RULE_EXACT: there is none */
        size_t index;  /* in the list as it was written */
        uint32_t line;
} Rule;

#define RULE_EXACT SIZE_MAX

/* Exact names first, by name; then patterns, the longest first. */
typedef struct Rules {
        Rule *items;
        size_t n_items, n_exact;
        uint32_t line; /* of the list; 0: there is none */
} Rules;

void rules_done(Rules *rules);
/* Takes text of size bytes at the end; rules_sort() follows when all are in. 0 or -ENOMEM. */
int rules_add(Rules *rules, const char *text, uint32_t line);
void rules_sort(Rules *rules);
/* The rule that covers a name, or NULL: the name itself before patterns, a long one before a short
 * one. */
const Rule *rules_find(const Rules *rules, const char *name);
/* The one, besides that one itself, which covers everything that this one covers; or NULL. */
const Rule *rules_cover(const Rules *rules, const Rule *rule);
/* As they were written: calls for one after the other. */
const Rule *rules_at(const Rules *rules, size_t index);
