/* SPDX-License-Identifier: Apache-2.0 */

/* From the text of credentials.d/NAME.json to a Credential. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "policy/credential.h"
#include "policy/operation-read.h"

#define ENV_VALUE_MAX 4096U

/* --- where to --- */

static int read_description(const Reader *reader, const JsonNode *node, void *target) {
        return reader_string(reader, node, &((Credential *) target)->description);
}

static int read_upstream(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        Credential *c = target;
        const char *wrong = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        r = credential_upstream_parse(text, &c->upstream, &wrong);
        if (r == CREDENTIAL_E_INVALID)
                return error_trace(reader_fault_value(reader, node, wrong));
        c->upstream_text = TAKE_PTR(text);
        return error_trace(r);
}

/* A range, or one address alone. */
static bool is_cidr(const char *text) {
        _cleanup_(freep) char *address = strdup(text);
        char *slash = address ? strchr(address, '/') : NULL;
        unsigned char bytes[sizeof(struct in6_addr)];
        unsigned bits = 0;
        size_t n = 0;

        if (!address)
                return false;
        if (slash) {
                *slash++ = 0;
                n = strspn(slash, "0123456789");
                if (n == 0 || n > 3 || slash[n] || (slash[0] == '0' && n > 1))
                        return false;
        }
        for (size_t i = 0; i < n; i++)
                bits = bits * 10 + (unsigned) (slash[i] - '0');
        if (inet_pton(AF_INET, address, bytes) == 1)
                n = 4;
        else if (inet_pton(AF_INET6, address, bytes) == 1)
                n = 16;
        else
                return false;
        if (!slash)
                return true;
        if (bits > n * 8)
                return false;
        for (size_t i = bits; i < n * 8; i++)
                if (bytes[i / 8] & 0x80U >> i % 8)
                        return false;
        return true;
}

static int read_address(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (!is_cidr(text))
                return error_trace(reader_fault_value(
                        reader, node,
                        "is no range of addresses: give one such as \"10.1.0.0/16\" or "
                        "\"fd12::/32\", with nothing set behind its prefix, or one address"));
        return error_trace(strv_append(target, text));
}

static int read_addresses(const Reader *reader, const JsonNode *node, void *target) {
        return reader_array(reader, node, read_address, &((Credential *) target)->addresses);
}

static int read_ca(const Reader *reader, const JsonNode *node, void *target) {
        return reader_path(reader, node, &((Credential *) target)->ca);
}

/* Base64 of 32 bytes: 43 characters, of which the last has two bits that are not used, and a =. */
static bool is_pin(const char *text) {
        static const char letters[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *digest = string_after(text, "sha256/");

        return digest && strlen(digest) == 44 && strspn(digest, letters) == 43 &&
               digest[43] == '=' && (strchr(letters, digest[42]) - letters) % 4 == 0;
}

static int read_pin(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (!is_pin(text))
                return error_trace(reader_fault_value(
                        reader, node,
                        "is no pin: give \"sha256/\" and the base64 of the SHA-256 of the public "
                        "key (44 characters)"));
        return error_trace(strv_append(target, text));
}

static int read_pins(const Reader *reader, const JsonNode *node, void *target) {
        if (node->type == JSON_NODE_ARRAY && node->n_children > CREDENTIAL_PINS_MAX)
                return reader_fault(reader, node, "%zu pins are more than %u", node->n_children,
                                    CREDENTIAL_PINS_MAX);
        return reader_array(reader, node, read_pin, &((Credential *) target)->pins);
}

/* --- the secret --- */

static int read_secret(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        Credential *c = target;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        /* It may be the secret itself that somebody has put there: it is not repeated. */
        if (!credential_secret_name_is_valid(text))
                return error_trace(reader_fault(
                        reader, node,
                        "is the name of a systemd credential or of a file below credentials/, 1 to "
                        "64 of letters, digits, _, . and -, no . first; the secret itself does not "
                        "stand here"));
        free(c->secret);
        c->secret = TAKE_PTR(text);
        return 0;
}

static int read_attach(const Reader *reader, const JsonNode *node, void *target) {
        return attach_read(reader, node, &((Credential *) target)->attach);
}

/* --- the job's side --- */

static int read_variable(const Reader *reader, const JsonNode *node, StrV *env) {
        _cleanup_(freep) char *name = NULL, *value = NULL;
        int r;

        r = json_node_key(reader->doc, node, &name);
        if (r == 0)
                r = reader_string(reader, node, &value);
        if (r < 0)
                return error_trace(r);
        if (!reader_is_env_name(name))
                return error_trace(reader_fault(
                        reader, node,
                        "is no name of a variable: give letters, digits and _, no digit first"));
        if (!value)
                return 0;
        if (strlen(value) > ENV_VALUE_MAX)
                return error_trace(reader_fault(reader, node, "is longer than 4096 bytes"));
        return error_trace(strv_env_set(env, name, value));
}

static int read_env(const Reader *reader, const JsonNode *node, void *target) {
        Credential *c = target;
        int r = 0;

        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node, "is no object ({\"NAME\": \"VALUE\"})");
        if (node->n_children > READER_ENTRIES_MAX)
                return reader_fault(reader, node, "%zu variables are more than %u",
                                    node->n_children, READER_ENTRIES_MAX);
        for (const JsonNode *child = node->first; child && r == 0; child = child->next)
                r = read_variable(reader, child, &c->env);
        return error_trace(r);
}

