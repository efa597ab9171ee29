/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/operation-tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "mcp/schema.h"

static const char *const encoding_choices[] = {"utf-8", "base64", NULL};
static const char *const place_choices[] = {"path", "query", NULL};

/* Takes value. */
static bool put(json_t *object, const char *key, json_t *value) {
        return json_object_set_new(object, key, value) == 0;
}

/* --- one value --- */

/* As a pattern of JSON Schema: what operation_value_is_valid() takes, or a little more. */
static const char *const patterns[_OPERATION_TYPE_MAX] = {
        [OPERATION_SLUG] = "^[A-Za-z0-9._~-]{1,128}$",
        [OPERATION_UUID] =
                "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$",
        [OPERATION_DATE] = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
};

static json_t *words_to_json(const StrV *words) {
        json_t *array = json_array();

        for (size_t i = 0; i < words->n_items; i++)
                if (json_array_append_new(array, json_string(words->items[i])) < 0) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

/* Adds to object what bounds the value. */
static bool put_bounds(json_t *object, const OperationParameter *parameter) {
        if (parameter->type == OPERATION_INT)
                return put(object, "minimum", json_integer(parameter->minimum)) &&
                       (parameter->maximum == INT64_MAX ||
                        put(object, "maximum", json_integer(parameter->maximum)));
        return parameter->type != OPERATION_ENUM ||
               put(object, "enum", words_to_json(&parameter->words));
}

static json_t *parameter_schema(const OperationParameter *parameter) {
        const char *pattern = patterns[parameter->type];
        json_t *schema = json_object();

        if (put(schema, "type",
                json_string(parameter->type == OPERATION_INT ? "integer" : "string")) &&
            put_bounds(schema, parameter) &&
            (!pattern || put(schema, "pattern", json_string(pattern))))
                return schema;
        json_decref(schema);
        return NULL;
}

char *operation_parameter_text(const OperationParameter *parameter) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r = 0;

        switch (parameter->type) {
        case OPERATION_SLUG:
                r = strbuf_append_string(&text, "a string of 1 to 128 letters, digits, -, _, . and "
                                                "~, and neither . nor ..");
                break;
        case OPERATION_INT:
                r = parameter->maximum == INT64_MAX
                            ? strbuf_appendf(&text, "a whole number from %" PRId64 " on",
                                             parameter->minimum)
                            : strbuf_appendf(&text, "a whole number from %" PRId64 " to %" PRId64,
                                             parameter->minimum, parameter->maximum);
                break;
        case OPERATION_UUID:
                r = strbuf_append_string(&text, "a string with a UUID");
                break;
        case OPERATION_DATE:
                r = strbuf_append_string(&text, "a string with a date, YYYY-MM-DD");
                break;
        default:
                r = strbuf_append_string(&text, "one of");
                for (size_t i = 0; i < parameter->words.n_items && r == 0; i++)
                        r = strbuf_appendf(&text, "%s %s", i > 0 ? "," : "",
                                           parameter->words.items[i]);
        }
        return r < 0 ? NULL : strbuf_steal(&text);
}

/* --- a tool --- */

/* Between a sentence of the administrator's and ours. */
static const char *sentence_end(const char *text) {
        size_t size = strlen(text);

        return size == 0 ? "" : strchr(".!?", text[size - 1]) ? " " : ". ";
}

json_t *operation_tool_description(const ExposedTool *tool) {
        const Operation *operation = tool->operation;
        const Credential *credential = tool->credential;

        return json_sprintf("%s%s%s %s of %s, called with the credential %s, which stays outside. "
                            "The result has the status and the content of the answer.",
                            operation->description, sentence_end(operation->description),
                            operation_methods[operation->method], operation->path,
                            credential->upstream.host, credential->name);
}

/* Adds an argument; schema is taken. */
static bool add_argument(json_t *object, const char *name, bool required, json_t *schema) {
        return schema_add(object, name, schema) == 0 &&
               (!required ||
                json_array_append_new(json_object_get(object, "required"), json_string(name)) == 0);
}

