/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/called.h"

#include <stdio.h>

#include "basic/string-util.h"

static bool text_is(const json_t *entry, const char *key, const char *text) {
        return string_equal(json_string_value(json_object_get(entry, key)),
                            string_empty(text) ? NULL : text);
}

static json_t *find(json_t *list, const char *name, const EgressOperation *operation) {
        json_t *entry;
        size_t i;

        json_array_foreach(list, i,
                           entry) if (text_is(entry, "operation", name) &&
                                      text_is(entry, "reason", operation->reason) &&
                                      json_integer_value(json_object_get(entry, "status")) ==
                                              operation->status) return entry;
        return NULL;
}

/* The one of all that have none of their own. */
static json_t *find_rest(json_t *list) {
        json_t *entry = json_array_get(list, json_array_size(list) - 1);

        if (json_is_null(json_object_get(entry, "status")))
                return entry;
        entry = json_pack("{s:n,s:n,s:n,s:i}", "operation", "status", "reason", "count", 0);
        return json_array_append_new(list, entry) == 0 ? entry : NULL;
}

static json_t *add(json_t *list, const char *name, const EgressOperation *operation) {
        json_t *entry = json_pack("{s:s?,s:I,s:s?,s:i}", "operation", name, "status",
                                  (json_int_t) operation->status, "reason",
                                  operation->reason[0] ? operation->reason : NULL, "count", 0);

        return json_array_append_new(list, entry) == 0 ? entry : NULL;
}

void called_add(json_t **list, const EgressOperation *operation) {
        char name[sizeof(operation->credential) + sizeof(operation->operation) + 2];
        json_t *entry;

        /* A request that was none of the job's operations is of the credential alone. */
        (void) snprintf(name, sizeof(name), "%s%s%s", operation->credential,
                        operation->operation[0] ? "." : "", operation->operation);
        if (!*list)
                *list = json_array();
        entry = find(*list, name, operation);
        if (!entry)
                entry = json_array_size(*list) < CALLED_MAX ? add(*list, name, operation)
                                                            : find_rest(*list);
        if (entry)
                (void) json_object_set_new(
                        entry, "count",
                        json_integer(json_integer_value(json_object_get(entry, "count")) + 1));
}
