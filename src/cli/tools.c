/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate tools: what the broker offers.
 */

#include "basic/error.h"
#include "cli/client.h"
#include "cli/command.h"

#define ARGUMENT_COLUMN 22

/* A string member, or "" if there is none; owned. */
static char *member_string(const JsonDoc *doc, const JsonNode *node, const char *name) {
        char *text;

        if (json_node_string(doc, json_node_member(doc, node, name), &text, NULL) == 0)
                return text;
        return strdup("");
}

static bool is_required(const JsonDoc *doc, const JsonNode *schema, const char *name) {
        const JsonNode *required = json_node_member(doc, schema, "required");

        for (const JsonNode *node = required ? required->first : NULL; node; node = node->next)
                if (json_node_string_equal(doc, node, name))
                        return true;
        return false;
}

static int print_argument(const JsonDoc *doc, const JsonNode *schema, const JsonNode *argument) {
        _cleanup_(freep) char *name = NULL, *description = NULL;

        if (json_node_key(doc, argument, &name) < 0)
                return 0;
        description = member_string(doc, argument, "description");
        if (!description)
                return error_origin(-ENOMEM);
        printf("    %-*s ", ARGUMENT_COLUMN, name);
        /* One that nobody has described is at least shown. */
        if (*description)
                printf("%s", description);
        else
                printf("%.*s", (int) argument->size, json_node_slice(doc, argument));
        printf("%s\n", is_required(doc, schema, name) ? " (required)" : "");
        return 0;
}

static int print_tool(const JsonDoc *doc, const JsonNode *tool) {
        const JsonNode *schema = json_node_member(doc, tool, "inputSchema");
        const JsonNode *properties = json_node_member(doc, schema, "properties");
        _cleanup_(freep) char *name = member_string(doc, tool, "name");
        _cleanup_(freep) char *description = member_string(doc, tool, "description");
        int r = 0;

        if (!name || !description)
                return error_origin(-ENOMEM);
        printf("%s\n    %s\n", name, description);
        for (const JsonNode *node = properties ? properties->first : NULL; r >= 0 && node;
             node = node->next)
                r = print_argument(doc, schema, node);
        return r;
}

static int print_tools(const ClientReply *reply, bool as_json) {
        const JsonNode *tools = json_node_member(reply->doc, reply->result, "tools");
        int r = 0;

        if (!tools)
                return complain_status(EXIT_NO_BROKER, "the broker's answer holds no tools");
        if (as_json)
                printf("%.*s\n", (int) tools->size, json_node_slice(reply->doc, tools));
        else
                for (const JsonNode *node = tools->first; r >= 0 && node; node = node->next)
                        r = print_tool(reply->doc, node);
        return r < 0 ? error_trace(r) : EXIT_SUCCESS;
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(common_options_done) CommonOptions options = {};
        _cleanup_(client_reply_done) ClientReply reply = {};
        _cleanup_(client_done) Client client = CLIENT_NULL;
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 0, 0, &options, &words, &status);
        if (r == COMMAND_E_DONE)
                return status;
        if (r == 0)
                r = client_connect(&client, &options);
        if (r == 0)
                r = client_request(&client, "tools/list", "", NULL, &reply);
        if (r == CLIENT_E_COMPLAINED)
                return EXIT_NO_BROKER;
        if (r < 0)
                return error_trace(r);
        if (reply.error)
                return client_complain_error(&reply, "tools", "");
        return print_tools(&reply, options.json);
}

static const Option option_rows[] = {
        OPTION_ROW_JSON("print the list as the broker gave it"),
        OPTION_ROW_SOCKET,
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

const Command command_tools = {
        .name = "tools",
        .arguments = "",
        .summary = "list the broker's tools and their arguments",
        .options = &option_table,
        .run = run,
};