static bool add_content(json_t *object, const Operation *operation) {
        json_int_t max = (json_int_t) operation->body_max;

        switch (operation->body) {
        case OPERATION_BODY_NONE:
                return true;
        case OPERATION_BODY_JSON:
                return add_argument(object, OPERATION_ARGUMENT_BODY, true,
                                    json_pack("{s:[s,s],s:o}", "type", "object", "array",
                                              "description",
                                              json_sprintf("content, sent as JSON of at most "
                                                           "%" JSON_INTEGER_FORMAT " bytes",
                                                           max)));
        case OPERATION_BODY_FORM:
                return add_argument(
                        object, OPERATION_ARGUMENT_BODY, false,
                        json_pack("{s:s,s:{s:s},s:o}", "type", "object", "additionalProperties",
                                  "type", "string", "description",
                                  json_sprintf("fields of a form of at most %" JSON_INTEGER_FORMAT
                                               " bytes",
                                               max)));
        default:
                return add_argument(object, OPERATION_ARGUMENT_BODY, false,
                                    json_pack("{s:s,s:o}", "type", "string", "description",
                                              json_sprintf("content of at most "
                                                           "%" JSON_INTEGER_FORMAT " bytes",
                                                           max))) &&
                       add_argument(object, OPERATION_ARGUMENT_ENCODING, false,
                                    schema_value(&(SchemaMember){
                                            .type = "string",
                                            .choices = encoding_choices,
                                            .description = "how body is written: utf-8 (default) "
                                                           "or base64"})) &&
                       add_argument(object, OPERATION_ARGUMENT_TYPE, false,
                                    schema_value(&(SchemaMember){
                                            .type = "string",
                                            .description = "what body is; default: "
                                                           "application/octet-stream"}));
        }
}

json_t *operation_tool_input(const Operation *operation) {
        json_t *object = json_pack("{s:s,s:{},s:b,s:[]}", "type", "object", "properties",
                                   "additionalProperties", 0, "required");
        bool good = object;

        for (size_t i = 0; i < operation->n_segments && good; i++)
                if (!operation->segments[i].literal) {
                        const OperationParameter *parameter = &operation->segments[i].parameter;

                        good = add_argument(object, parameter->name, true,
                                            parameter_schema(parameter));
                }
        for (size_t i = 0; i < operation->n_query && good; i++)
                good = add_argument(object, operation->query[i].name, operation->query[i].required,
                                    parameter_schema(&operation->query[i]));
        if (good && add_content(object, operation)) {
                if (json_array_size(json_object_get(object, "required")) == 0)
                        (void) json_object_del(object, "required");
                return object;
        }
        json_decref(object);
        return NULL;
}

static const SchemaMember tokens_members[] = {
        {.name = "input", .type = "integer?"}, {.name = "output", .type = "integer?"}, {}};

static const SchemaMember answer_members[] = {
        {.name = "credential", .type = "string", .required = true},
        {.name = "operation", .type = "string", .required = true},
        {.name = "status",
         .type = "integer?",
         .required = true,
         .description = "of HTTP; null: there was no answer"},
        {.name = "headers",
         .type = "object",
         .values = "string",
         .description = "fields of the answer that are passed on, in lower case"},
        {.name = "body", .type = "string", .required = true},
        {.name = "body_encoding", .type = "string", .choices = encoding_choices},
        {.name = "bytes", .type = "integer", .description = "of the body"},
        {.name = "tokens",
         .type = "object?",
         .members = tokens_members,
         .description = "of a language model, as its answer told"},
        {.name = "reason",
         .type = "string?",
         .required = true,
         .description = "why there is no whole answer of the upstream, one word"},
        {.name = "text", .type = "string?", .description = "the same in a sentence"},
        {.name = "ms", .type = "number"},
        {},
};

json_t *operation_tool_output(void) {
        return schema_object(answer_members, true);
}

/* --- the menu --- */

static const SchemaMember parameter_members[] = {
        {.name = "name", .type = "string", .required = true},
        {.name = "in", .type = "string", .choices = place_choices, .required = true},
        {.name = "type", .type = "string", .choices = operation_types, .required = true},
        {.name = "required", .type = "boolean", .required = true},
        {.name = "minimum", .type = "integer"},
        {.name = "maximum", .type = "integer"},
        {.name = "enum", .type = "array", .items = "string"},
        {},
};

static const SchemaMember body_members[] = {
        {.name = "kind", .type = "string", .choices = operation_bodies, .required = true},
        {.name = "max_bytes", .type = "integer"},
        {},
};

static const SchemaMember response_members[] = {
        {.name = "max_bytes", .type = "integer"},
        {.name = "timeout_ms", .type = "integer"},
        {},
};

