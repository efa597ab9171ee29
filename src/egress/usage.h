/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many tokens an answer of a language model says that it took, read as the answer passes: the
 * object "usage" of OpenAI's and Anthropic's answers, in JSON or in events of a stream, at the top
 * or in "message" or "response". A stream tells more than once; what comes last is the sum. Text
 * that the model has written is in strings, and is not looked into.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer names are none that are looked for. */
#define USAGE_NAME_MAX 20U

typedef struct Usage {
        bool has_input, has_output;
        uint64_t input, output;
        /* Where the scan is. */
        unsigned depth;  /* of objects and lists */
        unsigned within; /* depth inside of the object looked for; 0: outside */
        bool in_string, escaped, is_parent;
        char name[USAGE_NAME_MAX + 1]; /* the last string */
        size_t name_size;              /* more than USAGE_NAME_MAX: it is cut */
        char key[USAGE_NAME_MAX + 1];  /* whose value is next; "": none */
        uint64_t number;
        unsigned n_digits; /* of the number that is read; 0: none is */
        char line[5];      /* how the line begins */
        size_t line_size;
} Usage;

#define USAGE_NULL ((Usage){})

/* More of the answer. */
void usage_scan(Usage *usage, const char *data, size_t size);
