/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/operations-list.h"

#include "basic/diag.h"
#include "basic/error.h"
#include "broker/call.h"
#include "mcp/operation-tool.h"

/* Made at once: there is nothing to wait for. */
typedef struct Listing {
        json_t *result;
} Listing;

/* --- who may what --- */

static bool has_scope(const Tenant *tenant) {
        char word[] = "credential:use", *words[] = {word, NULL};
        const StrV scope = {.items = words, .n_items = 1};

        return !tenant_missing_scope(tenant, &scope);
}

/* The templates that the tenant may use whose jobs may call it without asking. */
static json_t *templates_to_json(const Call *call, const Credential *credential,
                                 const Operation *operation) {
        const Policy *policy = call->policy;
        json_t *array = json_array();

        for (size_t i = 0; i < policy->n_templates; i++) {
                const Template *template = policy->templates[i];

                if (!rules_find(&call->tenant->templates, template->name) ||
                    !credential_rules_cover(&template->operations, credential->name,
                                            operation->name))
                        continue;
                if (json_array_append_new(array, json_string(template->name)) < 0) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *tool_to_json(const Call *call, const Credential *credential,
                            const Operation *operation) {
        const ExposedTools *tools = &call->policy->exposed;

        for (size_t i = 0; i < tools->n_items; i++)
                if (tools->items[i].credential == credential &&
                    tools->items[i].operation == operation)
                        return evaluate_may_call(call->tenant, &tools->items[i].rights)
                                       ? json_string(tools->items[i].rights.name)
                                       : json_null();
        return json_null();
}

static bool add_entry(json_t *list, const Call *call, const Credential *credential,
                      const Operation *operation) {
        json_t *entry = operation_menu_entry(credential, operation);

        if (entry &&
            json_object_set_new(entry, "templates",
                                templates_to_json(call, credential, operation)) == 0 &&
            json_object_set_new(entry, "tool", tool_to_json(call, credential, operation)) == 0)
                return json_array_append_new(list, entry) == 0;
        json_decref(entry);
        return false;
}

static bool add_credential(json_t *list, const Call *call, const Credential *credential) {
        for (size_t i = 0; i < credential->menu.n_items; i++)
                if (credential_rules_cover(&call->tenant->operations, credential->name,
                                           credential->menu.items[i].name) &&
                    !add_entry(list, call, credential, &credential->menu.items[i]))
                        return false;
        return true;
}

/* Why the list is empty. */
static const char *find_reason(const Call *call) {
        if (!has_scope(call->tenant))
                return "you do not have the scope credential:use, which the administrator of this "
                       "broker can grant";
        if (call->policy->n_credentials == 0)
                return "this broker has no credentials";
        return "your tenant may call no operation: the administrator of this broker can add some "
               "to its operations";
}

static json_t *listing_to_json(const Call *call) {
        json_t *list = json_array();
        bool good = list;

        for (size_t i = 0; good && i < call->policy->n_credentials && has_scope(call->tenant); i++)
                good = add_credential(list, call, call->policy->credentials[i]);
        if (!good) {
                json_decref(list);
                return NULL;
        }
        return json_pack("{s:o,s:o}", "operations", list, "reason",
                         json_array_size(list) > 0 ? json_null() : json_string(find_reason(call)));
}

/* --- the executor --- */

static void listing_free(Call *call) {
        Listing *listing = call->execution;

        if (!listing)
                return;
        json_decref(listing->result);
        free(listing);
        call->execution = NULL;
}

static int listing_prepare(Call *call, const JsonDoc *doc, const JsonNode *arguments,
                           char **ret_text) {
        Listing *listing;

        if (arguments && arguments->first) {
                _cleanup_(freep) char *name = NULL, *quoted = NULL;

                if (json_node_key(doc, arguments->first, &name) == 0)
                        quoted = diag_quote(name);
                return outcome_text(EXECUTOR_E_REFUSED, ret_text,
                                    "there is no argument %s; the arguments are none",
                                    quoted ?: "");
        }
        listing = call->execution = calloc(1, sizeof(Listing));
        if (!listing)
                return error_origin(-ENOMEM);
        listing->result = listing_to_json(call);
        return listing->result ? 0 : error_origin(-ENOMEM);
}

static int listing_start(Call *call _unused_, char **ret_text _unused_) {
        return EXECUTOR_E_ENDED;
}

static void listing_stop(Call *call _unused_, bool grace _unused_) {
}

static void listing_pause(Call *call _unused_, bool pause _unused_) {
}

/* The text is the same for those who read no structured content. */
static int listing_finish(Call *call, ExecutorResult *ret_result) {
        const Listing *listing = call->execution;
        _cleanup_(freep) char *structured = json_dumps(listing->result, JSON_COMPACT);
        _cleanup_(freep) char *text = NULL, *content = NULL;
        const json_t *reason = json_object_get(listing->result, "reason");
        json_t *array;

        text = json_is_string(reason)
                       ? strdup(json_string_value(reason))
                       : json_dumps(json_object_get(listing->result, "operations"), JSON_COMPACT);
        array = json_pack("[{s:s,s:s}]", "type", "text", "text", text ?: "");
        content = json_dumps(array, JSON_COMPACT);
        json_decref(array);
        if (!structured || !text || !content)
                return error_origin(-ENOMEM);
        *ret_result =
                (ExecutorResult){.content = TAKE_PTR(content), .structured = TAKE_PTR(structured)};
        return 0;
}

static void listing_describe(const Call *call _unused_, AuditEnd *end) {
        end->outcome = "exited";
}

const Executor execute_operations_list = {
        .tool = TOOL_OPERATIONS_LIST,
        .prepare = listing_prepare,
        .start = listing_start,
        .stop = listing_stop,
        .pause = listing_pause,
        .finish = listing_finish,
        .describe = listing_describe,
        .free = listing_free,
};
