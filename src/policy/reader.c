/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/parse-util.h"
#include "basic/time-util.h"

int reader_document(const char *file, const char *text, size_t size, DiagList *diags,
                    JsonDoc **ret_doc) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        int r;

        r = json_scan(text, size, &doc, &error);
        if (r == JSON_SCAN_E_SYNTAX)
                r = diag_add(diags, file, error.line, error.column, NULL, "%s", error.text);
        if (r < 0)
                return error_trace(r);
        *ret_doc = TAKE_PTR(doc);
        return 0;
}

static int _printf_(4, 0) add_at(const Reader *reader, DiagList *list, const JsonNode *node,
                                 const char *format, va_list ap) {
        _cleanup_(freep) char *text = NULL, *path = NULL;

        if (vasprintf(&text, format, ap) < 0) {
                text = NULL;
                return error_origin(-ENOMEM);
        }
        path = json_node_path(reader->doc, node);
        if (!path)
                return error_origin(-ENOMEM);
        return error_trace(
                diag_add(list, reader->file, node->line, node->column, path, "%s", text));
}

int reader_fault(const Reader *reader, const JsonNode *node, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = add_at(reader, reader->diags, node, format, ap);
        va_end(ap);
        return error_trace(r);
}

int reader_warn(const Reader *reader, const JsonNode *node, const char *format, ...) {
        va_list ap;
        int r;

        if (!reader->warnings)
                return 0;
        va_start(ap, format);
        r = add_at(reader, reader->warnings, node, format, ap);
        va_end(ap);
        return error_trace(r);
}

int reader_fault_value(const Reader *reader, const JsonNode *node, const char *text) {
        _cleanup_(freep) char *value = NULL;

        value = diag_excerpt(json_node_slice(reader->doc, node), node->size);
        if (!value)
                return error_origin(-ENOMEM);
        return error_trace(reader_fault(reader, node, "%s %s", value, text));
}

/* --- containers --- */

static int fault_unknown_key(const Reader *reader, const JsonNode *node, const char *name,
                             const ReaderKey *keys) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = diag_quote(name);

        if (!quoted)
                return error_origin(-ENOMEM);
        for (const ReaderKey *key = keys; key->name; key++)
                if (strbuf_appendf(&known, "%s%s",
                                   key == keys   ? ""
                                   : key[1].name ? ", "
                                                 : " and ",
                                   key->name) < 0)
                        return error_origin(-ENOMEM);
        return error_trace(
                reader_fault(reader, node, "unknown key %s; known are %s", quoted, known.data));
}

static int read_member(const Reader *reader, const JsonNode *node, const ReaderKey *keys,
                       void *target) {
        _cleanup_(freep) char *name = NULL;
        int r;

        r = json_node_key(reader->doc, node, &name);
        if (r < 0)
                return error_trace(r);
        for (const ReaderKey *key = keys; key->name; key++)
                if (string_equal(key->name, name))
                        return key->keys ? reader_object(reader, node, key->keys, target)
                                         : key->read(reader, node, target);
        return fault_unknown_key(reader, node, name, keys);
}

