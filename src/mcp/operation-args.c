/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/operation-args.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "mcp/operation-tool.h"

#define TYPE_JSON "application/json"
#define TYPE_FORM "application/x-www-form-urlencoded"
#define TYPE_RAW "application/octet-stream"
#define TYPE_MAX 256U

typedef struct ArgsParser {
        const Operation *operation;
        const JsonDoc *doc;
        const JsonNode *arguments; /* NULL: there are none */
        char **ret_text;
} ArgsParser;

#define refuse(parser, ...) outcome_text(OPERATION_ARGS_E_INVALID, (parser)->ret_text, __VA_ARGS__)

void operation_args_done(OperationArgs *args) {
        strbuf_done(&args->target);
        strbuf_done(&args->body);
        free(args->type);
        *args = (OperationArgs){};
}

static const JsonNode *argument(const ArgsParser *parser, const char *name) {
        return parser->arguments ? json_node_member(parser->doc, parser->arguments, name) : NULL;
}

/* --- what there is no argument for --- */

static bool is_known(const Operation *operation, const char *name) {
        if (operation_find_parameter(operation, name))
                return true;
        if (operation->body == OPERATION_BODY_NONE)
                return false;
        return string_equal(name, OPERATION_ARGUMENT_BODY) ||
               (operation->body == OPERATION_BODY_RAW &&
                (string_equal(name, OPERATION_ARGUMENT_ENCODING) ||
                 string_equal(name, OPERATION_ARGUMENT_TYPE)));
}

static int append_known(const Operation *operation, StrBuf *list) {
        int r = 0;

        for (size_t i = 0; i < operation->n_segments && r == 0; i++)
                if (!operation->segments[i].literal)
                        r = strbuf_appendf(list, "%s%s", list->size > 0 ? ", " : "",
                                           operation->segments[i].parameter.name);
        for (size_t i = 0; i < operation->n_query && r == 0; i++)
                r = strbuf_appendf(list, "%s%s", list->size > 0 ? ", " : "",
                                   operation->query[i].name);
        if (r == 0 && operation->body != OPERATION_BODY_NONE)
                r = strbuf_appendf(list, "%s" OPERATION_ARGUMENT_BODY, list->size > 0 ? ", " : "");
        if (r == 0 && operation->body == OPERATION_BODY_RAW)
                r = strbuf_append_string(list, ", " OPERATION_ARGUMENT_ENCODING
                                               ", " OPERATION_ARGUMENT_TYPE);
        return error_trace(r);
}

static int check_unknown(const ArgsParser *parser) {
        const JsonNode *node = parser->arguments ? parser->arguments->first : NULL;

        for (; node; node = node->next) {
                _cleanup_(freep) char *name = NULL, *quoted = NULL;
                _cleanup_(strbuf_done) StrBuf list = STRBUF_NULL;
                int r;

                r = json_node_key(parser->doc, node, &name);
                if (r < 0)
                        return error_trace(r);
                if (is_known(parser->operation, name))
                        continue;
                r = append_known(parser->operation, &list);
                quoted = diag_quote(name);
                if (r < 0 || !quoted)
                        return error_origin(-ENOMEM);
                return refuse(parser, "there is no argument %s; the arguments are %s", quoted,
                              list.data ?: "none");
        }
        return 0;
}

/* --- parameters --- */

/* *ret_text stays NULL if it is no string; one with a NUL inside is none. */
static int take_string(const ArgsParser *parser, const JsonNode *node, char **ret_string,
                       size_t *ret_size) {
        int r;

        r = json_node_string(parser->doc, node, ret_string, ret_size);
        return r < 0 ? error_trace(r) : 0;
}

