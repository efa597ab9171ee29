/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/policy-files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/own-folders.h"
#include "basic/utf8.h"
#include "policy/reader.h"

/* --- folders --- */

int policy_instance_dirs(PolicyInstance instance, StrV *ret_dirs) {
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        const char *data = secure_getenv("AGENTCRATE_DATA_DIR");
        _cleanup_(freep) char *config = NULL;
        int r;

        r = strv_append(&dirs, string_empty(data) ? DATADIR : data);
        if (r == 0)
                r = strv_append(&dirs, SYSCONFDIR);
        if (r == 0 && instance == POLICY_USER)
                r = own_config_folder(&config);
        if (r == 0 && config)
                r = strv_append(&dirs, config);
        if (r < 0)
                return error_trace(r);

        *ret_dirs = dirs;
        dirs = STRV_NULL;
        return 0;
}

int policy_default_dirs(StrV *ret_dirs) {
        return policy_instance_dirs(POLICY_USER, ret_dirs);
}

/* The text of the file of that name in the folder of highest precedence that has one. */
int policy_read_newest(const PolicyFiles *files, const char *name, DiagList *diags, char **ret_file,
                       char **ret_text, size_t *ret_size) {
        for (size_t i = files->dirs.n_items; i > 0; i--) {
                _cleanup_(freep) char *file = NULL;
                int r;

                if (asprintf(&file, "%s/%s", files->dirs.items[i - 1], name) < 0) {
                        file = NULL;
                        return error_origin(-ENOMEM);
                }
                r = source_read(file, files->trust, diags, ret_text, ret_size);
                if (r == SOURCE_E_MISSING)
                        continue;
                if (r == 0)
                        *ret_file = TAKE_PTR(file);
                return r;
        }
        return SOURCE_E_MISSING;
}

/* *ret_template stays NULL if the file has faults, or if there is none. */
int policy_read_template(const PolicyFiles *files, const char *name, DiagList *diags,
                         Template **ret_template) {
        _cleanup_(freep) char *file = NULL, *text = NULL, *entry = NULL;
        size_t size;
        int r;

        if (asprintf(&entry, "templates.d/%s.json", name) < 0) {
                entry = NULL;
                return error_origin(-ENOMEM);
        }
        r = policy_read_newest(files, entry, diags, &file, &text, &size);
        if (r == 0)
                r = template_parse(name, file, text, size, diags, ret_template);
        return r < 0 ? error_trace(r) : 0;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

int policy_list(const PolicyFiles *files, const SourceFolder *folder, DiagList *diags,
                StrV *ret_names) {
        _cleanup_(strv_done) StrV all = STRV_NULL;
        int r = 0;

        for (size_t i = 0; i < files->dirs.n_items; i++) {
                r = source_list(files->dirs.items[i], folder, files->trust, diags, &all);
                if (r < 0)
                        return error_trace(r);
        }
        /* A folder that is missing, as the last one may be, is no outcome of ours. */
        r = 0;

        if (all.n_items > 0)
                qsort(all.items, all.n_items, sizeof(char *), compare_names);
        for (size_t i = 0; i < all.n_items && r >= 0; i++)
                if (i == 0 || !string_equal(all.items[i], all.items[i - 1]))
                        r = strv_append(ret_names, all.items[i]);
        return error_trace(r);
}

/* --- agentcrated.json --- */

int policy_read_config(const PolicyFiles *files, DiagList *diags, Config *config) {
        _cleanup_(freep) char *file = NULL, *text = NULL;
        size_t size;
        int r;

        r = policy_read_newest(files, "agentcrated.json", diags, &file, &text, &size);
        if (r == 0)
                r = config_parse(file, text, size, diags, config);
        return r < 0 ? error_trace(r) : 0;
}

/* --- one template --- */

int policy_explain_empty(const StrV *dirs, char **ret_text) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&text, "no templates in ");
        for (size_t i = 0; i < dirs->n_items && r >= 0; i++)
                r = strbuf_appendf(&text, "%s%s/templates.d", i > 0 ? ", " : "", dirs->items[i]);
        if (r >= 0)
                r = strbuf_append_string(&text, "; " POLICY_EMPTY_REMEDY);
        if (r < 0)
                return error_trace(r);
        *ret_text = strbuf_steal(&text);
        return *ret_text ? 0 : error_origin(-ENOMEM);
}

