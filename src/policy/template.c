/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "policy/credential.h"
#include "policy/reader.h"
#include "policy/source.h"

#define POOL_MAX 1024U
/* The kernel takes one string of an environment up to MAX_ARG_STRLEN, with its NUL byte. */
#define ENV_ENTRY_MAX 131071U

static const char *const profile_names[] = {"default", "strict", "debug", NULL};
static const char *const etc_names[] = {"minimal", "root", NULL};
static const char *const on_hit_names[] = {"end", "refuse", NULL};

bool template_name_is_valid(const char *name) {
        return source_name_is_valid(name);
}

static void binds_free(TemplateBind *binds, size_t n) {
        for (size_t i = 0; i < n; i++) {
                free(binds[i].from);
                free(binds[i].to);
        }
        free(binds);
}

Template *template_free(Template *template) {
        if (!template)
                return NULL;

        free(template->name);
        free(template->file);
        free(template->description);
        free(template->root);
        binds_free(template->ro, template->n_ro);
        binds_free(template->rw, template->n_rw);
        strv_done(&template->hide);
        strv_done(&template->tmpfs);
        strv_done(&template->env);
        strv_done(&template->pass_env);
        free(template->seccomp);
        destination_list_done(&template->egress);
        strv_done(&template->operations);
        free(template);
        return NULL;
}

static int read_description(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_string(reader, node, &t->description);
}

static int read_root(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        if (json_node_string_equal(reader->doc, node, "host"))
                return 0;
        return reader_path(reader, node, &t->root);
}

/* --- paths --- */

/* A place in the crate: what every crate has of its own cannot be replaced. */
static int read_place(const Reader *reader, const JsonNode *node, char **ret_path) {
        static const char *const own[] = {"/proc", "/dev", "/sys"};
        _cleanup_(freep) char *path = NULL;
        int r;

        r = reader_path(reader, node, &path);
        if (r < 0)
                return error_trace(r);
        if (!path)
                return 0;

        for (size_t i = 0; i < ELEMENTSOF(own); i++) {
                const char *rest = string_after(path, own[i]);

                if (rest && (*rest == 0 || *rest == '/'))
                        return reader_fault_value(reader, node,
                                                  "lies in /proc, /dev or /sys, of which each "
                                                  "crate has its own form");
        }
        *ret_path = TAKE_PTR(path);
        return 0;
}

static int read_place_into(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *path = NULL;
        int r;

        r = read_place(reader, node, &path);
        if (r == 0 && path)
                r = strv_append(target, path);
        return error_trace(r);
}

static int read_hide(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_array(reader, node, read_place_into, &t->hide);
}

static int read_tmpfs(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_array(reader, node, read_place_into, &t->tmpfs);
}

/* --- binds --- */

static int read_bind_from(const Reader *reader, const JsonNode *node, void *target) {
        TemplateBind *bind = target;

        return reader_path(reader, node, &bind->from);
}

static int read_bind_to(const Reader *reader, const JsonNode *node, void *target) {
        TemplateBind *bind = target;

        return read_place(reader, node, &bind->to);
}

static const ReaderKey bind_keys[] = {
        {.name = "from", .read = read_bind_from},
        {.name = "to", .read = read_bind_to},
        {},
};

static int read_bind_object(const Reader *reader, const JsonNode *node, TemplateBind *bind) {
        size_t before = reader_n_faults(reader->diags);
        int r;

        r = reader_object(reader, node, bind_keys, bind);
        if (r < 0)
                return error_trace(r);
        if ((bind->from && bind->to) || reader_n_faults(reader->diags) > before)
                return 0;
        return reader_fault(reader, node, "\"%s\" is missing", bind->from ? "to" : "from");
}

static int read_bind_path(const Reader *reader, const JsonNode *node, TemplateBind *bind) {
        int r;

        if (node->type != JSON_NODE_STRING)
                return reader_fault_value(reader, node,
                                          "is neither a path nor {\"from\": PATH, \"to\": PATH}");

        r = read_place(reader, node, &bind->to);
        if (r < 0)
                return error_trace(r);
        if (bind->to) {
                bind->from = strdup(bind->to);
                if (!bind->from)
                        return error_origin(-ENOMEM);
        }
        return 0;
}

typedef struct BindList {
        TemplateBind **items;
        size_t *n_items;
} BindList;

/* reader_array() has bounded how many there can be. */
static int read_bind(const Reader *reader, const JsonNode *node, void *target) {
        BindList *list = target;
        TemplateBind *bind = &(*list->items)[*list->n_items];
        int r;

        r = node->type == JSON_NODE_OBJECT ? read_bind_object(reader, node, bind)
                                           : read_bind_path(reader, node, bind);
        (*list->n_items)++;
        return error_trace(r);
}