/* A job's own secrets stay with it, and ours cannot stand beside another's. */
static bool is_passable(const char *name) {
        static const char *const never[] = {"authorization",       "cookie", "forwarded",
                                            "proxy-authorization", "range",  "accept-encoding"};

        if (!attach_is_header_name(name) || strncasecmp(name, "x-forwarded-", 12) == 0)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(never); i++)
                if (strcasecmp(name, never[i]) == 0)
                        return false;
        return true;
}

static int read_header(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        StrV *headers = target;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (!is_passable(text))
                return error_trace(reader_fault_value(
                        reader, node,
                        "is no header that a job's request may bring: it is no name of one, says "
                        "who asks, or how the request is carried"));
        for (size_t i = 0; i < headers->n_items; i++)
                if (strcasecmp(headers->items[i], text) == 0)
                        return error_trace(reader_fault_value(
                                reader, node, "stands twice in this list: take one away"));
        return error_trace(strv_append(headers, text));
}

static int read_headers(const Reader *reader, const JsonNode *node, void *target) {
        return reader_array(reader, node, read_header, &((Credential *) target)->headers);
}

static int read_operations(const Reader *reader, const JsonNode *node, void *target) {
        return operation_menu_read(reader, node, &((Credential *) target)->menu);
}

static const ReaderKey credential_keys[] = {
        {.name = "description", .read = read_description},
        {.name = "upstream", .read = read_upstream},
        {.name = "addresses", .read = read_addresses},
        {.name = "ca", .read = read_ca},
        {.name = "pin", .read = read_pins},
        {.name = "secret", .read = read_secret},
        {.name = "attach", .read = read_attach},
        {.name = "headers", .read = read_headers},
        {.name = "env", .read = read_env},
        {.name = "operations", .read = read_operations},
        {},
};

int credential_key_names(StrV *names) {
        int r;

        r = reader_key_names(credential_keys, names);
        return r < 0 ? error_trace(r) : error_trace(attach_key_names(names));
}

/* --- what concerns several keys --- */

/* What an operation must keep to be a tool. */
static int check_exposed(const Reader *reader, const JsonNode *node, const Credential *c,
                         bool *ret_exposes) {
        static const char *const content[] = {"body", "body_encoding", "content_type"};
        _cleanup_(freep) char *name = NULL;
        const Operation *operation;
        int r;

        r = json_node_key(reader->doc, node, &name);
        operation = r == 0 ? operation_menu_find(&c->menu, name) : NULL;
        if (r < 0 || !operation || !operation->expose)
                return error_trace(r);
        *ret_exposes = true;
        node = json_node_member(reader->doc, node, "expose");
        if (strlen(c->name) + 1 + strlen(name) > EXPOSED_NAME_MAX)
                return error_trace(reader_fault(
                        reader, node,
                        "the tool would be %s_%s, and clients take no names of more than %u "
                        "characters: give a shorter one, or expose it not",
                        c->name, name, EXPOSED_NAME_MAX));
        if (operation->response_max > EXPOSED_RESPONSE_MAX)
                return error_trace(reader_fault(
                        reader, node,
                        "the answer of a tool is kept whole, so response.max_bytes is at most 8M: "
                        "lower it, or expose the operation not"));
        for (size_t i = 0; i < ELEMENTSOF(content); i++)
                if (operation->body != OPERATION_BODY_NONE &&
                    operation_find_parameter(operation, content[i]))
                        return error_trace(reader_fault(
                                reader, node,
                                "%s is a parameter, and what the tool's argument for content is "
                                "called: give the parameter another name",
                                content[i]));
        return 0;
}

