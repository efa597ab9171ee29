/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/schema.h"

#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"

/* "a" -> "a"; "a?" -> ["a","null"]; "a,b" -> ["a","b"] */
static json_t *schema_type(const char *type) {
        size_t size = strcspn(type, "?,");
        json_t *list;

        if (type[size] == 0)
                return json_string(type);

        list = json_array();
        if (json_array_append_new(list, json_stringn(type, size)) < 0 ||
            json_array_append_new(list, type[size] == '?' ? json_string("null")
                                                          : json_string(type + size + 1)) < 0) {
                json_decref(list);
                return NULL;
        }
        return list;
}

static json_t *schema_choices(const char *const *choices) {
        json_t *list = json_array();

        for (; *choices; choices++)
                if (json_array_append_new(list, json_string(*choices)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

static int schema_of_type(json_t *schema, const SchemaMember *member) {
        const char *inner = member->items ?: member->values;

        if (json_object_set_new(schema, "type", schema_type(member->type)) < 0)
                return error_origin(-ENOMEM);
        if (member->description &&
            json_object_set_new(schema, "description", json_string(member->description)) < 0)
                return error_origin(-ENOMEM);
        if (member->choices &&
            json_object_set_new(schema, "enum", schema_choices(member->choices)) < 0)
                return error_origin(-ENOMEM);
        if (inner && json_object_set_new(schema, member->items ? "items" : "additionalProperties",
                                         json_pack("{s:o}", "type", schema_type(inner))) < 0)
                return error_origin(-ENOMEM);
        return 0;
}

json_t *schema_value(const SchemaMember *member) {
        json_t *schema = NULL, *inner = NULL;

        if (member->members)
                inner = schema_object(member->members, member->open);
        if (inner && member->or_text &&
            json_object_set_new(inner, "type", schema_type("object,string")) < 0) {
                json_decref(inner);
                return NULL;
        }
        if (inner && strncmp(member->type, "object", 6) == 0)
                schema = inner;
        else
                schema = json_object();

        if (schema_of_type(schema, member) < 0 ||
            (inner && inner != schema && json_object_set(schema, "items", inner) < 0)) {
                if (inner != schema)
                        json_decref(inner);
                json_decref(schema);
                return NULL;
        }

        if (inner != schema)
                json_decref(inner);
        return schema;
}

int schema_add(json_t *object, const char *name, json_t *schema) {
        if (json_object_set_new(json_object_get(object, "properties"), name, schema) < 0)
                return error_origin(-ENOMEM);
        return 0;
}

json_t *schema_object(const SchemaMember *members, bool open) {
        json_t *object, *required;

        object = json_pack("{s:s, s:{}, s:b}", "type", "object", "properties",
                           "additionalProperties", (int) open);
        required = json_array();
        if (!object || !required)
                goto fail;

        for (; members->name; members++) {
                if (schema_add(object, members->name, schema_value(members)) < 0)
                        goto fail;
                if (members->required &&
                    json_array_append_new(required, json_string(members->name)) < 0)
                        goto fail;
        }

        if (json_array_size(required) > 0 && json_object_set(object, "required", required) < 0)
                goto fail;
        json_decref(required);
        return object;

fail:
        json_decref(required);
        json_decref(object);
        return NULL;
}