static int fault_no_template(const StrV *dirs, const char *name, DiagList *diags) {
        const PolicyFiles files = {.dirs = *dirs};
        _cleanup_(freep) char *quoted = diag_quote(name);
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(diag_list_done) DiagList ignored = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV names = STRV_NULL;
        _cleanup_(freep) char *empty = NULL;
        int r;

        if (!quoted)
                return error_origin(-ENOMEM);
        r = policy_list(&files, &source_templates, &ignored, &names);
        if (r == 0 && names.n_items == 0) {
                r = policy_explain_empty(dirs, &empty);
                if (r < 0)
                        return error_trace(r);
                return error_trace(diag_add(diags, NULL, 0, 0, NULL, "there is no template %s: %s",
                                            quoted, empty));
        }
        for (size_t i = 0; i < names.n_items && r == 0; i++)
                r = strbuf_appendf(&known, "%s%s", i == 0 ? "; there are " : ", ", names.items[i]);
        if (r == 0)
                r = diag_add(diags, "templates.d", 0, 0, NULL, "no template is named %s%s", quoted,
                             known.data);
        return error_trace(r);
}

int policy_load_config(const StrV *dirs, DiagList *diags, Config *config) {
        const PolicyFiles files = {.dirs = *dirs};
        size_t before = reader_n_faults(diags);
        int r;

        r = policy_read_config(&files, diags, config);
        if (r < 0)
                return error_trace(r);
        return reader_n_faults(diags) == before ? 0 : POLICY_E_INVALID;
}

int policy_load_template(const StrV *dirs, const char *name, DiagList *diags,
                         Template **ret_template) {
        const PolicyFiles files = {.dirs = *dirs};
        size_t before = reader_n_faults(diags);
        Template *template = NULL;
        int r = 0;

        if (template_name_is_valid(name))
                r = policy_read_template(&files, name, diags, &template);
        if (r == 0 && !template && reader_n_faults(diags) == before)
                r = fault_no_template(dirs, name, diags);
        if (r < 0)
                return error_trace(r);
        if (!template)
                return POLICY_E_INVALID;

        *ret_template = template;
        return 0;
}

/* --- credentials --- */

/* Read with the policy, so that what is trusted changes when the policy does. */
static int read_certificates(const PolicyFiles *files, DiagList *diags, Credential *credential) {
        size_t size;
        int r;

        if (!credential->ca)
                return 0;
        r = source_read(credential->ca, files->trust, diags, &credential->ca_text, &size);
        if (r == SOURCE_E_MISSING)
                r = diag_add(diags, credential->file, 0, 0, "ca", "there is no file %s",
                             credential->ca);
        else if (r == 0 && (memchr(credential->ca_text, 0, size) ||
                            !utf8_is_valid(credential->ca_text, size)))
                r = diag_add(diags, credential->file, 0, 0, "ca",
                             "%s is no text; give a file of certificates in PEM", credential->ca);
        return r < 0 ? error_trace(r) : 0;
}

int policy_read_credential(const PolicyFiles *files, const char *name, DiagList *diags,
                           Credential **ret_credential) {
        _cleanup_(freep) char *file = NULL, *text = NULL, *entry = NULL;
        size_t size;
        int r;

        if (asprintf(&entry, "%s/%s.json", source_credentials.name, name) < 0) {
                entry = NULL;
                return error_origin(-ENOMEM);
        }
        r = policy_read_newest(files, entry, diags, &file, &text, &size);
        if (r == 0)
                r = credential_parse(name, file, text, size, diags, ret_credential);
        if (r == 0)
                r = read_certificates(files, diags, *ret_credential);
        return r < 0 ? error_trace(r) : 0;
}