/* A tool of an operation is CREDENTIAL_OPERATION, and ours have such names, too. */
static int check_tools(const Reader *reader, const JsonNode *root, const Credential *c) {
        static const char *const taken[] = {"file", "limits",  "operations", "process",
                                            "run",  "sandbox", "usage",      "workspace"};
        const JsonNode *menu = json_node_member(reader->doc, root, "operations");
        bool exposes = false;
        int r = 0;

        if (!menu)
                return 0;

        for (const JsonNode *node = menu->first; node && r == 0; node = node->next)
                r = check_exposed(reader, node, c, &exposes);
        if (r < 0)
                return error_trace(r);
        for (size_t i = 0; i < ELEMENTSOF(taken) && exposes; i++)
                if (string_equal(c->name, taken[i]))
                        return error_trace(reader_fault(
                                reader, menu,
                                "the tools of AgentCrate itself begin with %s_, so nothing of this "
                                "credential can be exposed: give the file another name",
                                c->name));
        return 0;
}

/* A header that a job may bring must not be the one that the secret comes in. */
static int check_headers(const Reader *reader, const JsonNode *root, const Credential *c) {
        const char *own = c->attach.kind == ATTACH_HEADER || c->attach.kind == ATTACH_HMAC
                                  ? c->attach.name
                                  : NULL;
        int r = 0;

        for (size_t i = 0; i < c->headers.n_items && r == 0; i++)
                if (own && strcasecmp(c->headers.items[i], own) == 0)
                        r = reader_fault(reader, json_node_member(reader->doc, root, "headers"),
                                         "%s is the header that the secret comes in: take it away",
                                         own);
        return error_trace(r);
}

/* A key of the query that comes with the secret is no job's. */
static int check_query(const Reader *reader, const JsonNode *root, const Credential *c) {
        int r = 0;

        for (size_t i = 0; i < c->menu.n_items && c->attach.kind == ATTACH_QUERY; i++)
                for (size_t k = 0; k < c->menu.items[i].n_query && r == 0; k++)
                        if (string_equal(c->menu.items[i].query[k].name, c->attach.name))
                                r = reader_fault(
                                        reader, json_node_member(reader->doc, root, "operations"),
                                        "%s has a key %s in its query, in which the secret comes: "
                                        "take it away",
                                        c->menu.items[i].name, c->attach.name);
        return error_trace(r);
}

static int check_whole(const Reader *reader, const JsonNode *root, const Credential *c) {
        static const char *const needed[] = {"upstream", "secret", "attach", "operations"};
        size_t n = strlen(c->name);
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(needed) && r == 0; i++)
                if (!json_node_member(reader->doc, root, needed[i]))
                        r = reader_fault(reader, root, "has no key %s, which it needs", needed[i]);
        if (r == 0 && (c->name[0] == '-' || c->name[n - 1] == '-'))
                r = reader_fault(reader, root,
                                 "the file's name is also that of a host, %s.crate.internal, which "
                                 "neither begins nor ends with -",
                                 c->name);
        if (r == 0)
                r = check_tools(reader, root, c);
        if (r == 0)
                r = check_headers(reader, root, c);
        if (r == 0)
                r = check_query(reader, root, c);
        return error_trace(r);
}

static int credential_new(const char *name, const char *file, Credential **ret_credential) {
        _cleanup_(credential_freep) Credential *c = NULL;

        c = calloc(1, sizeof(Credential));
        if (!c)
                return error_origin(-ENOMEM);
        c->name = strdup(name);
        c->file = strdup(file);
        c->description = strdup("");
        if (!c->name || !c->file || !c->description)
                return error_origin(-ENOMEM);
        *ret_credential = TAKE_PTR(c);
        return 0;
}

int credential_read(const Reader *reader, const JsonNode *node, const char *name,
                    Credential **ret_credential) {
        _cleanup_(credential_freep) Credential *c = NULL;
        size_t before = reader_n_faults(reader->diags);
        int r;

        r = credential_new(name, reader->file, &c);
        if (r < 0)
                return error_trace(r);
        r = reader_object(reader, node, credential_keys, c);
        if (r == 0 && reader_n_faults(reader->diags) == before)
                r = check_whole(reader, node, c);
        if (r < 0)
                return error_trace(r);
        if (reader_n_faults(reader->diags) == before)
                *ret_credential = TAKE_PTR(c);
        return 0;
}

int credential_parse(const char *name, const char *file, const char *text, size_t size,
                     DiagList *diags, Credential **ret_credential) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        Credential *credential = NULL;
        Reader reader;
        int r;

        r = reader_document(file, text, size, diags, &doc);
        if (r < 0)
                return error_trace(r);
        if (!doc)
                return CREDENTIAL_E_INVALID;
        reader = (Reader){.file = file, .doc = doc, .diags = diags};
        r = credential_read(&reader, json_doc_root(doc), name, &credential);
        if (r < 0)
                return error_trace(r);
        if (!credential)
                return CREDENTIAL_E_INVALID;
        *ret_credential = credential;
        return 0;
}
