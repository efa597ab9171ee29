/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The name of an operation and, behind the first line, the arguments of its tool, in JSON. They are
 * refused in a sentence, or become a request that agentcrate-egress takes for that operation and no
 * other, that can be written in one way only, and into which no line end got.
 */

#include "tests/fuzz/fuzz.h"

#include <ctype.h>

#include "mcp/operation-args.h"
#include "policy/credential.h"

static const char menu_text[] =
        "{\"upstream\":\"https://a.example\",\"secret\":\"s\",\"attach\":{\"as\":\"bearer\"},"
        "\"operations\":{"
        "\"get\":{\"method\":\"GET\",\"path\":\"/r/{owner:slug}/{n:int}\",\"query\":{\"q\":{"
        "\"type\":\"int\",\"minimum\":-9,\"maximum\":100},\"s\":{\"type\":\"enum(open|closed)\","
        "\"required\":true}}},"
        "\"none\":{\"method\":\"DELETE\",\"path\":\"/\"},"
        "\"json\":{\"method\":\"POST\",\"path\":\"/j/{d:date}\",\"body\":{\"kind\":\"json\","
        "\"max_bytes\":200}},"
        "\"form\":{\"method\":\"POST\",\"path\":\"/f\",\"body\":{\"kind\":\"form\"}},"
        "\"raw\":{\"method\":\"PUT\",\"path\":\"/w/{id:uuid}\",\"body\":{\"kind\":\"raw\","
        "\"max_bytes\":100}}}}";

static const Credential *fuzz_credential(void) {
        static Credential *credential;
        DiagList diags = DIAG_LIST_NULL;

        if (!credential)
                FUZZ_ASSERT(credential_parse("x", "x.json", menu_text, strlen(menu_text), &diags,
                                             &credential) == 0);
        return credential;
}

static void check_line(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                FUZZ_ASSERT((unsigned char) text[i] >= ' ' && text[i] != 0x7f);
}

static OperationSpan span_of(const char *text) {
        return text ? (OperationSpan){text, strlen(text)} : (OperationSpan){};
}

/* As agentcrate-egress reads it. */
static void check_request(const OperationMenu *menu, const Operation *operation,
                          const OperationArgs *args) {
        _cleanup_(operation_match_done) OperationMatch match = {};
        _cleanup_(strbuf_done) StrBuf path = STRBUF_NULL, query = STRBUF_NULL;
        const OperationSpan body = {args->body.data, args->body.size};
        OperationFault fault = {};
        const char *text = NULL;

        check_line(args->target.data, args->target.size);
        FUZZ_ASSERT(!memchr(args->target.data, ' ', args->target.size));
        FUZZ_ASSERT(operation_match(menu, span_of(operation_methods[operation->method]),
                                    (OperationSpan){args->target.data, args->target.size}, &match,
                                    &fault) == 0);
        FUZZ_ASSERT(match.operation == operation);
        FUZZ_ASSERT(operation_append_path(&match, &path) == 0);
        FUZZ_ASSERT(operation_append_query(&match, &query) == 0);
        if (query.size > 0)
                FUZZ_ASSERT(strbuf_appendf(&path, "?%s", query.data) == 0);
        FUZZ_ASSERT(path.size == args->target.size &&
                    memcmp(path.data, args->target.data, path.size) == 0);

        FUZZ_ASSERT((operation->body == OPERATION_BODY_NONE) == (args->type == NULL));
        if (args->type)
                check_line(args->type, strlen(args->type));
        FUZZ_ASSERT(operation_check_body(operation, span_of(args->type), (OperationSpan){}, body,
                                         &text) == 0);
}

static void append_form(StrBuf *out, const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (text[i] == ' ')
                        FUZZ_ASSERT(strbuf_append_byte(out, '+') == 0);
                else
                        FUZZ_ASSERT(
                                strbuf_appendf(out,
                                               isalnum((unsigned char) text[i]) ||
                                                               (text[i] && strchr("-_.*", text[i]))
                                                       ? "%c"
                                                       : "%%%02X",
                                               (unsigned char) text[i]) == 0);
}

/* Each name and value is there as a whole, whatever is in it, and nothing else. */
static void check_form(const JsonDoc *doc, const JsonNode *body, const StrBuf *sent) {
        _cleanup_(strbuf_done) StrBuf form = STRBUF_NULL;

        for (const JsonNode *node = body ? body->first : NULL; node; node = node->next) {
                _cleanup_(freep) char *value = NULL;
                size_t size, value_size;
                const char *name = json_node_key_bytes(doc, node, &size);

                FUZZ_ASSERT(json_node_string(doc, node, &value, &value_size) == 0);
                append_form(&form, name, size);
                FUZZ_ASSERT(strbuf_append_byte(&form, '=') == 0);
                append_form(&form, value, value_size);
                if (node->next)
                        FUZZ_ASSERT(strbuf_append_byte(&form, '&') == 0);
        }
        FUZZ_ASSERT(form.size == sent->size &&
                    (form.size == 0 || memcmp(form.data, sent->data, form.size) == 0));
}

/* Nothing that was given is left out without a word. */
static void check_known(const Operation *operation, const JsonDoc *doc, const JsonNode *arguments) {
        static const char *const content[] = {"body", "body_encoding", "content_type"};
        size_t n = operation->body == OPERATION_BODY_NONE  ? 0
                   : operation->body == OPERATION_BODY_RAW ? ELEMENTSOF(content)
                                                           : 1;

        for (const JsonNode *node = arguments ? arguments->first : NULL; node; node = node->next) {
                _cleanup_(freep) char *name = NULL;
                bool known;

                FUZZ_ASSERT(json_node_key(doc, node, &name) == 0);
                known = operation_find_parameter(operation, name);
                for (size_t i = 0; i < n; i++)
                        known = known || string_equal(name, content[i]);
                FUZZ_ASSERT(known);
        }
}

static void check_args(const Operation *operation, const JsonDoc *doc, const JsonNode *arguments) {
        _cleanup_(operation_args_done) OperationArgs args = {};
        _cleanup_(freep) char *text = NULL;
        int r;

        r = operation_args_parse(operation, doc, arguments, &args, &text);
        FUZZ_ASSERT(r == 0 || r == OPERATION_ARGS_E_INVALID);
        FUZZ_ASSERT((r == 0) == (text == NULL) && (r == 0) == (args.target.size > 0));
        if (r != 0) {
                check_line(text, strlen(text));
                return;
        }
        check_known(operation, doc, arguments);
        check_request(&fuzz_credential()->menu, operation, &args);
        if (operation->body == OPERATION_BODY_JSON)
                FUZZ_ASSERT(args.body.size > 1 && strchr("{[", args.body.data[0]));
        if (operation->body == OPERATION_BODY_FORM)
                check_form(doc, json_node_member(doc, arguments, "body"), &args.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *) data, *line = memchr(text, '\n', size);
        const OperationMenu *menu = &fuzz_credential()->menu;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(freep) char *name = NULL;
        const Operation *operation;
        JsonError error;

        name = strndup(text, line ? (size_t) (line - text) : size);
        operation = name ? operation_menu_find(menu, name) : NULL;
        if (!operation)
                return 0;
        if (!line) {
                check_args(operation, NULL, NULL);
                return 0;
        }
        line++;
        if (json_scan(line, size - (size_t) (line - text), &doc, &error) != 0)
                return 0;
        if (json_doc_root(doc)->type == JSON_NODE_OBJECT)
                check_args(operation, doc, json_doc_root(doc));
        return 0;
}
