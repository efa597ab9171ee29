/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/tenant-warn.h"

#include "basic/error.h"

/* The entry of a list that was read without a fault. */
static const JsonNode *entry_node(const JsonNode *list, size_t index) {
        const JsonNode *node = list->first;

        while (index-- > 0)
                node = node->next;
        return node;
}

static int warn_rules(const Reader *reader, const JsonNode *list, const char *name,
                      const Rules *rules) {
        for (size_t i = 0; i < rules->n_items; i++) {
                const Rule *rule = &rules->items[i], *cover = rules_cover(rules, rule);
                int r;

                if (!cover)
                        continue;
                r = reader_warn(reader, entry_node(list, rule->index),
                                "\"%s\" adds nothing: %s[%zu], \"%s\", covers it", rule->text, name,
                                cover->index, cover->text);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* Deny wins, so that a rule of allow which one of deny covers is never asked. */
static int warn_denied(const Reader *reader, const JsonNode *list, const Tenant *t) {
        for (size_t i = 0; i < t->allow.n_items; i++) {
                const Rule *rule = &t->allow.items[i], *cover = rules_cover(&t->deny, rule);
                int r;

                if (!cover)
                        continue;
                r = reader_warn(reader, entry_node(list, rule->index),
                                "\"%s\" allows nothing: tools.deny[%zu], \"%s\", covers it",
                                rule->text, cover->index, cover->text);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int warn_arguments(const Reader *reader, const JsonNode *object, const Tenant *t) {
        for (size_t i = 0; i < t->n_arguments; i++) {
                const char *tool = t->arguments[i].tool;
                const Rule *deny = rules_find(&t->deny, tool);
                int r = 0;

                if (!deny && rules_find(&t->allow, tool))
                        continue;
                r = reader_warn(reader, json_node_member(reader->doc, object, tool),
                                "nobody asks for these: this tenant may not call the tool");
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

int tenant_warn(const Reader *reader, const JsonNode *root, const Tenant *t) {
        const JsonNode *tools = json_node_member(reader->doc, root, "tools");
        const JsonNode *allow = json_node_member(reader->doc, tools, "allow");
        const JsonNode *deny = json_node_member(reader->doc, tools, "deny");
        const JsonNode *templates = json_node_member(reader->doc, root, "templates");
        int r = 0;

        if (allow)
                r = warn_rules(reader, allow, "tools.allow", &t->allow);
        if (r == 0 && deny)
                r = warn_rules(reader, deny, "tools.deny", &t->deny);
        if (r == 0 && templates)
                r = warn_rules(reader, templates, "templates", &t->templates);
        if (r == 0 && allow)
                r = warn_denied(reader, allow, t);
        if (r == 0)
                r = warn_arguments(reader, json_node_member(reader->doc, root, "arguments"), t);
        if (r == 0 && t->allow.n_items == 0)
                r = reader_warn(reader, allow ?: tools ?: root,
                                "this tenant may call nothing: give tools.allow");
        return error_trace(r);
}
