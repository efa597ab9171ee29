/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A schema and, behind the first line, a value. Whatever they are: a schema is compiled or has
 * diagnostics with a place; a value is allowed or has a reason with a place; "not" turns the one
 * into the other, but never a check that was given up; and the value's schema, narrowed, is JSON,
 * and stays as it is when it is narrowed again.
 */

#include "tests/fuzz/fuzz.h"

#include "basic/string-util.h"
#include "schema/schema.h"

#define FILE_NAME "f.json"

static void check_diags(const DiagList *diags) {
        FUZZ_ASSERT(diags->n_items > 0);
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *text = diag_format(&diags->items[i]);

                FUZZ_ASSERT(text && diags->items[i].line > 0 && diags->items[i].column > 0);
                FUZZ_ASSERT(string_equal(diags->items[i].file, FILE_NAME));
        }
}

static Schema *compile(const char *text, size_t size) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Schema *schema = NULL;
        JsonError error;
        int r;

        if (json_scan(text, size, &doc, &error) != 0)
                return NULL;
        r = schema_compile(doc, json_doc_root(doc), FILE_NAME, &diags, &schema);
        FUZZ_ASSERT(r == 0 || r == SCHEMA_E_INVALID);
        FUZZ_ASSERT((r == 0) == (schema != NULL));
        if (r != 0)
                check_diags(&diags);
        else
                FUZZ_ASSERT(diags.n_items == 0);
        return schema;
}

/* 0 or SCHEMA_E_REFUSED; *ret_sure is false if it was given up. */
static int check(const Schema *schema, const JsonDoc *doc, bool *ret_sure) {
        _cleanup_(schema_reason_done) SchemaReason reason = SCHEMA_REASON_NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = schema_check(schema, doc, doc ? json_doc_root(doc) : NULL, &reason);
        FUZZ_ASSERT(r == 0 || r == SCHEMA_E_REFUSED);
        *ret_sure = true;
        if (r == 0)
                return 0;

        text = schema_reason_text(&reason, "arguments");
        FUZZ_ASSERT(text && reason.line > 0 && reason.column > 0 && reason.keyword);
        FUZZ_ASSERT(strlen(reason.path) <= 4 * DIAG_EXCERPT_MAX + 3);
        *ret_sure = !strstr(reason.allowed, "than one call may") &&
                    !strstr(reason.allowed, "be less deeply") &&
                    !strstr(reason.allowed, "have an exponent") &&
                    !strstr(reason.allowed, "have at most 65536 bytes");
        return r;
}

static void check_opposite(const char *text, size_t size, const JsonDoc *doc, int wanted) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        _cleanup_(schema_freep) Schema *schema = NULL;
        bool sure;

        /* A reference from the root would lead elsewhere. */
        if (memmem(text, size, "ref", 3) || memchr(text, '\\', size))
                return;
        FUZZ_ASSERT(strbuf_append_string(&buf, "{\"not\":") == 0);
        FUZZ_ASSERT(strbuf_append(&buf, text, size) == 0 && strbuf_append_byte(&buf, '}') == 0);
        schema = compile(buf.data, buf.size);
        if (schema && check(schema, doc, &sure) == wanted)
                FUZZ_ASSERT(!sure);
}

static void check_narrow(const Schema *schema, const char *listed, size_t size) {
        _cleanup_(strbuf_done) StrBuf once = STRBUF_NULL, twice = STRBUF_NULL;
        int r;

        r = schema_narrow(schema, listed, size, &once);
        FUZZ_ASSERT(r == 0 || r == -EINVAL);
        if (r < 0)
                return;
        FUZZ_ASSERT(memchr(listed, '\n', size) || !memchr(once.data, '\n', once.size));
        FUZZ_ASSERT(schema_narrow(schema, once.data, once.size, &twice) == 0);
        FUZZ_ASSERT(twice.size == once.size && memcmp(twice.data, once.data, once.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *) data, *line = memchr(data, '\n', size);
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(schema_freep) Schema *schema = NULL;
        const char *value = line ? line + 1 : text + size;
        size_t schema_size = line ? (size_t) (line - text) : size;
        size_t value_size = (size_t) (text + size - value);
        JsonError error;
        bool sure;
        int r;

        schema = compile(text, schema_size);
        if (!schema)
                return 0;

        if (value_size > 0 && json_scan(value, value_size, &doc, &error) != 0)
                return 0;
        r = check(schema, doc, &sure);
        if (sure)
                check_opposite(text, schema_size, doc, r);
        if (value_size > 0)
                check_narrow(schema, value, value_size);
        return 0;
}
