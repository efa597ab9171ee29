/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/usage.h"

#include <string.h>

#include "basic/string-util.h"

#define DIGITS_MAX 15U

/* --- values --- */

static void take_number(Usage *usage) {
        bool fits = usage->n_digits > 0 && usage->n_digits <= DIGITS_MAX;

        if (fits && usage->within == 1) {
                if (string_equal(usage->key, "input_tokens") ||
                    string_equal(usage->key, "prompt_tokens")) {
                        usage->input = usage->number;
                        usage->has_input = true;
                } else if (string_equal(usage->key, "output_tokens") ||
                           string_equal(usage->key, "completion_tokens")) {
                        usage->output = usage->number;
                        usage->has_output = true;
                }
        }
        usage->n_digits = 0;
}

/* What a number is not made of ends it; with a sign, a point or an exponent it is no count. */
static void scan_digit(Usage *usage, char c) {
        if (usage->n_digits < DIGITS_MAX)
                usage->number =
                        (usage->n_digits > 0 ? usage->number * 10 : 0) + (uint64_t) (c - '0');
        if (usage->n_digits <= DIGITS_MAX)
                usage->n_digits++;
}

/* --- objects --- */

static void open_level(Usage *usage, bool object) {
        bool here = usage->depth == 1 || (usage->depth == 2 && usage->is_parent);

        if (usage->within > 0)
                usage->within++;
        else if (object && here && string_equal(usage->key, "usage"))
                usage->within = 1;
        else if (usage->depth == 1)
                usage->is_parent = object && (string_equal(usage->key, "message") ||
                                              string_equal(usage->key, "response"));
        if (usage->depth < UINT16_MAX)
                usage->depth++;
        usage->key[0] = 0;
}

static void close_level(Usage *usage) {
        if (usage->within > 0)
                usage->within--;
        if (usage->depth > 0)
                usage->depth--;
        if (usage->depth <= 1)
                usage->is_parent = false;
        usage->key[0] = 0;
}

/* An event of a stream is a document of its own. */
static void begin_document(Usage *usage) {
        usage->depth = usage->within = 0;
        usage->in_string = usage->escaped = usage->is_parent = false;
        usage->key[0] = 0;
        usage->name_size = USAGE_NAME_MAX + 1;
        usage->n_digits = 0;
}

/* --- bytes --- */

static void scan_in_string(Usage *usage, char c) {
        if (usage->escaped)
                usage->escaped = false;
        else if (c == '"') {
                usage->in_string = false;
                return;
        } else if (c == '\\') {
                usage->escaped = true;
                usage->name_size = USAGE_NAME_MAX + 1;
                return;
        }
        if (usage->name_size < USAGE_NAME_MAX)
                usage->name[usage->name_size++] = c;
        else
                usage->name_size = USAGE_NAME_MAX + 1;
}

/* A string with a colon behind it is the name of what follows. */
static void take_key(Usage *usage) {
        size_t size = usage->name_size <= USAGE_NAME_MAX ? usage->name_size : 0;

        memcpy(usage->key, usage->name, size);
        usage->key[size] = 0;
        usage->name_size = USAGE_NAME_MAX + 1;
}

static void scan_outside(Usage *usage, char c) {
        if (c >= '0' && c <= '9') {
                scan_digit(usage, c);
                return;
        }
        switch (c) {
        case '-':
        case '+':
        case '.':
        case 'e':
        case 'E':
                usage->n_digits = DIGITS_MAX + 1;
                return;
        case '"':
                usage->in_string = true;
                usage->name_size = 0;
                break;
        case ':':
                take_key(usage);
                break;
        case '{':
        case '[':
                open_level(usage, c == '{');
                break;
        case '}':
        case ']':
                take_number(usage);
                close_level(usage);
                break;
        case ',':
                take_number(usage);
                usage->key[0] = 0;
                break;
        default:
                take_number(usage);
                return;
        }
        usage->n_digits = 0;
}

/* No string of JSON goes on in another line. */
static void scan_line(Usage *usage, char c) {
        if (c == '\n' || c == '\r') {
                usage->in_string = usage->escaped = false;
                usage->line_size = 0;
                return;
        }
        if (usage->line_size >= sizeof(usage->line))
                return;
        usage->line[usage->line_size++] = c;
        if (usage->line_size == sizeof(usage->line) &&
            memcmp(usage->line, "data:", sizeof(usage->line)) == 0)
                begin_document(usage);
}

void usage_scan(Usage *usage, const char *data, size_t size) {
        for (size_t i = 0; i < size; i++) {
                if (usage->in_string && data[i] != '\n' && data[i] != '\r')
                        scan_in_string(usage, data[i]);
                else
                        scan_outside(usage, data[i]);
                scan_line(usage, data[i]);
        }
}
