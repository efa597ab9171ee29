/* SPDX-License-Identifier: Apache-2.0 */

/*
 * "METHOD TARGET" against a menu with a path of every type. What is let through is sent in a form
 * that has nothing in it which could be read in another way, matches the same operation with the
 * same values, and matches no other.
 */

#include "tests/fuzz/fuzz.h"

#include "policy/credential.h"

static const char menu_text[] =
        "{\"upstream\":\"https://a.example\",\"secret\":\"s\",\"attach\":{\"as\":\"bearer\"},"
        "\"operations\":{"
        "\"a\":{\"method\":\"GET\",\"path\":\"/r/{owner:slug}/{repo:slug}/i\",\"query\":{\"n\":{"
        "\"type\":\"int\",\"minimum\":-9,\"maximum\":100},\"s\":{\"type\":\"slug\"}}},"
        "\"b\":{\"method\":\"GET\",\"path\":\"/u/{id:uuid}\"},"
        "\"c\":{\"method\":\"GET\",\"path\":\"/u/{d:date}\"},"
        "\"d\":{\"method\":\"GET\",\"path\":\"/u/{n:int}\"},"
        "\"e\":{\"method\":\"GET\",\"path\":\"/u/{e:enum(open|closed)}\"},"
        "\"f\":{\"method\":\"GET\",\"path\":\"/\"},"
        "\"g\":{\"method\":\"POST\",\"path\":\"/m:x/$'()*+,=@/\",\"query\":{\"d\":{\"type\":"
        "\"date\",\"required\":true}}}}}";

static const Credential *fuzz_credential(void) {
        static Credential *credential;
        DiagList diags = DIAG_LIST_NULL;

        if (!credential)
                FUZZ_ASSERT(credential_parse("x", "x.json", menu_text, strlen(menu_text), &diags,
                                             &credential) == 0);
        return credential;
}

static void append_target(const OperationMatch *match, StrBuf *out) {
        size_t path;

        FUZZ_ASSERT(operation_append_path(match, out) == 0);
        path = out->size;
        FUZZ_ASSERT(strbuf_append_byte(out, '?') == 0);
        FUZZ_ASSERT(operation_append_query(match, out) == 0);
        FUZZ_ASSERT(path > 0 && out->data[0] == '/');
}

/* Nothing that another reader could take for the end of a part, or decode once more. */
static void check_plain(const StrBuf *target) {
        FUZZ_ASSERT(!memchr(target->data, '%', target->size));
        for (size_t i = 0; i < target->size; i++)
                FUZZ_ASSERT(target->data[i] > ' ' && target->data[i] < 0x7f &&
                            !strchr("\\;#\"<>{}|^`", target->data[i]));
        FUZZ_ASSERT(!strstr(target->data, "//") && !strstr(target->data, "/../") &&
                    !strstr(target->data, "/./") && !strstr(target->data, "/..?") &&
                    !strstr(target->data, "/.?"));
}

static void check_match(const OperationMenu *menu, OperationSpan method,
                        const OperationMatch *match) {
        _cleanup_(operation_match_done) OperationMatch again = {};
        _cleanup_(strbuf_done) StrBuf first = STRBUF_NULL, second = STRBUF_NULL;
        OperationFault fault = {};

        append_target(match, &first);
        check_plain(&first);
        FUZZ_ASSERT(operation_match(menu, method, (OperationSpan){first.data, first.size}, &again,
                                    &fault) == 0);
        FUZZ_ASSERT(again.operation == match->operation);
        append_target(&again, &second);
        FUZZ_ASSERT(string_equal(first.data, second.data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(operation_match_done) OperationMatch match = {};
        const OperationMenu *menu = &fuzz_credential()->menu;
        const char *text = NULL, *space = memchr(data, ' ', size);
        OperationSpan method, target;
        OperationFault fault = {};
        int r;

        if (!space)
                return 0;
        method = (OperationSpan){(const char *) data, (size_t) (space - (const char *) data)};
        target = (OperationSpan){space + 1, size - method.size - 1};
        r = operation_match(menu, method, target, &match, &fault);
        FUZZ_ASSERT(r == 0 || r == OPERATION_E_NO_MATCH || r == OPERATION_E_QUERY ||
                    r == OPERATION_E_METHOD);
        FUZZ_ASSERT((r == 0) == (match.operation != NULL) && (r == 0) == (fault.text == NULL));
        FUZZ_ASSERT((r == OPERATION_E_QUERY) == (fault.operation != NULL));
        if (r == 0)
                check_match(menu, method, &match);
        (void) operation_check_body(&menu->items[0], method, (OperationSpan){}, target, &text);
        return 0;
}
