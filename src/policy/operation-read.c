/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/operation-read.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"

#define RESPONSE_USEC_DEFAULT (30 * USEC_PER_SEC)
#define RESPONSE_USEC_MAX (3600 * USEC_PER_SEC)
#define COUNT_MAX 1000000U
#define INT_ABS_MAX 999999999999999999LL

/* --- the request --- */

static int read_description(const Reader *reader, const JsonNode *node, void *target) {
        return reader_string(reader, node, &((Operation *) target)->description);
}

static int read_method(const Reader *reader, const JsonNode *node, void *target) {
        Operation *operation = target;
        size_t index = operation->method;
        int r;

        r = reader_choice(reader, node, operation_methods, &index);
        operation->method = (OperationMethod) index;
        return error_trace(r);
}

static int read_path(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        const char *wrong = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        r = operation_path_parse(text, target, &wrong);
        if (r == OPERATION_E_TEMPLATE)
                r = reader_fault(reader, node, "%s", wrong);
        return error_trace(r);
}

/* --- the query --- */

static int read_type(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        const char *wrong = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        r = operation_type_parse(text, strlen(text), target, &wrong);
        if (r == OPERATION_E_TEMPLATE)
                r = reader_fault(reader, node, "%s", wrong);
        return error_trace(r);
}

/* They are read when the type is known, which may stand behind them. */
static int read_later(const Reader *reader _unused_, const JsonNode *node _unused_,
                      void *target _unused_) {
        return 0;
}

static int read_required(const Reader *reader, const JsonNode *node, void *target) {
        if (json_node_bool(node, &((OperationParameter *) target)->required) != 0)
                return reader_fault_value(reader, node, "is neither true nor false");
        return 0;
}

static const ReaderKey parameter_keys[] = {
        {.name = "type", .read = read_type},
        {.name = "minimum", .read = read_later},
        {.name = "maximum", .read = read_later},
        {.name = "required", .read = read_required},
        {},
};

static int read_bound(const Reader *reader, const JsonNode *node, const char *key,
                      const OperationParameter *parameter, int64_t *ret_bound) {
        const JsonNode *bound = json_node_member(reader->doc, node, key);
        int64_t value;

        if (!bound)
                return 0;
        if (parameter->type != OPERATION_INT)
                return reader_fault(reader, bound, "only an int has a %s: remove it", key);
        if (json_node_int64(reader->doc, bound, &value) != 0 || value < -INT_ABS_MAX ||
            value > INT_ABS_MAX)
                return reader_fault_value(reader, bound, "is no whole number of up to 18 digits");
        *ret_bound = value;
        return 0;
}

static int read_bounds(const Reader *reader, const JsonNode *node, OperationParameter *parameter) {
        int r;

        r = read_bound(reader, node, "minimum", parameter, &parameter->minimum);
        if (r == 0)
                r = read_bound(reader, node, "maximum", parameter, &parameter->maximum);
        if (r == 0 && parameter->minimum > parameter->maximum)
                r = reader_fault(reader, node, "minimum is greater than maximum");
        return error_trace(r);
}

static bool is_query_key(const char *name) {
        size_t n =
                strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

        return n > 0 && n <= OPERATION_NAME_MAX && name[n] == 0;
}

static int read_query_key(const Reader *reader, const JsonNode *node, Operation *operation) {
        OperationParameter *parameter = &operation->query[operation->n_query++];
        size_t before = reader_n_faults(reader->diags);
        int r;

        r = json_node_key(reader->doc, node, &parameter->name);
        if (r < 0)
                return error_trace(r);
        if (!is_query_key(parameter->name))
                return error_trace(reader_fault(reader, node,
                                                "is no key of a query: give 1 to 64 of letters, "
                                                "digits, _, . and -"));
        r = reader_object(reader, node, parameter_keys, parameter);
        if (r < 0 || reader_n_faults(reader->diags) > before)
                return error_trace(r);
        if (!json_node_member(reader->doc, node, "type"))
                return error_trace(
                        reader_fault(reader, node, "has no type: give \"type\", such as \"int\""));
        return error_trace(read_bounds(reader, node, parameter));
}

