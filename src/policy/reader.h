/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads objects of configuration files by tables of keys. A fault is added to the diagnostics with
 * its place and reading goes on, so that one pass finds them all; only running out of memory ends
 * it. The same tables tell which keys there are, for error texts and for the test that holds the
 * JSON Schemas to them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/diag.h"
#include "basic/json-scan.h"
#include "basic/string-util.h"

/* The longest path that the plan has room for. */
#define READER_PATH_MAX 1023U
/* Entries of one list: more is a mistake, and all pairs are compared. */
#define READER_ENTRIES_MAX 256U

typedef struct Reader {
        const char *file;
        const JsonDoc *doc;
        DiagList *diags;
        DiagList *warnings; /* NULL: nobody wants them */
} Reader;

typedef struct ReaderKey ReaderKey;

struct ReaderKey {
        const char *name;
        /* Reads the value into target. 0, also after a fault; or -ENOMEM. */
        int (*read)(const Reader *reader, const JsonNode *node, void *target);
        const ReaderKey *keys; /* of an object that is read by a table of its own */
};

/* How many faults were found so far: what changed since is the number of new ones. */
static inline size_t reader_n_faults(const DiagList *diags) {
        return diags->n_items + diags->n_dropped;
}

/*
 * All of these return 0 or -ENOMEM. ret_x is written only if the value is right.
 */

/* What a file says: *ret_doc is NULL if that is no JSON, which is a fault. The text must outlive
 * it. */
int reader_document(const char *file, const char *text, size_t size, DiagList *diags,
                    JsonDoc **ret_doc);
/* A fault at that node. */
int reader_fault(const Reader *reader, const JsonNode *node, const char *format, ...)
        _printf_(3, 4);
/* What is allowed, but can hardly be meant. */
int reader_warn(const Reader *reader, const JsonNode *node, const char *format, ...) _printf_(3, 4);
/* A fault that begins with the value as the file has it. */
int reader_fault_value(const Reader *reader, const JsonNode *node, const char *text);
/* An object with the keys of a table, which ends with a row without a name. */
int reader_object(const Reader *reader, const JsonNode *node, const ReaderKey *keys, void *target);
/* An array of at most READER_ENTRIES_MAX entries, each read by read. */
int reader_array(const Reader *reader, const JsonNode *node,
                 int (*read)(const Reader *reader, const JsonNode *node, void *target),
                 void *target);

/* *ret_string is freed first. */
int reader_string(const Reader *reader, const JsonNode *node, char **ret_string);
/* An absolute path without "//", "." and "..", and not the root folder itself. */
int reader_path(const Reader *reader, const JsonNode *node, char **ret_path);
/* The name of an environment variable. */
bool reader_is_env_name(const char *s);
/* One of the words of a list that ends with NULL; *ret_index is its place there. */
int reader_choice(const Reader *reader, const JsonNode *node, const char *const *words,
                  size_t *ret_index);
/* A whole number from min to max. */
int reader_count(const Reader *reader, const JsonNode *node, uint64_t min, uint64_t max,
                 uint64_t *ret_count);
/* Bytes, as a number or with a suffix. */
int reader_size(const Reader *reader, const JsonNode *node, uint64_t min, uint64_t max,
                uint64_t *ret_size);
/* Milliseconds as a number, or a time with a suffix. */
int reader_time(const Reader *reader, const JsonNode *node, uint64_t *ret_usec);

/* The names of a table, those of nested tables as "outer.inner". */
int reader_key_names(const ReaderKey *keys, StrV *names);
