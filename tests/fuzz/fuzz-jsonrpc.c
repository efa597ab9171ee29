/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a client sends, from the stream of bytes to the arguments of a tool: in pieces whose size
 * the first byte tells, through the framer, the parser, the protocol and sandbox_exec's arguments.
 * Every answer is one line of valid JSON; a request gets one, or something to do; a notification
 * and a response get none.
 */

#include "tests/fuzz/fuzz.h"

#include "mcp/exec-args.h"
#include "mcp/framing.h"
#include "mcp/protocol.h"

#define LINE_MAX_BYTES 4096U

static Tools *tools;

static void check_answer(const StrBuf *answer) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        FUZZ_ASSERT(!memchr(answer->data, '\n', answer->size));
        FUZZ_ASSERT(json_scan(answer->data, answer->size, &doc, &error) == 0);
        FUZZ_ASSERT(json_node_string_equal(
                doc, json_node_member(doc, json_doc_root(doc), "jsonrpc"), "2.0"));
}

static void check_arguments(const RpcLine *line, const McpRequest *request) {
        _cleanup_(exec_args_done) ExecArgs args = {};
        _cleanup_(freep) char *text = NULL;
        int r;

        r = exec_args_parse(line->doc, request->arguments, &args, &text);
        FUZZ_ASSERT(r == 0 || r == EXEC_ARGS_E_INVALID);
        FUZZ_ASSERT((r == 0) == (text == NULL));
        if (r != 0)
                return;

        FUZZ_ASSERT((args.argv.n_items > 0) != (args.command != NULL));
        FUZZ_ASSERT(!args.command || strlen(args.command) == args.command_size);
        FUZZ_ASSERT(!args.capture_given || args.capture <= EXEC_ARGS_CAPTURE_MAX);
        FUZZ_ASSERT(!args.cwd || args.cwd[0] == '/');
        FUZZ_ASSERT(!args.workspace || args.workspace[0] == '/');
}

static void check_message(McpPeer *peer, const RpcLine *line, const RpcMessage *message) {
        _cleanup_(mcp_request_done) McpRequest request = MCP_REQUEST_NULL;

        FUZZ_ASSERT(mcp_handle(tools, peer, line, message, &request) == 0);
        if (message->kind == RPC_NOTIFICATION || message->kind == RPC_RESPONSE)
                FUZZ_ASSERT(request.answer.size == 0);
        else
                FUZZ_ASSERT(request.action == MCP_ANSWER || request.action == MCP_CALL ||
                            request.action == MCP_LISTEN);

        if (request.action == MCP_ANSWER || request.action == MCP_LISTEN)
                check_answer(&request.answer);
        if (request.action == MCP_CALL)
                check_arguments(line, &request);
        if (request.action == MCP_CANCEL)
                FUZZ_ASSERT(request.target_size > 0 && request.target_size <= RPC_ID_MAX);
        if (message->id)
                FUZZ_ASSERT(
                        rpc_id_equal(message->id, message->id_size, message->id, message->id_size));
}

static void check_line(McpPeer *peer, const char *text, size_t size) {
        _cleanup_(rpc_line_freep) RpcLine *line = NULL;

        FUZZ_ASSERT(size > 0 && size <= LINE_MAX_BYTES);
        FUZZ_ASSERT(rpc_line_parse(text, size, &line) == 0);
        FUZZ_ASSERT(line->batch || line->n_messages == 1);
        FUZZ_ASSERT((line->n_messages == 0) == (line->code != 0));
        for (size_t i = 0; i < line->n_messages; i++)
                check_message(peer, line, &line->messages[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        McpPeer peer = MCP_PEER_NULL;
        Framer framer;
        size_t piece;

        if (size == 0)
                return 0;
        if (!tools)
                FUZZ_ASSERT(tools_new(NULL, &tools) == 0);

        piece = data[0] + 1U;
        framer_init(&framer, LINE_MAX_BYTES);
        for (size_t i = 1; i < size; i += piece) {
                const char *line;
                size_t line_size;
                int r;

                FUZZ_ASSERT(framer_add(&framer, data + i, size_min(piece, size - i)) == 0);
                while ((r = framer_next(&framer, &line, &line_size)) != FRAMER_E_MORE)
                        if (r == 0)
                                check_line(&peer, line, line_size);
                        else
                                FUZZ_ASSERT(r == FRAMER_E_OVERSIZE);
                FUZZ_ASSERT(framer_pending(&framer) <= LINE_MAX_BYTES + 1);
        }
        framer_done(&framer);
        mcp_peer_done(&peer);
        return 0;
}