static int take_text(const ArgsParser *parser, const OperationParameter *parameter,
                     const JsonNode *node, char **ret_value) {
        int64_t number;

        if (parameter->type != OPERATION_INT)
                return take_string(parser, node, ret_value, NULL);
        if (json_node_int64(parser->doc, node, &number) != 0)
                return 0;
        if (asprintf(ret_value, "%" PRId64, number) < 0) {
                *ret_value = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

/* Adds "" for one that is not given and need not be. */
static int take_parameter(const ArgsParser *parser, const OperationParameter *parameter,
                          StrV *values) {
        const JsonNode *node = argument(parser, parameter->name);
        _cleanup_(freep) char *value = NULL, *accepted = NULL;
        int r;

        if (!node && !parameter->required)
                return error_trace(strv_append(values, ""));
        r = node ? take_text(parser, parameter, node, &value) : 0;
        if (r < 0)
                return error_trace(r);
        if (value && operation_value_is_valid(parameter, value, strlen(value)))
                return error_trace(strv_append(values, value));
        accepted = operation_parameter_text(parameter);
        if (!accepted)
                return error_origin(-ENOMEM);
        return refuse(parser, node ? "%s must be %s" : "%s is missing; it must be %s",
                      parameter->name, accepted);
}

static int take_target(const ArgsParser *parser, StrBuf *target) {
        _cleanup_(operation_match_done) OperationMatch match = {.operation = parser->operation};
        _cleanup_(strbuf_done) StrBuf query = STRBUF_NULL;
        const Operation *operation = parser->operation;
        int r = 0;

        for (size_t i = 0; i < operation->n_segments && r == 0; i++)
                if (!operation->segments[i].literal)
                        r = take_parameter(parser, &operation->segments[i].parameter, &match.path);
        for (size_t i = 0; i < operation->n_query && r == 0; i++)
                r = take_parameter(parser, &operation->query[i], &match.query);
        if (r == 0)
                r = operation_append_path(&match, target);
        if (r == 0)
                r = operation_append_query(&match, &query);
        if (r == 0 && query.size > 0)
                r = strbuf_appendf(target, "?%s", query.data);
        return r < 0 ? error_trace(r) : r;
}

/* --- content --- */

static int take_json(const ArgsParser *parser, const JsonNode *node, OperationArgs *args) {
        if (!node)
                return refuse(parser, OPERATION_ARGUMENT_BODY
                              " is missing; it must be an object or an array");
        if (node->type != JSON_NODE_OBJECT && node->type != JSON_NODE_ARRAY)
                return refuse(parser, OPERATION_ARGUMENT_BODY " must be an object or an array");
        return error_trace(
                strbuf_append(&args->body, json_node_slice(parser->doc, node), node->size));
}

static int append_form(StrBuf *out, const char *text, size_t size) {
        int r = 0;

        for (size_t i = 0; i < size && r == 0; i++) {
                unsigned char c = (unsigned char) text[i];

                if (c == ' ')
                        r = strbuf_append_byte(out, '+');
                else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '*')
                        r = strbuf_append_byte(out, (char) c);
                else
                        r = strbuf_appendf(out, "%%%02X", c);
        }
        return error_trace(r);
}

static int take_form(const ArgsParser *parser, const JsonNode *node, OperationArgs *args) {
        int r = 0;

        if (node && node->type != JSON_NODE_OBJECT)
                return refuse(parser, OPERATION_ARGUMENT_BODY " must be an object of strings");
        for (node = node ? node->first : NULL; node && r == 0; node = node->next) {
                _cleanup_(freep) char *name = NULL, *value = NULL;
                size_t size = 0;

                r = json_node_key(parser->doc, node, &name);
                if (r == 0)
                        r = take_string(parser, node, &value, &size);
                if (r < 0)
                        return error_trace(r);
                if (!value)
                        return refuse(parser,
                                      OPERATION_ARGUMENT_BODY " must be an object of strings");
                if (args->body.size > 0)
                        r = strbuf_append_byte(&args->body, '&');
                if (r == 0)
                        r = append_form(&args->body, name, strlen(name));
                if (r == 0)
                        r = strbuf_append_byte(&args->body, '=');
                if (r == 0)
                        r = append_form(&args->body, value, size);
        }
        return error_trace(r);
}

static int decode(const ArgsParser *parser, const char *text, size_t size, StrBuf *body) {
        struct base64_decode_ctx context;
        int r;

        r = strbuf_reserve(body, BASE64_DECODE_LENGTH(size) + 1);
        if (r < 0)
                return error_trace(r);
        base64_decode_init(&context);
        if (!base64_decode_update(&context, &body->size, (uint8_t *) body->data, size, text) ||
            !base64_decode_final(&context))
                return refuse(parser, OPERATION_ARGUMENT_BODY " is no valid base64");
        body->data[body->size] = 0;
        return 0;
}

static int take_raw_text(const ArgsParser *parser, const JsonNode *node, OperationArgs *args) {
        const JsonNode *encoding = argument(parser, OPERATION_ARGUMENT_ENCODING);
        _cleanup_(freep) char *text = NULL;
        bool base64 = false;
        size_t size = 0;
        int r;

        if (encoding)
                base64 = json_node_string_equal(parser->doc, encoding, "base64");
        if (encoding && !base64 && !json_node_string_equal(parser->doc, encoding, "utf-8"))
                return refuse(parser, OPERATION_ARGUMENT_ENCODING " must be utf-8 or base64");
        if (!node)
                return 0;
        r = take_string(parser, node, &text, &size);
        if (r < 0)
                return error_trace(r);
        if (!text)
                return refuse(parser, OPERATION_ARGUMENT_BODY " must be a string");
        return base64 ? decode(parser, text, size, &args->body)
                      : error_trace(strbuf_append(&args->body, text, size));
}

static int take_raw(const ArgsParser *parser, const JsonNode *node, OperationArgs *args) {
        const JsonNode *type = argument(parser, OPERATION_ARGUMENT_TYPE);
        _cleanup_(freep) char *text = NULL;
        int r;

        r = take_raw_text(parser, node, args);
        if (r != 0 || !type)
                return r;
        r = take_string(parser, type, &text, NULL);
        if (r < 0)
                return error_trace(r);
        for (const char *c = text; c && *c; c++)
                if (*c < ' ' || *c > '~')
                        return refuse(parser, OPERATION_ARGUMENT_TYPE
                                      " must be a string such as text/plain");
        if (string_empty(text) || strlen(text) > TYPE_MAX)
                return refuse(parser,
                              OPERATION_ARGUMENT_TYPE " must be a string such as text/plain");
        free(args->type);
        args->type = TAKE_PTR(text);
        return 0;
}

static int take_content(const ArgsParser *parser, OperationArgs *args) {
        static const char *const types[_OPERATION_BODY_MAX] = {[OPERATION_BODY_JSON] = TYPE_JSON,
                                                               [OPERATION_BODY_FORM] = TYPE_FORM,
                                                               [OPERATION_BODY_RAW] = TYPE_RAW};
        const Operation *operation = parser->operation;
        const JsonNode *node = argument(parser, OPERATION_ARGUMENT_BODY);
        int r;

        if (operation->body == OPERATION_BODY_NONE)
                return 0;
        args->type = strdup(types[operation->body]);
        if (!args->type)
                return error_origin(-ENOMEM);
        if (operation->body == OPERATION_BODY_JSON)
                r = take_json(parser, node, args);
        else
                r = operation->body == OPERATION_BODY_FORM ? take_form(parser, node, args)
                                                           : take_raw(parser, node, args);
        if (r == 0 && args->body.size > operation->body_max)
                return refuse(parser,
                              OPERATION_ARGUMENT_BODY " has %zu bytes, and the operation takes "
                                                      "%" PRIu64,
                              args->body.size, operation->body_max);
        return r < 0 ? error_trace(r) : r;
}

int operation_args_parse(const Operation *operation, const JsonDoc *doc, const JsonNode *arguments,
                         OperationArgs *ret_args, char **ret_text) {
        _cleanup_(operation_args_done) OperationArgs args = {};
        const ArgsParser parser = {
                .operation = operation, .doc = doc, .arguments = arguments, .ret_text = ret_text};
        int r;

        r = check_unknown(&parser);
        if (r == 0)
                r = take_target(&parser, &args.target);
        if (r == 0)
                r = take_content(&parser, &args);
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        *ret_args = args;
        args = (OperationArgs){};
        return 0;
}
