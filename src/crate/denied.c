/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/denied.h"

#include <string.h>

#include "basic/string-util.h"

#define DENIED_TEXT_MAX 512U

static bool add_text(json_t *entry, const char *key, const char *text) {
        return strlen(text) <= DENIED_TEXT_MAX &&
               json_object_set_new(entry, key, json_string(text)) == 0;
}

/* One entry, in the form of the record: what was asked for, and by which rule it was refused. */
static json_t *entry_from_report(json_t *from) {
        static const char *const details[] = {"address", "class", "port", "reason", "seen"};
        const char *kind = json_string_value(json_object_get(from, "kind"));
        const char *name = json_string_value(json_object_get(from, "name"));
        const char *rule = json_string_value(json_object_get(from, "rule"));
        json_t *entry = kind ? json_object() : NULL;
        bool good;

        if (!entry)
                return NULL;
        good = add_text(entry, "kind", kind);
        if (good && name)
                good = add_text(entry, "what", name);
        if (good)
                good = add_text(entry, "rule", rule ?: "default");
        for (size_t i = 0; good && i < sizeof(details) / sizeof(details[0]); i++) {
                json_t *value = json_object_get(from, details[i]);

                if (json_is_string(value))
                        good = add_text(entry, details[i], json_string_value(value));
                else if (json_is_integer(value))
                        good = json_object_set(entry, details[i], value) == 0;
        }
        if (good)
                good = json_object_set_new(entry, "count",
                                           json_integer(json_integer_value(
                                                   json_object_get(from, "count")))) == 0;
        if (good)
                return entry;
        json_decref(entry);
        return NULL;
}

json_t *denied_from_report(const void *data, size_t size) {
        json_t *report = json_loadb(data, size, JSON_REJECT_DUPLICATES, NULL);
        json_t *list = json_object_get(report, "denied"), *array = json_array(), *from;
        size_t i;

        json_array_foreach(list, i, from) {
                json_t *entry =
                        json_array_size(array) < DENIED_MAX ? entry_from_report(from) : NULL;

                if (entry)
                        (void) json_array_append_new(array, entry);
        }
        i = (size_t) json_integer_value(json_object_get(report, "n_dropped"));
        if (i > 0)
                (void) json_array_append_new(
                        array, json_pack("{s:s,s:I}", "kind", "more", "count", (json_int_t) i));
        json_decref(report);
        return array;
}

/* Each is looked at by who records it: what is no text or number there is not there. */
json_t *reached_from_report(const void *data, size_t size) {
        json_t *report = json_loadb(data, size, JSON_REJECT_DUPLICATES, NULL);
        json_t *list = json_object_get(report, "log"), *array = json_array(), *entry;
        size_t i;

        json_array_foreach(list, i, entry) if (json_is_object(entry) &&
                                               json_array_size(array) < REACHED_MAX)(void)
                json_array_append(array, entry);
        json_decref(report);
        return array;
}

static bool add_count(json_t *array, const char *kind, uint64_t count) {
        return count == 0 ||
               json_array_append_new(array, json_pack("{s:s,s:I}", "kind", kind, "count",
                                                      (json_int_t) count)) == 0;
}

json_t *denied_to_json(const CrateResult *result) {
        json_t *array = result->denied ? json_copy(result->denied) : json_array();

        if (add_count(array, "refused", result->n_refused) &&
            add_count(array, "unrouted", result->n_unrouted))
                return array;
        json_decref(array);
        return NULL;
}
