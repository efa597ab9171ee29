/* SPDX-License-Identifier: Apache-2.0 */

/* From a request to an operation with its values, and from those to the request that is sent. */

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "basic/json-scan.h"
#include "policy/operation.h"

void operation_match_done(OperationMatch *match) {
        strv_done(&match->path);
        strv_done(&match->query);
        *match = (OperationMatch){};
}

static bool span_is(OperationSpan span, const char *word) {
        return span.size == strlen(word) && memcmp(span.text, word, span.size) == 0;
}

static OperationSpan span_of(const char *word) {
        return (OperationSpan){word, strlen(word)};
}

/* --- decoding --- */

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Once: what is encoded in what comes out stays so. False: a % without two digits behind it, or
 * more than any value has. */
static bool decode(OperationSpan in, char out[static OPERATION_SLUG_MAX + 1], size_t *ret_size) {
        size_t size = 0;

        for (size_t i = 0; i < in.size; i++) {
                int high, low;

                if (size >= OPERATION_SLUG_MAX)
                        return false;
                if (in.text[i] != '%') {
                        out[size++] = in.text[i];
                        continue;
                }
                if (in.size - i < 3)
                        return false;
                high = hex_value(in.text[i + 1]);
                low = hex_value(in.text[i + 2]);
                if (high < 0 || low < 0)
                        return false;
                out[size++] = (char) (high << 4 | low);
                i += 2;
        }
        out[size] = 0;
        *ret_size = size;
        return true;
}

/* Up to the next separator; *rest goes on behind it, or is NULL at the end. */
static OperationSpan next_part(OperationSpan *rest, char separator) {
        const char *end = memchr(rest->text, separator, rest->size);
        OperationSpan part = {rest->text, end ? (size_t) (end - rest->text) : rest->size};

        if (end)
                *rest = (OperationSpan){end + 1, rest->size - part.size - 1};
        else
                *rest = (OperationSpan){};
        return part;
}

/* --- path --- */

static bool segment_matches(const OperationSegment *segment, const char *text, size_t size) {
        if (segment->literal)
                return strlen(segment->literal) == size &&
                       memcmp(segment->literal, text, size) == 0;
        return operation_value_is_valid(&segment->parameter, text, size);
}

/* Fills values. 0, OPERATION_E_NO_MATCH or -ENOMEM. */
static int match_path(const Operation *operation, OperationSpan path, StrV *values) {
        char text[OPERATION_SLUG_MAX + 1];
        size_t size;
        int r;

        if (path.size == 0 || path.text[0] != '/')
                return OPERATION_E_NO_MATCH;
        path.text++;
        path.size--;
        for (size_t i = 0; i < operation->n_segments; i++) {
                const OperationSegment *segment = &operation->segments[i];

                if (!path.text || !decode(next_part(&path, '/'), text, &size) ||
                    !segment_matches(segment, text, size))
                        return OPERATION_E_NO_MATCH;
                r = segment->literal ? 0 : strv_append_n(values, text, size);
                if (r < 0)
                        return error_trace(r);
        }
        return path.text ? OPERATION_E_NO_MATCH : 0;
}

/* --- query --- */

static int refuse_query(const char *text, OperationSpan key, OperationFault *ret_fault) {
        ret_fault->text = text;
        ret_fault->part = key;
        return OPERATION_E_QUERY;
}

static size_t find_key(const Operation *operation, const char *text, size_t size) {
        for (size_t i = 0; i < operation->n_query; i++)
                if (strlen(operation->query[i].name) == size &&
                    memcmp(operation->query[i].name, text, size) == 0)
                        return i;
        return SIZE_MAX;
}

static int take_pair(const Operation *operation, OperationSpan pair, StrV *values,
                     OperationFault *ret_fault) {
        const char *equal = memchr(pair.text, '=', pair.size);
        OperationSpan value = pair, key = next_part(&value, '=');
        char text[OPERATION_SLUG_MAX + 1];
        size_t size, index;
        char *copy;

        if (!decode(key, text, &size))
                return refuse_query("a key of the query is malformed", key, ret_fault);
        index = find_key(operation, text, size);
        if (index == SIZE_MAX)
                return refuse_query("the query has a key that the operation does not have",
                                    equal ? key : (OperationSpan){}, ret_fault);
        if (*values->items[index])
                return refuse_query("the query has a key twice", key, ret_fault);
        if (!equal || !decode(value, text, &size) ||
            !operation_value_is_valid(&operation->query[index], text, size))
                return refuse_query("the query has a value that is not of the key's type", key,
                                    ret_fault);
        copy = strndup(text, size);
        if (!copy)
                return error_origin(-ENOMEM);
        free(values->items[index]);
        values->items[index] = copy;
        return 0;
}

static int match_query(const Operation *operation, OperationSpan query, StrV *values,
                       OperationFault *ret_fault) {
        int r = 0;

        for (size_t i = 0; i < operation->n_query && r == 0; i++)
                r = strv_append(values, "");
        while (r == 0 && query.size > 0) {
                /* Behind a last &, there is one more pair, and its key is not known. */
                OperationSpan pair = next_part(&query, '&');

                r = take_pair(operation, pair, values, ret_fault);
                if (r == 0 && query.text && query.size == 0)
                        r = refuse_query("the query ends with an &", (OperationSpan){}, ret_fault);
        }
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        for (size_t i = 0; i < operation->n_query; i++)
                if (operation->query[i].required && !*values->items[i])
                        return refuse_query("the query lacks a key that the operation needs",
                                            span_of(operation->query[i].name), ret_fault);
        return 0;
}

