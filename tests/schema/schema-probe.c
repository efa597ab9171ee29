/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads a file of the JSON Schema test suite on standard input and prints a line of JSON for each
 * of its groups: {"faults": [TEXT, …]} of a schema that was not loaded, or {"reasons": [TEXT or
 * null, …]} with one entry for each test. The numbers of a file get here as the file has them.
 */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "basic/string-util.h"
#include "schema/schema.h"

static int fail(const char *text) {
        fprintf(stderr, "schema-probe: %s\n", text);
        return 1;
}

static int read_input(StrBuf *text) {
        char chunk[4096];
        size_t n;

        while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
                if (strbuf_append(text, chunk, n) < 0)
                        return -ENOMEM;
        return ferror(stdin) ? -EIO : 0;
}

static json_t *faults_of(const DiagList *diags) {
        json_t *list = json_array();

        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *text = diag_format(&diags->items[i]);

                (void) json_array_append_new(list, json_string(text));
        }
        return list;
}

static json_t *check_tests(const Schema *schema, const JsonDoc *doc, const JsonNode *tests) {
        json_t *list = json_array();

        for (const JsonNode *test = tests->first; test; test = test->next) {
                _cleanup_(schema_reason_done) SchemaReason reason = SCHEMA_REASON_NULL;
                _cleanup_(freep) char *text = NULL;
                int r;

                r = schema_check(schema, doc, json_node_member(doc, test, "data"), &reason);
                if (r == SCHEMA_E_REFUSED)
                        text = schema_reason_text(&reason, "the value");
                (void) json_array_append_new(list, r == 0 ? json_null()
                                                   : text ? json_string(text)
                                                          : json_integer(r));
        }
        return list;
}

static int check_group(const JsonDoc *doc, const JsonNode *group) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(schema_freep) Schema *schema = NULL;
        const JsonNode *node = json_node_member(doc, group, "schema");
        const JsonNode *tests = json_node_member(doc, group, "tests");
        json_t *line;
        int r;

        if (!node || !tests)
                return fail("a group has no schema or no tests");
        r = schema_compile(doc, node, NULL, &diags, &schema);
        if (r < 0)
                return fail("a schema could not be compiled");

        line = r == 0 ? json_pack("{s:o}", "reasons", check_tests(schema, doc, tests))
                      : json_pack("{s:o}", "faults", faults_of(&diags));
        r = json_dumpf(line, stdout, JSON_COMPACT);
        json_decref(line);
        return r < 0 || putchar('\n') == EOF ? fail("cannot write") : 0;
}

int main(void) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        int r = 0;

        if (read_input(&text) < 0)
                return fail("cannot read the suite");
        if (text.size == 0 || json_scan(text.data, text.size, &doc, &error) != 0)
                return fail("the suite is no JSON");
        for (const JsonNode *group = json_doc_root(doc)->first; group && r == 0;
             group = group->next)
                r = check_group(doc, group);
        return r;
}
