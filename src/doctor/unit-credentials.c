/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/unit-credentials.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "doctor/read.h"

#define BLANKS " \t"

/* In order of falling precedence. */
static const char *const unit_folders[] = {"/etc/systemd/system", "/run/systemd/system",
                                           "/usr/local/lib/systemd/system",
                                           "/usr/lib/systemd/system", "/lib/systemd/system"};

static void credential_done(UnitCredential *credential) {
        free(credential->id);
        free(credential->source);
        *credential = (UnitCredential){};
}

void unit_credentials_done(UnitCredentials *credentials) {
        for (size_t i = 0; i < credentials->n_items; i++)
                credential_done(&credentials->items[i]);
        free(credentials->items);
        *credentials = UNIT_CREDENTIALS_NULL;
}

/* --- one file --- */

static const struct {
        const char *name;
        bool is_value, encrypted;
} keys[] = {
        {"LoadCredential", false, false},
        {"LoadCredentialEncrypted", false, true},
        {"SetCredential", true, false},
        {"SetCredentialEncrypted", true, true},
};

/* What was loaded is taken back together, and so is what was set. */
static void reset(UnitCredentials *credentials, bool values) {
        size_t n = 0;

        for (size_t i = 0; i < credentials->n_items; i++)
                if (values == !credentials->items[i].source)
                        credential_done(&credentials->items[i]);
                else
                        credentials->items[n++] = credentials->items[i];
        credentials->n_items = n;
}

static int add(UnitCredentials *credentials, UnitCredential *credential) {
        UnitCredential *items;

        for (size_t i = 0; i < credentials->n_items; i++)
                if (string_equal(credentials->items[i].id, credential->id) &&
                    !credentials->items[i].source == !credential->source) {
                        credential_done(&credentials->items[i]);
                        credentials->items[i] = *credential;
                        *credential = (UnitCredential){};
                        return 0;
                }
        items = reallocarray(credentials->items, credentials->n_items + 1, sizeof(*items));
        if (!items)
                return error_origin(-ENOMEM);
        credentials->items = items;
        items[credentials->n_items++] = *credential;
        *credential = (UnitCredential){};
        return 0;
}

/* "ID:SOURCE", or "ID", whose source has the same name. */
static int take_value(UnitCredentials *credentials, size_t key, const char *value) {
        _cleanup_(credential_done) UnitCredential credential = {.encrypted = keys[key].encrypted};
        size_t n = strcspn(value, ":");

        if (value[0] == 0) {
                reset(credentials, keys[key].is_value);
                return 0;
        }
        credential.id = strndup(value, n);
        if (!keys[key].is_value)
                credential.source = strdup(value[n] == ':' ? value + n + 1 : value);
        if (!credential.id || (!keys[key].is_value && !credential.source))
                return error_origin(-ENOMEM);
        return error_trace(add(credentials, &credential));
}

static int take_line(UnitCredentials *credentials, char *line) {
        char *value = strchr(line, '=');
        size_t n;

        if (!value)
                return 0;
        for (n = (size_t) (value - line); n > 0 && strchr(BLANKS, line[n - 1]); n--)
                ;
        value++;
        value += strspn(value, BLANKS);
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (strlen(keys[i].name) == n && strncmp(line, keys[i].name, n) == 0)
                        return take_value(credentials, i, value);
        return 0;
}

static void trim_end(char *line) {
        size_t n = strlen(line);

        while (n > 0 && strchr(BLANKS "\r", line[n - 1]))
                line[--n] = 0;
}

/* A line that ends with a backslash goes on in the next; what is joined stands in *joined. */
static int join(StrBuf *joined, char *line, bool *ret_goes_on) {
        size_t n = strlen(line);

        *ret_goes_on = n > 0 && line[n - 1] == '\\';
        if (*ret_goes_on)
                line[n - 1] = ' ';
        return strbuf_append_string(joined, line);
}

int unit_credentials_parse(const char *text, UnitCredentials *credentials) {
        _cleanup_(strbuf_done) StrBuf joined = STRBUF_NULL;
        _cleanup_(freep) char *copy = strdup(text);
        bool in_service = false, goes_on;
        char *rest = copy, *line;
        int r = 0;

        if (!copy)
                return error_origin(-ENOMEM);
        while (r == 0 && (line = strsep(&rest, "\n"))) {
                line += strspn(line, BLANKS);
                trim_end(line);
                if (line[0] == '#' || line[0] == ';')
                        continue;
                r = join(&joined, line, &goes_on);
                if (r < 0 || (goes_on && rest))
                        continue;
                if (joined.size == 0)
                        continue;
                trim_end(joined.data);
                if (joined.data[0] == '[')
                        in_service = string_equal(joined.data, "[Service]");
                else if (in_service)
                        r = take_line(credentials, joined.data);
                strbuf_consume(&joined, joined.size);
        }
        return error_trace(r);
}

/* --- the files of a unit --- */