/* --- the whole --- */

static bool find_method(OperationSpan method, OperationMethod *ret_method) {
        for (OperationMethod m = 0; m < _OPERATION_METHOD_MAX; m++)
                if (span_is(method, operation_methods[m])) {
                        *ret_method = m;
                        return true;
                }
        return false;
}

int operation_match(const OperationMenu *menu, OperationSpan method, OperationSpan target,
                    OperationMatch *ret_match, OperationFault *ret_fault) {
        _cleanup_(operation_match_done) OperationMatch match = {};
        OperationSpan query = target, path;
        OperationMethod wanted = 0;
        int r = OPERATION_E_NO_MATCH;

        if (!find_method(method, &wanted)) {
                ret_fault->text = "operations are called by GET, HEAD, POST, PUT, PATCH and DELETE";
                return OPERATION_E_METHOD;
        }
        path = next_part(&query, '?');
        for (size_t i = 0; i < menu->n_items && r == OPERATION_E_NO_MATCH; i++) {
                if (menu->items[i].method != wanted)
                        continue;
                strv_done(&match.path);
                match.operation = &menu->items[i];
                r = match_path(match.operation, path, &match.path);
        }
        if (r == OPERATION_E_NO_MATCH)
                *ret_fault = (OperationFault){
                        .text = "no operation of this job has that path with that method",
                        .part = method};
        if (r == 0)
                r = match_query(match.operation, query, &match.query, ret_fault);
        if (r == OPERATION_E_QUERY)
                ret_fault->operation = match.operation;
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        *ret_match = match;
        match = (OperationMatch){};
        return 0;
}

/* --- content --- */

static OperationSpan trim(OperationSpan span) {
        while (span.size > 0 && (*span.text == ' ' || *span.text == '\t')) {
                span.text++;
                span.size--;
        }
        while (span.size > 0 &&
               (span.text[span.size - 1] == ' ' || span.text[span.size - 1] == '\t'))
                span.size--;
        return span;
}

/* The type alone: what follows a ; is about the characters. */
static bool type_is(OperationSpan type, const char *word) {
        OperationSpan name = type.text ? trim(next_part(&type, ';')) : type;

        return name.size == strlen(word) && strncasecmp(name.text, word, name.size) == 0;
}

static int refuse_body(int outcome, const char *text, const char **ret_text) {
        *ret_text = text;
        return outcome;
}

static int check_json(OperationSpan body, const char **ret_text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        int r;

        r = json_scan(body.text ?: "", body.size, &doc, &error);
        if (r == JSON_SCAN_E_SYNTAX)
                return refuse_body(OPERATION_E_BODY,
                                   "the content is no JSON, or has a key twice in one object",
                                   ret_text);
        return error_trace(r);
}

int operation_check_body(const Operation *operation, OperationSpan type, OperationSpan coding,
                         OperationSpan body, const char **ret_text) {
        if (operation->body == OPERATION_BODY_NONE)
                return body.size == 0 ? 0
                                      : refuse_body(OPERATION_E_BODY,
                                                    "the operation takes no content", ret_text);
        if (body.size > operation->body_max)
                return refuse_body(OPERATION_E_BODY_SIZE,
                                   "the content is longer than body.max_bytes of the operation",
                                   ret_text);
        if (coding.text && !span_is(trim(coding), "identity"))
                return refuse_body(OPERATION_E_BODY_TYPE,
                                   "the content is compressed, and is taken as it is only",
                                   ret_text);
        switch (operation->body) {
        case OPERATION_BODY_JSON:
                if (!type_is(type, "application/json"))
                        return refuse_body(OPERATION_E_BODY_TYPE,
                                           "the operation takes application/json only", ret_text);
                return check_json(body, ret_text);
        case OPERATION_BODY_FORM:
                if (!type_is(type, "application/x-www-form-urlencoded"))
                        return refuse_body(OPERATION_E_BODY_TYPE,
                                           "the operation takes application/x-www-form-urlencoded "
                                           "only",
                                           ret_text);
                return 0;
        default:
                return 0;
        }
}

/* --- the request that is sent --- */

static int append_encoded(StrBuf *out, const char *text) {
        int r = 0;

        for (; *text && r == 0; text++) {
                bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                             (*text >= '0' && *text <= '9') || strchr("-_.~!$&'()*+,=:@", *text);

                r = plain ? strbuf_append_byte(out, *text)
                          : strbuf_appendf(out, "%%%02X", (unsigned char) *text);
        }
        return error_trace(r);
}

int operation_append_path(const OperationMatch *match, StrBuf *out) {
        size_t n_values = 0;
        int r = 0;

        for (size_t i = 0; i < match->operation->n_segments && r == 0; i++) {
                const OperationSegment *segment = &match->operation->segments[i];
                const char *text = segment->literal;

                if (!text)
                        text = match->path.items[n_values++];
                r = strbuf_append_byte(out, '/');
                if (r == 0)
                        r = append_encoded(out, text);
        }
        return error_trace(r);
}

int operation_append_query(const OperationMatch *match, StrBuf *out) {
        bool first = true;
        int r = 0;

        for (size_t i = 0; i < match->operation->n_query && r == 0; i++) {
                const char *value = match->query.items[i];

                if (!*value)
                        continue;
                r = strbuf_appendf(out, "%s%s=", first ? "" : "&", match->operation->query[i].name);
                if (r == 0)
                        r = append_encoded(out, value);
                first = false;
        }
        return error_trace(r);
}