static int read_binds(const Reader *reader, const JsonNode *node, TemplateBind **items,
                      size_t *n_items) {
        BindList list = {.items = items, .n_items = n_items};

        *items = calloc(READER_ENTRIES_MAX, sizeof(TemplateBind));
        if (!*items)
                return error_origin(-ENOMEM);
        return error_trace(reader_array(reader, node, read_bind, &list));
}

static int read_ro(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return read_binds(reader, node, &t->ro, &t->n_ro);
}

static int read_rw(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return read_binds(reader, node, &t->rw, &t->n_rw);
}

/* --- environment --- */

static int read_env_entry(const Reader *reader, const JsonNode *node, StrV *env) {
        _cleanup_(freep) char *name = NULL, *value = NULL;
        int r;

        r = json_node_key(reader->doc, node, &name);
        if (r < 0)
                return error_trace(r);
        if (!reader_is_env_name(name))
                return reader_fault(reader, node,
                                    "no name of a variable: give letters, digits and _, no digit "
                                    "first");

        r = reader_string(reader, node, &value);
        if (r < 0)
                return error_trace(r);
        if (!value)
                return 0;
        if (strlen(name) + 1 + strlen(value) > ENV_ENTRY_MAX)
                return reader_fault(reader, node, "NAME=VALUE is longer than %u bytes",
                                    ENV_ENTRY_MAX);
        return error_trace(strv_appendf(env, "%s=%s", name, value));
}

static int read_env(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;
        int r;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({\"NAME\": \"VALUE\"})");
        if (node->n_children > READER_ENTRIES_MAX)
                return reader_fault(reader, node, "%zu variables are more than %u",
                                    node->n_children, READER_ENTRIES_MAX);

        for (const JsonNode *child = node->first; child; child = child->next) {
                r = read_env_entry(reader, child, &t->env);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int read_pass_name(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *name = NULL;
        int r;

        r = reader_string(reader, node, &name);
        if (r < 0)
                return error_trace(r);
        if (!name)
                return 0;
        if (!reader_is_env_name(name))
                return reader_fault_value(reader, node,
                                          "is no name of a variable: give letters, digits and _, "
                                          "no digit first");
        return error_trace(strv_append(target, name));
}

static int read_pass_env(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_array(reader, node, read_pass_name, &t->pass_env);
}

/* --- the rest --- */

static int read_etc(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, etc_names, &index);
        t->etc_minimal = index == 0;
        return error_trace(r);
}

static int read_seccomp(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;
        size_t index = 0;
        char *name;
        int r;

        r = reader_choice(reader, node, profile_names, &index);
        if (r < 0)
                return error_trace(r);
        name = strdup(profile_names[index]);
        if (!name)
                return error_origin(-ENOMEM);
        free(t->seccomp);
        t->seccomp = name;
        return 0;
}

static int read_limits(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return limits_parse_json(&t->limits, reader->doc, node, reader->file, reader->diags);
}

static int read_on_hit(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, on_hit_names, &index);
        if (r < 0)
                return error_trace(r);
        return error_trace(on_hit_from_string(on_hit_names[index], &t->on_hit));
}

static int read_egress(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return destination_list_read(reader, node, &t->egress);
}

static int read_operations(const Reader *reader, const JsonNode *node, void *target) {
        return credential_rules_read(reader, node, &((Template *) target)->operations);
}

static int read_pool_min(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_count(reader, node, 0, POOL_MAX, &t->pool_min);
}

static int read_pool_max(const Reader *reader, const JsonNode *node, void *target) {
        Template *t = target;

        return reader_count(reader, node, 1, POOL_MAX, &t->pool_max);
}

static const ReaderKey pool_keys[] = {
        {.name = "min", .read = read_pool_min},
        {.name = "max", .read = read_pool_max},
        {},
};

static const ReaderKey template_keys[] = {
        {.name = "description", .read = read_description},
        {.name = "root", .read = read_root},
        {.name = "ro", .read = read_ro},
        {.name = "rw", .read = read_rw},
        {.name = "hide", .read = read_hide},
        {.name = "tmpfs", .read = read_tmpfs},
        {.name = "etc", .read = read_etc},
        {.name = "env", .read = read_env},
        {.name = "pass_env", .read = read_pass_env},
        {.name = "seccomp", .read = read_seccomp},
        {.name = "limits", .read = read_limits},
        {.name = "on_hit", .read = read_on_hit},
        {.name = "egress", .read = read_egress},
        {.name = "operations", .read = read_operations},
        {.name = "pool", .keys = pool_keys},
        {},
};

int template_key_names(StrV *names) {
        return reader_key_names(template_keys, names);
}

/* --- what concerns several keys --- */

/* An entry of ro, rw, hide or tmpfs. */
typedef struct Place {
        const char *path;
        const char *list;
        size_t index;
        const JsonNode *node;
} Place;

static const char *entry_path(const Template *t, size_t list, size_t i) {
        switch (list) {
        case 0:
                return t->ro[i].to;
        case 1:
                return t->rw[i].to;
        case 2:
                return t->hide.items[i];
        default:
                return t->tmpfs.items[i];
        }
}

/* Only asked when all entries are right, so that they stand in the template as in the text. */
static size_t collect_places(const Reader *reader, const JsonNode *root, const Template *t,
                             Place *places) {
        static const char *const lists[] = {"ro", "rw", "hide", "tmpfs"};
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                const JsonNode *list = json_node_member(reader->doc, root, lists[i]);
                const JsonNode *node = list ? list->first : NULL;

                for (size_t k = 0; node; node = node->next, k++)
                        places[n++] = (Place){entry_path(t, i, k), lists[i], k, node};
        }
        return n;
}

