/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* JSON Schemas as tables: what a tool takes and gives, one row a member. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SchemaMember SchemaMember;

struct SchemaMember {
        const char *name;
        const char
                *type; /* of JSON Schema; "string?" is a string or null; "integer,string" either */
        const char *description;
        const SchemaMember *members; /* of an object, or of the objects in an array; ends with a
                                        row without name */
        const char *items;           /* type of an array's items, if they are no objects */
        const char *values;          /* type of an object's values, if its names are free */
        const char *const *choices;  /* NULL-terminated */
        bool required;
        bool or_text; /* the objects in an array have a text form as well */
        bool open;    /* an object that may get further members in later versions */
};

/* The schema of an object with these members; NULL: out of memory. */
json_t *schema_object(const SchemaMember *members, bool open);
/* Adds one member to the properties of such a schema. Consumes schema. 0 or -ENOMEM. */
int schema_add(json_t *object, const char *name, json_t *schema);
/* The schema of one value. */
json_t *schema_value(const SchemaMember *member);
