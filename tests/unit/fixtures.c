/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/unit/fixtures.h"

#include <check.h>
#include <dirent.h>

#include "basic/json-scan.h"
#include "basic/macros.h"

char *fixtures_source_file(const char *name) {
        char *file = NULL;

        ck_assert_int_gt(
                asprintf(&file, "%s/%s", secure_getenv("AGENTCRATE_SOURCE_DIR") ?: ".", name), 0);
        return file;
}

char *fixtures_read(const char *file, size_t *ret_size) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        char chunk[4096];
        size_t n;
        FILE *f;

        f = fopen(file, "re");
        ck_assert_msg(f, "%s: cannot be opened", file);
        while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
                ck_assert_int_eq(strbuf_append(&buf, chunk, n), 0);
        ck_assert_int_eq(ferror(f), 0);
        fclose(f);

        if (ret_size)
                *ret_size = buf.size;
        return strbuf_steal(&buf);
}

static void append_diags(StrBuf *buf, const DiagList *diags) {
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags->items[i]);

                ck_assert_int_eq(strbuf_appendf(buf, "%s\n", line), 0);
        }
        if (diags->n_dropped > 0)
                ck_assert_int_eq(strbuf_appendf(buf, "(%zu more)\n", diags->n_dropped), 0);
        ck_assert_int_eq(strbuf_append_string(buf, ""), 0);
}

static void check_one(const char *folder, const char *entry, bool good, FixtureParse parse) {
        _cleanup_(freep) char *file = NULL, *text = NULL, *name = NULL, *expected = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf got = STRBUF_NULL;
        size_t size;
        int r;

        name = strndup(entry, strlen(entry) - strlen(".json"));
        ck_assert_int_gt(asprintf(&file, "%s/%s", folder, entry), 0);
        text = fixtures_read(file, &size);

        r = parse(name, entry, text, size, &diags);
        append_diags(&got, &diags);
        if (good) {
                ck_assert_msg(r == 0 && diags.n_items == 0, "%s: %s", entry, got.data);
                return;
        }

        ck_assert_msg(r > 0, "%s was accepted", entry);
        free(file);
        ck_assert_int_gt(asprintf(&file, "%s/%s.txt", folder, name), 0);
        expected = fixtures_read(file, NULL);
        ck_assert_msg(string_equal(got.data, expected), "%s: expected\n%sgot\n%s", entry, expected,
                      got.data);
}

static void check_folder(const char *sort, const char *kind, FixtureParse parse) {
        _cleanup_(freep) char *name = NULL, *folder = NULL;
        const struct dirent *entry;
        size_t n = 0;
        DIR *d;

        ck_assert_int_gt(asprintf(&name, "tests/unit/policy/%s/%s", sort, kind), 0);
        folder = fixtures_source_file(name);
        d = opendir(folder);
        ck_assert_msg(d, "%s: cannot be opened", folder);
        while ((entry = readdir(d))) {
                const char *dot = strrchr(entry->d_name, '.');

                if (!dot || !string_equal(dot, ".json"))
                        continue;
                check_one(folder, entry->d_name, string_equal(sort, "good"), parse);
                n++;
        }
        closedir(d);
        ck_assert_uint_gt(n, 2);
}

void fixtures_check_good(const char *kind, FixtureParse parse) {
        check_folder("good", kind, parse);
}

void fixtures_check_bad(const char *kind, FixtureParse parse) {
        check_folder("bad", kind, parse);
}

/* --- schemas --- */

static void collect_properties(const JsonDoc *doc, const JsonNode *schema, const char *outer,
                               StrV *names) {
        const JsonNode *properties = json_node_member(doc, schema, "properties");

        for (const JsonNode *node = properties ? properties->first : NULL; node;
             node = node->next) {
                _cleanup_(freep) char *key = NULL, *inner = NULL;

                ck_assert_int_eq(json_node_key(doc, node, &key), 0);
                ck_assert_msg(json_node_member(doc, node, "description"), "%s%s has no description",
                              outer, key);
                ck_assert_int_eq(strv_appendf(names, "%s%s", outer, key), 0);
                ck_assert_int_gt(asprintf(&inner, "%s%s.", outer, key), 0);
                collect_properties(doc, node, inner, names);
        }

        /* An object that lists its keys must refuse others, as the reader does. */
        if (properties) {
                const JsonNode *others = json_node_member(doc, schema, "additionalProperties");

                ck_assert_msg(others && others->type == JSON_NODE_FALSE, "%s allows unknown keys",
                              *outer ? outer : "the schema");
        }
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Sorted, one a line, so that a difference shows as a whole. */
static char *join(StrV *names) {
        StrBuf buf = STRBUF_NULL;

        qsort(names->items, names->n_items, sizeof(char *), compare_names);
        for (size_t i = 0; i < names->n_items; i++)
                ck_assert_int_eq(strbuf_appendf(&buf, "%s\n", names->items[i]), 0);
        return strbuf_steal(&buf);
}

void fixtures_check_schema_def(const char *name, const char *def, const StrV *keys) {
        _cleanup_(freep) char *file = fixtures_source_file(name), *text = NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        _cleanup_(strv_done) StrV properties = STRV_NULL, sorted = STRV_NULL;
        _cleanup_(freep) char *in_schema = NULL, *in_reader = NULL;
        const JsonNode *root;
        JsonError error = {};
        size_t size;

        text = fixtures_read(file, &size);
        ck_assert_msg(json_scan(text, size, &doc, &error) == 0, "%s:%u:%u: %s", name, error.line,
                      error.column, error.text);
        root = json_doc_root(doc);
        if (def)
                root = json_node_member(doc, json_node_member(doc, root, "$defs"), def);
        ck_assert_ptr_nonnull(root);
        collect_properties(doc, root, "", &properties);
        ck_assert_int_eq(strv_copy(&sorted, keys), 0);
        in_schema = join(&properties);
        in_reader = join(&sorted);
        ck_assert_str_eq(in_schema, in_reader);
}

void fixtures_check_schema(const char *name, const StrV *keys) {
        fixtures_check_schema_def(name, NULL, keys);
}
