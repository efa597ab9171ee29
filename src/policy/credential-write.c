/* SPDX-License-Identifier: Apache-2.0 */

/* From a Credential to JSON that credential_read() reads. */

#include <errno.h>
#include <jansson.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "policy/credential.h"

/* Each takes value, which may be NULL where memory is short; one failure is enough. */
static void put(json_t *object, const char *key, json_t *value, bool *ret_failed) {
        if (json_object_set_new(object, key, value) < 0)
                *ret_failed = true;
}

static void put_string(json_t *object, const char *key, const char *value, bool *ret_failed) {
        if (!string_empty(value))
                put(object, key, json_string(value), ret_failed);
}

static void put_count(json_t *object, const char *key, uint64_t value, bool *ret_failed) {
        if (value > 0)
                put(object, key, json_integer((json_int_t) value), ret_failed);
}

static void put_strings(json_t *object, const char *key, const StrV *values, bool *ret_failed) {
        json_t *array = json_array();

        for (size_t i = 0; i < values->n_items; i++)
                if (json_array_append_new(array, json_string(values->items[i])) < 0)
                        *ret_failed = true;
        put(object, key, array, ret_failed);
}

static json_t *attach_to_json(const Attach *attach, bool *ret_failed) {
        json_t *object = json_object();

        put_string(object, "as", attach_kinds[attach->kind], ret_failed);
        put_string(object, "user", attach->user, ret_failed);
        put_string(object, attach->kind == ATTACH_HMAC ? "header" : "name", attach->name,
                   ret_failed);
        put_string(object, "prefix", attach->prefix, ret_failed);
        put_string(object, "region", attach->region, ret_failed);
        put_string(object, "service", attach->service, ret_failed);
        put_string(object, "access_key_id", attach->access_key_id, ret_failed);
        if (attach->kind == ATTACH_HMAC) {
                put_string(object, "algorithm", attach_algorithms[attach->algorithm], ret_failed);
                put_string(object, "over", attach_overs[attach->over], ret_failed);
        }
        return object;
}

static json_t *type_to_json(const OperationParameter *parameter, bool *ret_failed) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        if (strbuf_append_string(&text, operation_types[parameter->type]) < 0)
                *ret_failed = true;
        for (size_t i = 0; i < parameter->words.n_items; i++)
                if (strbuf_appendf(&text, "%s%s", i == 0 ? "(" : "|", parameter->words.items[i]) <
                    0)
                        *ret_failed = true;
        if (parameter->words.n_items > 0 && strbuf_append_byte(&text, ')') < 0)
                *ret_failed = true;
        return json_string(text.data ?: "");
}

static json_t *query_to_json(const Operation *operation, bool *ret_failed) {
        json_t *object = json_object();

        for (size_t i = 0; i < operation->n_query; i++) {
                const OperationParameter *parameter = &operation->query[i];
                json_t *key = json_object();

                put(key, "type", type_to_json(parameter, ret_failed), ret_failed);
                if (parameter->type == OPERATION_INT && parameter->minimum != 0)
                        put(key, "minimum", json_integer(parameter->minimum), ret_failed);
                if (parameter->type == OPERATION_INT && parameter->maximum != INT64_MAX)
                        put(key, "maximum", json_integer(parameter->maximum), ret_failed);
                if (parameter->required)
                        put(key, "required", json_true(), ret_failed);
                put(object, parameter->name, key, ret_failed);
        }
        return object;
}

static json_t *operation_to_json(const Operation *operation, bool *ret_failed) {
        json_t *object = json_object(), *body = json_object(), *response = json_object();

        put_string(object, "description", operation->description, ret_failed);
        put_string(object, "method", operation_methods[operation->method], ret_failed);
        put_string(object, "path", operation->path, ret_failed);
        if (operation->n_query > 0)
                put(object, "query", query_to_json(operation, ret_failed), ret_failed);
        if (operation->body != OPERATION_BODY_NONE) {
                put_string(body, "kind", operation_bodies[operation->body], ret_failed);
                put_count(body, "max_bytes", operation->body_max, ret_failed);
        }
        put(object, "body", body, ret_failed);
        put_count(response, "max_bytes", operation->response_max, ret_failed);
        put_count(response, "timeout", operation->response_usec / USEC_PER_MSEC, ret_failed);
        put(object, "response", response, ret_failed);
        put_count(object, "per_job", operation->per_job, ret_failed);
        put_count(object, "per_minute", operation->per_minute, ret_failed);
        if (operation->expose)
                put(object, "expose", json_true(), ret_failed);
        return object;
}

static json_t *credential_to_json(const Credential *c, const StrV *rules, bool *ret_failed) {
        json_t *object = json_object(), *operations = json_object(), *env = json_object();

        put_string(object, "description", c->description, ret_failed);
        put_string(object, "upstream", c->upstream_text, ret_failed);
        put_strings(object, "addresses", &c->addresses, ret_failed);
        put_string(object, "ca", c->ca, ret_failed);
        put_strings(object, "pin", &c->pins, ret_failed);
        put_string(object, "secret", c->secret, ret_failed);
        put(object, "attach", attach_to_json(&c->attach, ret_failed), ret_failed);
        put_strings(object, "headers", &c->headers, ret_failed);
        for (size_t i = 0; i < c->env.n_items; i++) {
                const char *equals = strchr(c->env.items[i], '=');
                _cleanup_(freep) char *name =
                        strndup(c->env.items[i], (size_t) (equals - c->env.items[i]));

                if (!name)
                        *ret_failed = true;
                else
                        put(env, name, json_string(equals + 1), ret_failed);
        }
        put(object, "env", env, ret_failed);
        for (size_t i = 0; i < c->menu.n_items; i++)
                if (credential_rules_cover(rules, c->name, c->menu.items[i].name))
                        put(operations, c->menu.items[i].name,
                            operation_to_json(&c->menu.items[i], ret_failed), ret_failed);
        put(object, "operations", operations, ret_failed);
        return object;
}

int credential_write(const Credential *credential, const StrV *rules, StrBuf *out) {
        bool failed = false;
        json_t *object = credential_to_json(credential, rules, &failed);
        _cleanup_(freep) char *text = failed ? NULL : json_dumps(object, JSON_COMPACT);

        json_decref(object);
        return text ? error_trace(strbuf_append_string(out, text)) : error_origin(-ENOMEM);
}
