/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/credential.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "basic/parse-util.h"

#define HOST_MAX 253U
#define LABEL_MAX 63U
#define HTTPS_PORT 443U

void credential_upstream_done(CredentialUpstream *upstream) {
        free(upstream->host);
        free(upstream->path);
        *upstream = (CredentialUpstream){};
}

Credential *credential_free(Credential *credential) {
        if (!credential)
                return NULL;

        free(credential->name);
        free(credential->file);
        free(credential->description);
        free(credential->upstream_text);
        credential_upstream_done(&credential->upstream);
        strv_done(&credential->addresses);
        free(credential->ca);
        free(credential->ca_text);
        free(credential->secret);
        attach_done(&credential->attach);
        strv_done(&credential->pins);
        strv_done(&credential->headers);
        strv_done(&credential->env);
        operation_menu_done(&credential->menu);
        free(credential);
        return NULL;
}

/* What it may be called as a file, and as what systemd calls a credential. */
bool credential_secret_name_is_valid(const char *name) {
        size_t n =
                strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

        return n > 0 && n <= CREDENTIAL_SECRET_NAME_MAX && name[n] == 0 && name[0] != '.';
}

/* --- upstream --- */

/* A name, and no address: certificates are of names. The last label has a letter. */
static bool is_host(const char *text, size_t size) {
        size_t from = 0;
        bool letter = false;

        if (size == 0 || size > HOST_MAX)
                return false;
        for (size_t i = 0; i <= size; i++) {
                char c = i < size ? text[i] : '.';

                if (c == '.') {
                        if (i == from || i - from > LABEL_MAX || text[from] == '-' ||
                            text[i - 1] == '-')
                                return false;
                        if (i < size)
                                letter = false;
                        from = i + 1;
                } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                        letter = true;
                else if (!((c >= '0' && c <= '9') || c == '-'))
                        return false;
        }
        return letter;
}

static bool is_upstream_path(const char *path) {
        const char *part = path;

        while (*part) {
                size_t n = strcspn(++part, "/");

                if (n == 0 || (n <= 2 && strspn(part, ".") >= n))
                        return false;
                if (strspn(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
                                 "~!$&'()*+,=:@") < n)
                        return false;
                part += n;
        }
        return true;
}

static int refuse(const char *text, const char **ret_text) {
        *ret_text = text;
        return CREDENTIAL_E_INVALID;
}

static int parse_port(const char *text, size_t size, uint16_t *ret_port, const char **ret_text) {
        _cleanup_(freep) char *port = strndup(text, size);
        uint64_t value = 0;

        if (!port)
                return error_origin(-ENOMEM);
        if (parse_uint64(port, &value) != 0 || value == 0 || value > UINT16_MAX)
                return refuse("has a port that is no number from 1 to 65535", ret_text);
        *ret_port = (uint16_t) value;
        return 0;
}

static void lower(char *text) {
        for (; *text; text++)
                if (*text >= 'A' && *text <= 'Z')
                        *text = (char) (*text - 'A' + 'a');
}

int credential_upstream_parse(const char *text, CredentialUpstream *ret_upstream,
                              const char **ret_text) {
        _cleanup_(credential_upstream_done) CredentialUpstream upstream = {.port = HTTPS_PORT};
        const char *host = string_after(text, "https://");
        size_t n, size;
        int r;

        if (string_after(text, "http://"))
                return refuse("would carry the secret in clear text: give https://", ret_text);
        if (!host)
                return refuse("is no https://HOST", ret_text);
        size = strcspn(host, "/");
        n = strcspn(host, ":/");
        if (n < size) {
                r = parse_port(host + n + 1, size - n - 1, &upstream.port, ret_text);
                if (r != 0)
                        return r;
        }
        if (!is_host(host, n))
                return refuse("has no host's name behind https://: give a name with letters, "
                              "digits, - and ., no address and no user",
                              ret_text);

        upstream.host = strndup(host, n);
        host += size;
        if (string_equal(host, "/"))
                host++;
        upstream.path = strdup(host);
        if (!upstream.host || !upstream.path)
                return error_origin(-ENOMEM);
        if (!is_upstream_path(upstream.path))
                return refuse("has a path that is not in its plain form: words and single slashes, "
                              "none at the end, no ? and no #",
                              ret_text);
        lower(upstream.host);
        *ret_upstream = upstream;
        upstream = (CredentialUpstream){};
        return 0;
}

/* --- rules --- */

static bool is_credential_name(const char *text, size_t size) {
        if (size == 0 || size > 32 || text[0] == '-' || text[size - 1] == '-')
                return false;
        for (size_t i = 0; i < size; i++)
                if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') ||
                      text[i] == '-'))
                        return false;
        return true;
}

bool credential_name_is_valid(const char *name) {
        return is_credential_name(name, strlen(name));
}

bool credential_operation_is_valid(const char *text) {
        const char *dot = strchr(text, '.');

        return dot && is_credential_name(text, (size_t) (dot - text)) &&
               operation_name_is_valid(dot + 1);
}

bool credential_rule_is_valid(const char *text) {
        const char *dot = strchr(text, '.');

        if (string_equal(text, "*") || credential_operation_is_valid(text))
                return true;
        return dot && is_credential_name(text, (size_t) (dot - text)) && string_equal(dot, ".*");
}

bool credential_rule_names(const char *rule, const char *credential) {
        const char *rest = string_after(rule, credential);

        return string_equal(rule, "*") || (rest && *rest == '.');
}

bool credential_rules_cover(const StrV *rules, const char *credential, const char *operation) {
        for (size_t i = 0; i < rules->n_items; i++) {
                const char *rest = string_after(rules->items[i], credential);

                if (string_equal(rules->items[i], "*") ||
                    (rest && *rest == '.' &&
                     (string_equal(rest, ".*") || string_equal(rest + 1, operation))))
                        return true;
        }
        return false;
}

size_t credential_n_covered(const Credential *credential, const StrV *rules) {
        size_t n = 0;

        for (size_t i = 0; i < credential->menu.n_items; i++)
                n += credential_rules_cover(rules, credential->name,
                                            credential->menu.items[i].name);
        return n;
}

bool credential_rules_cover_rule(const StrV *rules, const char *rule) {
        const char *dot = strchr(rule, '.');

        for (size_t i = 0; i < rules->n_items; i++) {
                const char *own = rules->items[i];

                if (string_equal(own, "*") || string_equal(own, rule))
                        return true;
                if (dot && strncmp(own, rule, (size_t) (dot - rule) + 1) == 0 &&
                    string_equal(own + (dot - rule), ".*"))
                        return true;
        }
        return false;
}

static int read_rule(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        StrV *rules = target;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (!credential_rule_is_valid(text))
                return error_trace(reader_fault_value(
                        reader, node,
                        "names no operation: give \"CREDENTIAL.OPERATION\", \"CREDENTIAL.*\" or "
                        "\"*\""));
        for (size_t i = 0; i < rules->n_items; i++)
                if (string_equal(rules->items[i], text))
                        return error_trace(reader_fault_value(
                                reader, node, "stands twice in this list: take one away"));
        return error_trace(strv_append(rules, text));
}

int credential_rules_read(const Reader *reader, const JsonNode *node, StrV *rules) {
        return reader_array(reader, node, read_rule, rules);
}