/* Two entries for one place contradict each other. */
static int check_places(const Reader *reader, const JsonNode *root, const Template *t) {
        _cleanup_(freep) Place *places = NULL;
        size_t n;
        int r;

        n = t->n_ro + t->n_rw + t->hide.n_items + t->tmpfs.n_items;
        places = calloc(n + 1, sizeof(Place));
        if (!places)
                return error_origin(-ENOMEM);
        n = collect_places(reader, root, t, places);

        for (size_t i = 1; i < n; i++) {
                size_t j = 0;

                while (j < i && !string_equal(places[i].path, places[j].path))
                        j++;
                if (j == i)
                        continue;
                r = reader_fault(reader, places[i].node, "the same place as in %s[%zu]",
                                 places[j].list, places[j].index);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int check_whole(const Reader *reader, const JsonNode *root, const Template *t) {
        const JsonNode *etc = json_node_member(reader->doc, root, "etc");
        const JsonNode *pool = json_node_member(reader->doc, root, "pool");
        int r = 0;

        if (etc && !t->etc_minimal && !t->root)
                r = reader_fault(reader, etc,
                                 "\"root\" shows the root folder's own /etc, so \"root\" must name "
                                 "a folder, not the host");
        if (r == 0 && pool && t->pool_min > t->pool_max)
                r = reader_fault(reader, pool, "min (%zu) is more than max (%zu)", t->pool_min,
                                 t->pool_max);
        if (r == 0)
                r = check_places(reader, root, t);
        return error_trace(r);
}

static int template_new(const char *name, const char *file, Template **ret_template) {
        _cleanup_(template_freep) Template *t = NULL;

        t = calloc(1, sizeof(Template));
        if (!t)
                return error_origin(-ENOMEM);

        *t = (Template){.etc_minimal = true, .on_hit = ON_HIT_END, .pool_max = 8};
        limits_init(&t->limits);
        t->name = strdup(name);
        t->file = strdup(file);
        t->description = strdup("");
        t->seccomp = strdup(profile_names[0]);
        if (!t->name || !t->file || !t->description || !t->seccomp)
                return error_origin(-ENOMEM);

        *ret_template = TAKE_PTR(t);
        return 0;
}

int template_parse(const char *name, const char *file, const char *text, size_t size,
                   DiagList *diags, Template **ret_template) {
        _cleanup_(template_freep) Template *t = NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        size_t before = reader_n_faults(diags);
        Reader reader;
        int r;

        r = reader_document(file, text, size, diags, &doc);
        if (r < 0)
                return error_trace(r);
        if (!doc)
                return TEMPLATE_E_INVALID;

        r = template_new(name, file, &t);
        if (r < 0)
                return error_trace(r);

        reader = (Reader){.file = file, .doc = doc, .diags = diags};
        r = reader_object(&reader, json_doc_root(doc), template_keys, t);
        if (r == 0 && reader_n_faults(diags) == before)
                r = check_whole(&reader, json_doc_root(doc), t);
        if (r < 0)
                return error_trace(r);
        if (reader_n_faults(diags) > before)
                return TEMPLATE_E_INVALID;

        *ret_template = TAKE_PTR(t);
        return 0;
}