static const SchemaMember entry_members[] = {
        {.name = "operation",
         .type = "string",
         .required = true,
         .description = "CREDENTIAL.OPERATION, as in the argument operations of sandbox_exec"},
        {.name = "description", .type = "string"},
        {.name = "method", .type = "string", .choices = operation_methods, .required = true},
        {.name = "url",
         .type = "string",
         .required = true,
         .description = "in the sandbox of a job that may call it; each {name} is a parameter"},
        {.name = "parameters", .type = "array", .members = parameter_members, .required = true},
        {.name = "body", .type = "object", .members = body_members},
        {.name = "response", .type = "object", .members = response_members},
        {.name = "per_job", .type = "integer?", .description = "calls of one job"},
        {.name = "per_minute", .type = "integer?", .description = "calls of all in a minute"},
        {.name = "templates",
         .type = "array",
         .items = "string",
         .required = true,
         .description = "whose jobs may call it without asking"},
        {.name = "tool",
         .type = "string?",
         .required = true,
         .description = "that is the operation itself; null: there is none"},
        {},
};

static const SchemaMember menu_members[] = {
        {.name = "operations",
         .type = "array",
         .members = entry_members,
         .open = true,
         .required = true},
        {.name = "reason",
         .type = "string?",
         .required = true,
         .description = "why there are none; null: there are"},
        {},
};

json_t *operation_menu_output(void) {
        return schema_object(menu_members, true);
}

static bool add_parameter(json_t *array, const char *place, const OperationParameter *parameter) {
        json_t *object =
                json_pack("{s:s,s:s,s:s,s:b}", "name", parameter->name, "in", place, "type",
                          operation_types[parameter->type], "required", (int) parameter->required);

        if (object && !put_bounds(object, parameter)) {
                json_decref(object);
                return false;
        }
        return json_array_append_new(array, object) == 0;
}

static json_t *parameters_to_json(const Operation *operation) {
        json_t *array = json_array();
        bool good = array;

        for (size_t i = 0; i < operation->n_segments && good; i++)
                if (!operation->segments[i].literal)
                        good = add_parameter(array, place_choices[0],
                                             &operation->segments[i].parameter);
        for (size_t i = 0; i < operation->n_query && good; i++)
                good = add_parameter(array, place_choices[1], &operation->query[i]);
        if (good)
                return array;
        json_decref(array);
        return NULL;
}

/* Its path with the names of parameters alone. */
static json_t *url_to_json(const Credential *credential, const Operation *operation) {
        _cleanup_(strbuf_done) StrBuf url = STRBUF_NULL;
        int r;

        r = strbuf_appendf(&url, "http://%s" CREDENTIAL_HOST_SUFFIX, credential->name);
        for (size_t i = 0; i < operation->n_segments && r == 0; i++) {
                const OperationSegment *segment = &operation->segments[i];

                r = segment->literal ? strbuf_appendf(&url, "/%s", segment->literal)
                                     : strbuf_appendf(&url, "/{%s}", segment->parameter.name);
        }
        return r < 0 ? NULL : json_string(url.data);
}

static json_t *count_to_json(uint64_t count) {
        return count > 0 ? json_integer((json_int_t) count) : json_null();
}

static json_t *body_to_json(const Operation *operation) {
        if (operation->body == OPERATION_BODY_NONE)
                return json_pack("{s:s}", "kind", operation_bodies[operation->body]);
        return json_pack("{s:s,s:I}", "kind", operation_bodies[operation->body], "max_bytes",
                         (json_int_t) operation->body_max);
}

json_t *operation_menu_entry(const Credential *credential, const Operation *operation) {
        return json_pack("{s:o,s:s,s:s,s:o,s:o,s:o,s:{s:I,s:I},s:o,s:o}", "operation",
                         json_sprintf("%s.%s", credential->name, operation->name), "description",
                         operation->description, "method", operation_methods[operation->method],
                         "url", url_to_json(credential, operation), "parameters",
                         parameters_to_json(operation), "body", body_to_json(operation), "response",
                         "max_bytes", (json_int_t) operation->response_max, "timeout_ms",
                         (json_int_t) (operation->response_usec / USEC_PER_MSEC), "per_job",
                         count_to_json(operation->per_job), "per_minute",
                         count_to_json(operation->per_minute));
}
