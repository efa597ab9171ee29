/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Equality of JSON values as enum, const and uniqueItems want it: 1, 1.0 and 10e-1 are one number,
 * "a" and "\u0061" one string, and the members of an object have no order.
 */

#include <stdbool.h>
#include <stdint.h>

#include "basic/json-scan.h"
#include "schema/effort.h"

enum {
        _EQUAL_E_SUCCESS,
        EQUAL_E_SPENT,  /* of the effort nothing is left */
        EQUAL_E_NUMBER, /* a number is too large to be compared */
};

/* A value and what it stands in. */
typedef struct JsonValue {
        const JsonDoc *doc;
        const JsonNode *node;
} JsonValue;

/* The characters of a string, decoded only if they have to be. */
typedef struct JsonText {
        const char *data;
        size_t size;
        char *owned;
} JsonText;

static inline void json_text_done(JsonText *text) {
        free(text->owned);
}

/* 0 or -ENOMEM. */
int json_text_get(JsonValue value, JsonText *ret_text);

/* 0, EQUAL_E_X or -ENOMEM. */
int json_value_equal(Effort *effort, JsonValue a, JsonValue b, bool *ret_equal);
/* Whether two items of an array are equal. */
int json_value_has_twins(Effort *effort, JsonValue array, bool *ret_has);