static int read_query(const Reader *reader, const JsonNode *node, void *target) {
        Operation *operation = target;
        int r = 0;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({\"KEY\": {\"type\": …}})");
        if (node->n_children > OPERATION_QUERY_MAX)
                return reader_fault(reader, node, "%zu keys are more than %u", node->n_children,
                                    OPERATION_QUERY_MAX);
        operation->query = calloc(node->n_children + 1, sizeof(OperationParameter));
        if (!operation->query)
                return error_origin(-ENOMEM);
        for (const JsonNode *child = node->first; child && r == 0; child = child->next)
                r = read_query_key(reader, child, operation);
        return error_trace(r);
}

/* --- content, response, how often --- */

static int read_kind(const Reader *reader, const JsonNode *node, void *target) {
        Operation *operation = target;
        size_t index = operation->body;
        int r;

        r = reader_choice(reader, node, operation_bodies, &index);
        operation->body = (OperationBody) index;
        return error_trace(r);
}

static int read_body_max(const Reader *reader, const JsonNode *node, void *target) {
        return reader_size(reader, node, 1, OPERATION_BODY_SIZE_MAX,
                           &((Operation *) target)->body_max);
}

static const ReaderKey body_keys[] = {
        {.name = "kind", .read = read_kind},
        {.name = "max_bytes", .read = read_body_max},
        {},
};

static int read_response_max(const Reader *reader, const JsonNode *node, void *target) {
        return reader_size(reader, node, 1, OPERATION_RESPONSE_MAX,
                           &((Operation *) target)->response_max);
}

static int read_timeout(const Reader *reader, const JsonNode *node, void *target) {
        uint64_t usec = RESPONSE_USEC_DEFAULT;
        int r;

        r = reader_time(reader, node, &usec);
        if (r == 0 && usec > RESPONSE_USEC_MAX)
                r = reader_fault_value(reader, node, "is longer than an hour");
        ((Operation *) target)->response_usec = usec;
        return error_trace(r);
}

static const ReaderKey response_keys[] = {
        {.name = "max_bytes", .read = read_response_max},
        {.name = "timeout", .read = read_timeout},
        {},
};

static int read_per_job(const Reader *reader, const JsonNode *node, void *target) {
        return reader_count(reader, node, 1, COUNT_MAX, &((Operation *) target)->per_job);
}

static int read_per_minute(const Reader *reader, const JsonNode *node, void *target) {
        return reader_count(reader, node, 1, COUNT_MAX, &((Operation *) target)->per_minute);
}

static int read_expose(const Reader *reader, const JsonNode *node, void *target) {
        if (json_node_bool(node, &((Operation *) target)->expose) != 0)
                return reader_fault_value(reader, node, "is neither true nor false");
        return 0;
}

static const ReaderKey operation_keys[] = {
        {.name = "description", .read = read_description},
        {.name = "method", .read = read_method},
        {.name = "path", .read = read_path},
        {.name = "query", .read = read_query},
        {.name = "body", .keys = body_keys},
        {.name = "response", .keys = response_keys},
        {.name = "per_job", .read = read_per_job},
        {.name = "per_minute", .read = read_per_minute},
        {.name = "expose", .read = read_expose},
        {},
};

int operation_key_names(StrV *names) {
        return reader_key_names(operation_keys, names);
}

/* --- the whole --- */

/* As a tool it has one argument for each name. */
static int check_exposed(const Reader *reader, const JsonNode *node, const Operation *operation) {
        for (size_t i = 0; i < operation->n_query; i++) {
                const char *name = operation->query[i].name;
                bool twice = false;

                for (size_t k = 0; k < operation->n_segments; k++)
                        twice = twice ||
                                (!operation->segments[k].literal &&
                                 string_equal(operation->segments[k].parameter.name, name));
                if (twice)
                        return error_trace(reader_fault(
                                reader, node,
                                "%s is a parameter of its path and a key of its query: give the "
                                "parameter another name",
                                name));
        }
        return 0;
}

static int check_operation(const Reader *reader, const JsonNode *node, const Operation *operation) {
        bool sends = operation->method == OPERATION_POST || operation->method == OPERATION_PUT ||
                     operation->method == OPERATION_PATCH || operation->method == OPERATION_DELETE;
        int r = 0;

        if (!json_node_member(reader->doc, node, "method"))
                r = reader_fault(reader, node, "has no method: give \"method\"");
        if (r == 0 && !operation->path)
                r = reader_fault(reader, node, "has no path: give \"path\"");
        if (r == 0 && operation->body != OPERATION_BODY_NONE && !sends)
                r = reader_fault(reader, node, "is a %s, which has no content: remove body",
                                 operation_methods[operation->method]);
        if (r == 0)
                r = check_exposed(reader, node, operation);
        return error_trace(r);
}

static int read_operation(const Reader *reader, const JsonNode *node, OperationMenu *menu) {
        size_t before = reader_n_faults(reader->diags);
        Operation *operation = &menu->items[menu->n_items++];
        int r;

        *operation = (Operation){
                .body_max = OPERATION_BODY_SIZE_DEFAULT,
                .response_max = OPERATION_RESPONSE_DEFAULT,
                .response_usec = RESPONSE_USEC_DEFAULT,
                .line = node->line,
        };
        r = json_node_key(reader->doc, node, &operation->name);
        if (r < 0)
                return error_trace(r);
        if (!operation_name_is_valid(operation->name))
                return error_trace(reader_fault(reader, node,
                                                "is no operation's name: give 1 to 64 of a-z, 0-9 "
                                                "and _, a letter first"));
        operation->description = strdup("");
        if (!operation->description)
                return error_origin(-ENOMEM);
        r = reader_object(reader, node, operation_keys, operation);
        if (r < 0 || reader_n_faults(reader->diags) > before)
                return error_trace(r);
        return error_trace(check_operation(reader, node, operation));
}

/* There is no order among them that could decide. */
static int check_overlaps(const Reader *reader, const JsonNode *node, const OperationMenu *menu) {
        const JsonNode *child = node->first;
        int r = 0;

        for (size_t i = 0; i < menu->n_items && r == 0; i++, child = child->next)
                for (size_t k = 0; k < i; k++) {
                        if (!operation_overlaps(&menu->items[i], &menu->items[k]))
                                continue;
                        r = reader_fault(reader, child,
                                         "one request could be this and %s, of line %u: make their "
                                         "paths or types differ",
                                         menu->items[k].name, menu->items[k].line);
                        break;
                }
        return error_trace(r);
}

int operation_menu_read(const Reader *reader, const JsonNode *node, OperationMenu *menu) {
        size_t before = reader_n_faults(reader->diags);
        int r = 0;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({\"OPERATION\": {…}})");
        if (node->n_children > OPERATION_MENU_MAX)
                return reader_fault(reader, node, "%zu operations are more than %u",
                                    node->n_children, OPERATION_MENU_MAX);
        menu->items = calloc(node->n_children + 1, sizeof(Operation));
        if (!menu->items)
                return error_origin(-ENOMEM);
        for (const JsonNode *child = node->first; child && r == 0; child = child->next)
                r = read_operation(reader, child, menu);
        if (r == 0 && reader_n_faults(reader->diags) == before)
                r = check_overlaps(reader, node, menu);
        if (r < 0)
                return error_trace(r);
        operation_menu_sort(menu);
        return 0;
}