static int parse_file(const char *path, UnitCredentials *credentials) {
        _cleanup_(freep) char *text = read_text(path);

        return text ? unit_credentials_parse(text, credentials) : error_origin(-ENOMEM);
}

static bool ends_with_conf(const char *name) {
        size_t n = strlen(name);

        return name[0] != '.' && n > strlen(".conf") &&
               string_equal(name + n - strlen(".conf"), ".conf");
}

static int list_drop_ins(const char *unit, StrV *names) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < ELEMENTSOF(unit_folders); i++) {
                char path[256];
                DIR *dir;

                (void) snprintf(path, sizeof(path), "%s/%s.d", unit_folders[i], unit);
                dir = opendir(path);
                if (!dir)
                        continue;
                for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
                        if (ends_with_conf(entry->d_name))
                                r = strv_append(names, entry->d_name);
                (void) closedir(dir);
        }
        return error_trace(r);
}

/* The file of that name in the folder of highest precedence. */
static int parse_first(const char *name, UnitCredentials *credentials, bool *ret_found) {
        *ret_found = false;
        for (size_t i = 0; i < ELEMENTSOF(unit_folders); i++) {
                _cleanup_(freep) char *path = NULL;

                if (asprintf(&path, "%s/%s", unit_folders[i], name) < 0) {
                        path = NULL;
                        return error_origin(-ENOMEM);
                }
                if (access(path, F_OK) < 0)
                        continue;
                *ret_found = true;
                return parse_file(path, credentials);
        }
        return 0;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

int unit_credentials_read(const char *unit, UnitCredentials *ret_credentials) {
        _cleanup_(unit_credentials_done) UnitCredentials credentials = UNIT_CREDENTIALS_NULL;
        _cleanup_(strv_done) StrV names = STRV_NULL;
        bool found;
        int r;

        r = parse_first(unit, &credentials, &found);
        if (r == 0 && found)
                r = list_drop_ins(unit, &names);
        if (names.n_items > 0)
                qsort(names.items, names.n_items, sizeof(char *), compare_names);
        for (size_t i = 0; r == 0 && i < names.n_items; i++) {
                _cleanup_(freep) char *name = NULL;

                if (i > 0 && string_equal(names.items[i], names.items[i - 1]))
                        continue;
                if (asprintf(&name, "%s.d/%s", unit, names.items[i]) < 0) {
                        name = NULL;
                        return error_origin(-ENOMEM);
                }
                r = parse_first(name, &credentials, &found);
        }
        if (r < 0)
                return error_trace(r);
        *ret_credentials = credentials;
        credentials = UNIT_CREDENTIALS_NULL;
        return 0;
}

/* --- one credential --- */

static bool is_folder(const char *path) {
        struct stat st;

        return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The part of name behind "ID_", or NULL. */
static const char *name_within(const UnitCredential *credential, const char *name) {
        const char *rest = string_after(name, credential->id);

        return rest && rest[0] == '_' && rest[1] ? rest + 1 : NULL;
}

/* A relative one lies in the first store that has it; where none has, the first is named. */
static int find_in_store(const UnitCredential *credential, char **ret_path) {
        static const char *const stores[] = {"/etc/credstore", "/run/credstore",
                                             "/usr/local/lib/credstore", "/usr/lib/credstore"};

        for (size_t i = 0; i <= ELEMENTSOF(stores); i++) {
                char *path = NULL;

                if (asprintf(&path, "%s%s/%s", stores[i % ELEMENTSOF(stores)],
                             credential->encrypted ? ".encrypted" : "", credential->source) < 0)
                        return error_origin(-ENOMEM);
                if (i == ELEMENTSOF(stores) || access(path, F_OK) == 0) {
                        *ret_path = path;
                        return 0;
                }
                free(path);
        }
        return 0;
}

static int locate(const UnitCredential *credential, const char *file, char **ret_path) {
        const char *source = credential->source;

        if (!source || strchr(source, '%'))
                return 0;
        if (source[0] != '/')
                return error_trace(find_in_store(credential, ret_path));
        if (asprintf(ret_path, "%s%s%s", source, file ? "/" : "", file ?: "") < 0) {
                *ret_path = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

int unit_credentials_find(const UnitCredentials *credentials, const char *name,
                          const UnitCredential **ret_credential, char **ret_path) {
        const char *file;

        *ret_credential = NULL;
        *ret_path = NULL;
        for (size_t i = 0; i < credentials->n_items; i++)
                if (string_equal(credentials->items[i].id, name)) {
                        *ret_credential = &credentials->items[i];
                        return locate(*ret_credential, NULL, ret_path);
                }
        for (size_t i = 0; i < credentials->n_items; i++) {
                file = name_within(&credentials->items[i], name);
                if (file && is_folder(credentials->items[i].source)) {
                        *ret_credential = &credentials->items[i];
                        return locate(*ret_credential, file, ret_path);
                }
        }
        return 0;
}
