/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/rules.h"

#include <string.h>

#include "basic/error.h"

void rules_done(Rules *rules) {
        for (size_t i = 0; i < rules->n_items; i++)
                free(rules->items[i].text);
        free(rules->items);
        *rules = (Rules){};
}

int rules_add(Rules *rules, const char *text, uint32_t line) {
        const char *star = strchr(text, '*');
        Rule *items, *rule;

        items = reallocarray(rules->items, rules->n_items + 1, sizeof(Rule));
        if (!items)
                return error_origin(-ENOMEM);
        rules->items = items;

        rule = &items[rules->n_items];
        *rule = (Rule){
                .prefix = star ? (size_t) (star - text) : RULE_EXACT,
                .index = rules->n_items,
                .line = line,
        };
        rule->text = strdup(text);
        if (!rule->text)
                return error_origin(-ENOMEM);
        rules->n_items++;
        return 0;
}

static int compare_rules(const void *a, const void *b) {
        const Rule *x = a, *y = b;
        int r;

        if (x->prefix != y->prefix)
                return x->prefix > y->prefix ? -1 : 1;
        r = strcmp(x->text, y->text);
        return r != 0 ? r : (x->index > y->index) - (x->index < y->index);
}

void rules_sort(Rules *rules) {
        if (rules->n_items > 0)
                qsort(rules->items, rules->n_items, sizeof(Rule), compare_rules);
        rules->n_exact = 0;
        while (rules->n_exact < rules->n_items && rules->items[rules->n_exact].prefix == RULE_EXACT)
                rules->n_exact++;
}

static int compare_name(const void *name, const void *rule) {
        return strcmp(name, ((const Rule *) rule)->text);
}

const Rule *rules_find(const Rules *rules, const char *name) {
        const Rule *rule = NULL;

        if (rules->n_exact > 0)
                rule = bsearch(name, rules->items, rules->n_exact, sizeof(Rule), compare_name);
        if (rule)
                return rule;
        for (size_t i = rules->n_exact; i < rules->n_items; i++)
                if (strncmp(rules->items[i].text, name, rules->items[i].prefix) == 0)
                        return &rules->items[i];
        return NULL;
}

const Rule *rules_cover(const Rules *rules, const Rule *rule) {
        for (size_t i = 0; i < rules->n_items; i++) {
                const Rule *other = &rules->items[i];

                if (other == rule)
                        continue;
                if (other->prefix == RULE_EXACT
                            ? strcmp(other->text, rule->text) == 0
                            : strncmp(other->text, rule->text, other->prefix) == 0)
                        return other;
        }
        return NULL;
}

const Rule *rules_at(const Rules *rules, size_t index) {
        for (size_t i = 0; i < rules->n_items; i++)
                if (rules->items[i].index == index)
                        return &rules->items[i];
        return NULL;
}