/* Whoever asked has mistyped the name, or has put the file elsewhere: both can be seen then. */
static int fault_no_credential(const PolicyFiles *files, const char *name, const char *rule,
                               DiagList *diags) {
        _cleanup_(strbuf_done) StrBuf folders = STRBUF_NULL;
        int r = 0;

        for (size_t i = 0; i < files->dirs.n_items && r == 0; i++)
                r = strbuf_appendf(&folders, "%s%s", i > 0 ? ", " : "", files->dirs.items[i]);
        if (r < 0)
                return error_trace(r);
        return error_trace(diag_add(diags, source_credentials.name, 0, 0, NULL,
                                    "no credential is named %s, which %s asks for; %s/%s.json "
                                    "would be it, in one of %s",
                                    name, rule, source_credentials.name, name, folders.data));
}

static int fault_no_operation(const Credential *credential, const char *name, const char *rule,
                              DiagList *diags) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        int r = 0;

        for (size_t i = 0; i < credential->menu.n_items && r == 0; i++)
                r = strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "",
                                   credential->menu.items[i].name);
        if (r < 0)
                return error_trace(r);
        return error_trace(diag_add(diags, credential->file, 0, 0, "operations",
                                    "there is no operation %s, which %s asks for; there are: %s",
                                    name, rule, known.data ?: "none"));
}

static int load_named(const PolicyFiles *files, const char *rule, DiagList *diags,
                      Credential **credentials, size_t *n) {
        size_t size = strcspn(rule, "."), before = reader_n_faults(diags);
        _cleanup_(freep) char *name = strndup(rule, size);
        char *items[] = {(char *) rule, NULL};
        const StrV one = {.items = items, .n_items = 1};
        Credential *credential = NULL;
        int r = 0;

        if (!name)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < *n; i++)
                if (string_equal(credentials[i]->name, name))
                        credential = credentials[i];
        if (!credential) {
                r = policy_read_credential(files, name, diags, &credential);
                if (r < 0)
                        return error_trace(r);
                if (credential)
                        credentials[(*n)++] = credential;
        }
        if (reader_n_faults(diags) > before)
                return 0;
        if (!credential)
                r = fault_no_credential(files, name, rule, diags);
        else if (credential_n_covered(credential, &one) == 0)
                r = fault_no_operation(credential, rule + size + 1, rule, diags);
        return error_trace(r);
}

/* A rule for all is one for each. */
static int spread_rules(const PolicyFiles *files, const StrV *rules, DiagList *diags,
                        StrV *ret_rules) {
        _cleanup_(strv_done) StrV names = STRV_NULL;
        int r = 0;

        for (size_t i = 0; i < rules->n_items && r == 0; i++) {
                if (!string_equal(rules->items[i], "*")) {
                        r = strv_append(ret_rules, rules->items[i]);
                        continue;
                }
                r = policy_list(files, &source_credentials, diags, &names);
                for (size_t k = 0; k < names.n_items && r == 0; k++)
                        r = strv_appendf(ret_rules, "%s.*", names.items[k]);
        }
        return error_trace(r);
}

int policy_load_credentials(const StrV *dirs, const StrV *rules, DiagList *diags,
                            Credential ***ret_credentials, size_t *ret_n) {
        const PolicyFiles files = {.dirs = *dirs};
        _cleanup_(strv_done) StrV all = STRV_NULL;
        size_t n = 0, before = reader_n_faults(diags);
        Credential **credentials;
        int r;

        r = spread_rules(&files, rules, diags, &all);
        if (r < 0)
                return error_trace(r);
        credentials = calloc(all.n_items + 1, sizeof(*credentials));
        if (!credentials)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < all.n_items && r == 0; i++)
                r = load_named(&files, all.items[i], diags, credentials, &n);
        if (r == 0 && reader_n_faults(diags) == before) {
                *ret_credentials = credentials;
                *ret_n = n;
                return 0;
        }
        while (n > 0)
                (void) credential_free(credentials[--n]);
        free(credentials);
        return r < 0 ? error_trace(r) : POLICY_E_INVALID;
}
