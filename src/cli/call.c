/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate call: one call of one tool.
 */

#include "basic/diag.h"
#include "basic/error.h"
#include "cli/client.h"
#include "cli/command.h"
#include "mcp/jsonrpc.h"

/* Checks the arguments before they are sent, since here their place in the text can be told. Their
 * newlines can only stand between tokens; a message is one line. 0, EXIT_USAGE or -ENOMEM. */
static int append_arguments(StrBuf *members, const char *text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        size_t start;
        int r;

        r = json_scan(text, strlen(text), &doc, &error);
        if (r == JSON_SCAN_E_SYNTAX)
                return complain_status(EXIT_USAGE,
                                       "call: the arguments are not JSON: line %u, column %u: %s",
                                       error.line, error.column, error.text);
        if (r < 0)
                return error_trace(r);
        if (json_doc_root(doc)->type != JSON_NODE_OBJECT)
                return complain_status(EXIT_USAGE, "call: the arguments must be an object such as "
                                                   "{\"command\": \"id\"}");
        r = strbuf_append_string(members, ",\"arguments\":");
        start = members->size;
        if (r >= 0)
                r = strbuf_append_string(members, text);
        if (r >= 0)
                r = strbuf_append_byte(members, ',');
        for (size_t i = start; r >= 0 && i < members->size; i++)
                if (members->data[i] == '\n' || members->data[i] == '\r')
                        members->data[i] = ' ';
        return error_trace(r);
}

static int append_members(StrBuf *members, const StrV *words) {
        int r;

        r = strbuf_append_string(members, "\"name\":");
        if (r >= 0)
                r = rpc_append_string(members, words->items[0], strlen(words->items[0]));
        if (r < 0)
                return error_trace(r);
        return append_arguments(members, words->n_items > 1 ? words->items[1] : "{}");
}

static void print_progress(const char *text) {
        fputs(text, stderr);
}

/* Ends with a newline, also where the text has none. */
static void print_text(const char *text, size_t size) {
        (void) fwrite(text, 1, size, stdout);
        if (size == 0 || text[size - 1] != '\n')
                putchar('\n');
}

/* The text blocks; of other kinds only the kind. */
static int print_content(const ClientReply *reply) {
        const JsonNode *content = json_node_member(reply->doc, reply->result, "content");

        for (const JsonNode *node = content ? content->first : NULL; node; node = node->next) {
                const JsonNode *type = json_node_member(reply->doc, node, "type");
                _cleanup_(freep) char *text = NULL;
                size_t size;
                int r;

                r = json_node_string(reply->doc, json_node_member(reply->doc, node, "text"), &text,
                                     &size);
                if (r < 0)
                        return error_trace(r);
                if (r == 0)
                        print_text(text, size);
                else if (type)
                        printf("[%.*s]\n", (int) type->size, json_node_slice(reply->doc, type));
        }
        return 0;
}

static int print_result(const ClientReply *reply, bool as_json) {
        bool is_error = false;
        int r = 0;

        if (as_json)
                print_text(json_node_slice(reply->doc, reply->result), reply->result->size);
        else
                r = print_content(reply);
        if (r < 0)
                return error_trace(r);
        (void) json_node_bool(json_node_member(reply->doc, reply->result, "isError"), &is_error);
        return is_error ? EXIT_TOOL_ERROR : EXIT_SUCCESS;
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(common_options_done) CommonOptions options = {};
        _cleanup_(client_reply_done) ClientReply reply = {};
        _cleanup_(client_done) Client client = CLIENT_NULL;
        _cleanup_(strbuf_done) StrBuf members = STRBUF_NULL;
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 1, 2, &options, &words, &status);
        if (r == COMMAND_E_DONE)
                return status;
        if (r == 0)
                r = append_members(&members, &words);
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        r = client_connect(&client, &options);
        if (r == 0)
                r = client_request(&client, "tools/call", members.data,
                                   options.progress ? print_progress : NULL, &reply);
        if (r == CLIENT_E_COMPLAINED)
                return EXIT_NO_BROKER;
        if (r < 0)
                return error_trace(r);
        if (reply.error)
                return client_complain_error(&reply, words.items[0],
                                             "; agentcrate tools lists tools and arguments");
        return print_result(&reply, options.json);
}

static const Option option_rows[] = {
        OPTION_ROW_WORKSPACE,
        OPTION_ROW_JSON("print the whole result as the broker gave it"),
        {"progress", 0, NULL, option_take_flag, offsetof(CommonOptions, progress),
         "print to standard error what the tool tells while it runs"},
        OPTION_ROW_SOCKET,
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

const Command command_call = {
        .name = "call",
        .arguments = "TOOL [JSON]",
        .summary = "call a tool with the arguments JSON, an object, and print what it answers",
        .options = &option_table,
        .run = run,
};