int reader_object(const Reader *reader, const JsonNode *node, const ReaderKey *keys, void *target) {
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({…})");

        for (const JsonNode *child = node->first; child; child = child->next) {
                r = read_member(reader, child, keys, target);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

int reader_array(const Reader *reader, const JsonNode *node,
                 int (*read)(const Reader *reader, const JsonNode *node, void *target),
                 void *target) {
        int r;

        if (node->type != JSON_NODE_ARRAY)
                return reader_fault_value(reader, node, "is no array ([…])");
        if (node->n_children > READER_ENTRIES_MAX)
                return reader_fault(reader, node, "%zu entries are more than %u", node->n_children,
                                    READER_ENTRIES_MAX);

        for (const JsonNode *child = node->first; child; child = child->next) {
                r = read(reader, child, target);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* --- values --- */

/* *ret_string stays as it is if there was a fault. */
static int read_string(const Reader *reader, const JsonNode *node, char **ret_string) {
        int r;

        r = json_node_string(reader->doc, node, ret_string, NULL);
        if (r == JSON_NODE_E_TYPE)
                return reader_fault_value(reader, node, "is no string");
        if (r == JSON_NODE_E_NUL)
                return reader_fault_value(reader, node, "holds U+0000");
        return error_trace(r);
}

int reader_string(const Reader *reader, const JsonNode *node, char **ret_string) {
        char *s = NULL;
        int r;

        r = read_string(reader, node, &s);
        if (r < 0)
                return error_trace(r);
        if (s) {
                free(*ret_string);
                *ret_string = s;
        }
        return 0;
}

/* What is wrong with a path, or NULL. */
static const char *path_fault(const char *path) {
        const char *part = path;

        if (string_empty(path))
                return "is empty; give an absolute path";
        if (path[0] != '/')
                return "is not absolute; give a path that begins with /";
        if (path[1] == 0)
                return "is the root folder itself, which cannot stand here";
        if (strlen(path) > READER_PATH_MAX)
                return "is longer than 1023 bytes";

        while (*part) {
                size_t n = strcspn(++part, "/");

                if (n == 0 || (n == 1 && part[0] == '.') ||
                    (n == 2 && part[0] == '.' && part[1] == '.'))
                        return "is not in its plain form: leave out //, /./, /../ and the last /";
                part += n;
        }
        return NULL;
}

int reader_path(const Reader *reader, const JsonNode *node, char **ret_path) {
        _cleanup_(freep) char *path = NULL;
        const char *wrong;
        int r;

        r = read_string(reader, node, &path);
        if (r < 0)
                return error_trace(r);
        if (!path)
                return 0;

        wrong = path_fault(path);
        if (wrong)
                return reader_fault_value(reader, node, wrong);
        free(*ret_path);
        *ret_path = TAKE_PTR(path);
        return 0;
}

bool reader_is_env_name(const char *s) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

        if (!*s || !strchr(letters, *s))
                return false;
        for (; *s; s++)
                if (!strchr(letters, *s) && !(*s >= '0' && *s <= '9'))
                        return false;
        return true;
}

int reader_choice(const Reader *reader, const JsonNode *node, const char *const *words,
                  size_t *ret_index) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        for (size_t i = 0; words[i]; i++)
                if (json_node_string_equal(reader->doc, node, words[i])) {
                        *ret_index = i;
                        return 0;
                }

        if (strbuf_append_string(&text, "is not known here; give ") < 0)
                return error_origin(-ENOMEM);
        for (size_t i = 0; words[i]; i++)
                if (strbuf_appendf(&text, "%s\"%s\"",
                                   i == 0         ? ""
                                   : words[i + 1] ? ", "
                                                  : " or ",
                                   words[i]) < 0)
                        return error_origin(-ENOMEM);
        return error_trace(reader_fault_value(reader, node, text.data));
}

int reader_count(const Reader *reader, const JsonNode *node, uint64_t min, uint64_t max,
                 uint64_t *ret_count) {
        uint64_t value;

        if (json_node_uint64(reader->doc, node, &value) != 0 || value < min || value > max) {
                char text[96];

                (void) snprintf(text, sizeof(text), "is no whole number from %llu to %llu",
                                (unsigned long long) min, (unsigned long long) max);
                return error_trace(reader_fault_value(reader, node, text));
        }
        *ret_count = value;
        return 0;
}

int reader_size(const Reader *reader, const JsonNode *node, uint64_t min, uint64_t max,
                uint64_t *ret_size) {
        _cleanup_(freep) char *s = NULL;
        uint64_t value = 0;
        char text[128];
        int r;

        if (node->type == JSON_NODE_STRING) {
                r = json_node_string(reader->doc, node, &s, NULL);
                if (r == 0)
                        r = parse_size(s, &value);
        } else
                r = json_node_uint64(reader->doc, node, &value);
        if (r < 0)
                return error_trace(r);

        if (r > 0 || value < min || value > max) {
                (void) snprintf(text, sizeof(text),
                                "is no size from %llu to %llu bytes; give a number, or one with "
                                "a suffix such as \"64M\"",
                                (unsigned long long) min, (unsigned long long) max);
                return error_trace(reader_fault_value(reader, node, text));
        }
        *ret_size = value;
        return 0;
}

/* A time in quotes needs its suffix: without one it could be taken for seconds. */
static int string_time(const char *s, uint64_t *ret_usec) {
        return s[strspn(s, "0123456789.")] == 0 ? PARSE_E_SYNTAX : parse_time_usec(s, ret_usec);
}

int reader_time(const Reader *reader, const JsonNode *node, uint64_t *ret_usec) {
        _cleanup_(freep) char *s = NULL;
        uint64_t value = 0;
        int r;

        if (node->type == JSON_NODE_STRING) {
                r = json_node_string(reader->doc, node, &s, NULL);
                if (r == 0)
                        r = string_time(s, &value);
        } else {
                r = json_node_uint64(reader->doc, node, &value);
                if (r == 0 && __builtin_mul_overflow(value, USEC_PER_MSEC, &value))
                        r = PARSE_E_OVERFLOW;
        }
        if (r < 0)
                return error_trace(r);

        if (r > 0 || value == 0 || value > INT64_MAX)
                return error_trace(reader_fault_value(
                        reader, node,
                        "is no time; give milliseconds as a number, or a time such as \"500ms\", "
                        "\"10s\" or \"5m\""));
        *ret_usec = value;
        return 0;
}

static int add_key_names(const ReaderKey *keys, const char *outer, StrV *names) {
        int r = 0;

        for (const ReaderKey *key = keys; key->name && r == 0; key++) {
                r = strv_appendf(names, "%s%s", outer, key->name);
                for (const ReaderKey *inner = key->keys; inner && inner->name && r == 0; inner++)
                        r = strv_appendf(names, "%s%s.%s", outer, key->name, inner->name);
        }
        return error_trace(r);
}

int reader_key_names(const ReaderKey *keys, StrV *names) {
        return add_key_names(keys, "", names);
}
