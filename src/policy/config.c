/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/parse-util.h"
#include "basic/time-util.h"
#include "policy/cidr.h"
#include "policy/destination.h"
#include "policy/reader.h"

#define MESSAGE_MAX_DEFAULT (16ULL << 20)
#define MESSAGE_MAX_MIN (64ULL << 10)
#define MESSAGE_MAX_MAX (1ULL << 30)
#define CRATES_MAX_DEFAULT 64U
#define CRATES_MAX_MAX 65536U
#define SUBUID_BASE_DEFAULT 1879048192U
#define SUBUID_COUNT_DEFAULT 65536U
/* Below lie the uids of people, services and nobody; a crate must never share one. */
#define SUBUID_BASE_MIN 65536U
/* (uid_t) -1 means "no change" to the kernel. */
#define SUBUID_LAST_MAX (UINT32_MAX - 1)

#define EGRESS_CONNECTIONS_DEFAULT 256U
#define EGRESS_CONNECTIONS_MAX 4096U
#define EGRESS_IDLE_DEFAULT_USEC (15 * 60 * USEC_PER_SEC)
#define SERVERS_MAX 8U

#define NOT_BUILT "not built yet: remove it"

void config_init(Config *config) {
        *config = (Config){
                .message_max = MESSAGE_MAX_DEFAULT,
                .idle_usec = 60 * USEC_PER_SEC,
                .crates_max = CRATES_MAX_DEFAULT,
                .subuid_base = SUBUID_BASE_DEFAULT,
                .subuid_count = SUBUID_COUNT_DEFAULT,
                .egress = {.connections = EGRESS_CONNECTIONS_DEFAULT,
                           .idle_usec = EGRESS_IDLE_DEFAULT_USEC},
        };
        ceilings_init(&config->instance);
}

void config_done(Config *config) {
        free(config->file);
        free(config->audit_path);
        free(config->otlp);
        strv_done(&config->egress.deny);
        strv_done(&config->egress.resolver);
        *config = (Config){};
}

/* --- what is used --- */

static int read_message_max(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        return reader_size(reader, node, MESSAGE_MAX_MIN, MESSAGE_MAX_MAX, &c->message_max);
}

static int read_idle_exit(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        return reader_time(reader, node, &c->idle_usec);
}

static int read_crates(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;
        uint64_t value = c->crates_max;
        int r;

        r = reader_count(reader, node, 1, CRATES_MAX_MAX, &value);
        c->crates_max = (size_t) value;
        return error_trace(r);
}

static int read_subuid_range(const Reader *reader, const JsonNode *node, void *target) {
        size_t before = reader_n_faults(reader->diags);
        uint64_t base = 0, count = 0;
        Config *c = target;
        int r;

        if (node->type != JSON_NODE_ARRAY || node->n_children != 2)
                return reader_fault_value(reader, node, "is no range; give [FIRST, COUNT]");

        r = reader_count(reader, node->first, SUBUID_BASE_MIN, SUBUID_LAST_MAX, &base);
        if (r == 0)
                r = reader_count(reader, node->first->next, 1, SUBUID_LAST_MAX, &count);
        if (r < 0 || reader_n_faults(reader->diags) > before)
                return error_trace(r);

        if (base + count - 1 > SUBUID_LAST_MAX)
                return reader_fault_value(reader, node, "ends above 4294967294, the last user id");
        c->subuid_base = base;
        c->subuid_count = count;
        return 0;
}

static int read_audit_path(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        if (node->type == JSON_NODE_NULL)
                return 0;
        if (node->type != JSON_NODE_STRING)
                return reader_fault_value(reader, node, "is neither a string nor null");
        return reader_path(reader, node, &c->audit_path);
}

static int read_audit_failure(const Reader *reader, const JsonNode *node, void *target) {
        static const char *const words[] = {"refuse", "continue", NULL};
        Config *c = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, words, &index);
        c->audit_fail_open = index > 0;
        return error_trace(r);
}

static int read_audit_payloads(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        if (json_node_bool(node, &c->audit_payloads) != 0)
                return reader_fault_value(reader, node, "is neither true nor false");
        return 0;
}

static int read_listen_metrics(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        Config *c = target;
        int r;

        if (node->type == JSON_NODE_NULL)
                return 0;
        if (node->type != JSON_NODE_STRING)
                return reader_fault_value(reader, node, "is neither a string nor null");
        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (listen_address_parse(text, &c->listen_metrics) != 0)
                return reader_fault_value(reader, node,
                                          "is no address on this host; give \"127.0.0.1:PORT\" or "
                                          "\"[::1]:PORT\"");
        return 0;
}

/* What is no URL is found by who uses it, along with what the environment says. */
static int read_otlp(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        if (node->type == JSON_NODE_NULL)
                return 0;
        if (node->type != JSON_NODE_STRING)
                return reader_fault_value(reader, node, "is neither a string nor null");
        return reader_string(reader, node, &c->otlp);
}

static int read_enforce(const Reader *reader, const JsonNode *node, void *target) {
        static const char *const words[] = {"sampled", "strict", NULL};
        Config *c = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, words, &index);
        if (r < 0)
                return error_trace(r);
        c->enforce_given = true;
        return error_trace(enforce_from_string(words[index], &c->enforce));
}

static int read_ceiling(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *key = NULL;
        Config *c = target;
        int r;

        if (node->type == JSON_NODE_NULL)
                return 0;
        r = json_node_key(reader->doc, node, &key);
        if (r < 0)
                return error_trace(r);
        return error_trace(limit_parse_json(&c->instance.limits, limit_from_string(key),
                                            reader->doc, node, reader->file, reader->diags));
}

static int read_on_excess(const Reader *reader, const JsonNode *node, void *target) {
        static const char *const words[] = {"refuse", "clamp", NULL};
        Config *c = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, words, &index);
        c->instance.on_excess = index == 0 ? CEILINGS_REFUSE : CEILINGS_CLAMP;
        return error_trace(r);
}

/* --- egress --- */

/* What consists of nothing else was hardly meant as a name. */
static bool is_like_range(const char *text) {
        return text[strspn(text, "0123456789abcdefABCDEF.:/")] == 0 || strchr(text, '/');
}

static int add_denied_name(const Reader *reader, const JsonNode *node, const char *text,
                           Config *config) {
        _cleanup_(freep) char *name = NULL, *why = NULL;
        int r;

        r = destination_name_parse(text, &name, &why);
        if (r == DESTINATION_E_INVALID)
                return is_like_range(text) ? reader_fault_value(reader, node,
                                                                cidr_error_to_string(CIDR_E_SYNTAX))
                                           : reader_fault(reader, node, "%s", why);
        return r < 0 ? error_trace(r) : error_trace(strv_append(&config->egress.deny, name));
}

static int read_denied(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        char right[CIDR_TEXT_SIZE];
        Config *c = target;
        Cidr cidr;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        r = cidr_parse(text, &cidr);
        if (r == CIDR_E_HOST_BITS) {
                cidr_format(&cidr, right);
                return reader_fault(reader, node, "\"%s\" %s: give %s", text,
                                    cidr_error_to_string(r), right);
        }
        if (r == CIDR_E_SYNTAX)
                return add_denied_name(reader, node, text, c);
        if (r != 0)
                return reader_fault_value(reader, node, cidr_error_to_string(r));
        cidr_format(&cidr, right);
        return error_trace(strv_append(&c->egress.deny, right));
}

static int read_egress_deny(const Reader *reader, const JsonNode *node, void *target) {
        return reader_array(reader, node, read_denied, target);
}

/* "192.0.2.1:53" or "[2001:db8::1]:53" */
static bool is_server(const char *text) {
        const char *colon = strrchr(text, ':');
        size_t n = colon ? (size_t) (colon - text) : 0;
        bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
        char address[INET6_ADDRSTRLEN];
        uint8_t bytes[16];
        uint64_t port;

        if (n == 0 || n >= sizeof(address) || parse_uint64(colon + 1, &port) != 0 || port < 1 ||
            port > UINT16_MAX)
                return false;
        (void) snprintf(address, sizeof(address), "%.*s", (int) (bracketed ? n - 2 : n),
                        bracketed ? text + 1 : text);
        return inet_pton(bracketed ? AF_INET6 : AF_INET, address, bytes) == 1;
}

static int read_server(const Reader *reader, const JsonNode *node, void *target) {
        _cleanup_(freep) char *text = NULL;
        Config *c = target;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0 || !text)
                return error_trace(r);
        if (!is_server(text))
                return reader_fault_value(reader, node,
                                          "is no server such as \"192.0.2.1:53\" or "
                                          "\"[2001:db8::1]:53\"");
        if (c->egress.resolver.n_items == SERVERS_MAX)
                return reader_fault(reader, node, "there are more than %u servers", SERVERS_MAX);
        return error_trace(strv_append(&c->egress.resolver, text));
}

static int read_egress_resolver(const Reader *reader, const JsonNode *node, void *target) {
        return reader_array(reader, node, read_server, target);
}

static int read_egress_connections(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        return reader_count(reader, node, 1, EGRESS_CONNECTIONS_MAX, &c->egress.connections);
}

static int read_egress_idle(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        return reader_time(reader, node, &c->egress.idle_usec);
}

static int read_egress_bytes(const Reader *reader, const JsonNode *node, void *target) {
        Config *c = target;

        if (node->type == JSON_NODE_NULL)
                return 0;
        return reader_size(reader, node, 1, INT64_MAX, &c->egress.bytes);
}

/* --- what is not built yet --- */

static int read_null_string(const Reader *reader, const JsonNode *node, _unused_ void *target) {
        if (node->type == JSON_NODE_NULL)
                return 0;
        if (node->type != JSON_NODE_STRING)
                return reader_fault_value(reader, node, "is neither a string nor null");
        return reader_fault(reader, node, NOT_BUILT);
}

static const ReaderKey listen_keys[] = {
        {.name = "http", .read = read_null_string},
        {.name = "metrics", .read = read_listen_metrics},
        {},
};

static const ReaderKey instance_keys[] = {
        CEILINGS_KEYS(read_ceiling),
        {.name = "crates", .read = read_crates},
        {.name = "on_excess", .read = read_on_excess},
        {},
};

static const ReaderKey egress_keys[] = {
        {.name = "deny", .read = read_egress_deny},
        {.name = "resolver", .read = read_egress_resolver},
        {.name = "connections", .read = read_egress_connections},
        {.name = "idle", .read = read_egress_idle},
        {.name = "bytes", .read = read_egress_bytes},
        {},
};

static const ReaderKey audit_keys[] = {
        {.name = "path", .read = read_audit_path},
        {.name = "on_failure", .read = read_audit_failure},
        {.name = "payloads", .read = read_audit_payloads},
        {},
};

static const ReaderKey telemetry_keys[] = {
        {.name = "otlp", .read = read_otlp},
        {},
};

static const ReaderKey config_keys[] = {
        {.name = "listen", .keys = listen_keys},
        {.name = "enforce", .read = read_enforce},
        {.name = "instance", .keys = instance_keys},
        {.name = "egress", .keys = egress_keys},
        {.name = "subuid_range", .read = read_subuid_range},
        {.name = "audit", .keys = audit_keys},
        {.name = "telemetry", .keys = telemetry_keys},
        {.name = "message_max", .read = read_message_max},
        {.name = "idle_exit", .read = read_idle_exit},
        {},
};

int config_key_names(StrV *names) {
        return reader_key_names(config_keys, names);
}

/* Under such a ceiling nothing could be run at all. */
static int check_ceilings(const Reader *reader, const JsonNode *root, const Config *c) {
        const JsonNode *instance = json_node_member(reader->doc, root, "instance");
        char least[LIMIT_TEXT_SIZE];
        int r = 0;

        for (LimitName name = 0; r == 0 && instance && name < _LIMIT_MAX; name++) {
                if (c->instance.limits.max[name] >= limit_minimum(name))
                        continue;
                limit_format(name, limit_minimum(name), least, sizeof(least));
                r = reader_fault(reader,
                                 json_node_member(reader->doc, instance, limit_to_string(name))
                                         ?: instance,
                                 "less than the %s that a crate itself needs", least);
        }
        return r;
}

/* Each crate that lives holds one id of the range. */
static int check_whole(const Reader *reader, const JsonNode *root, const Config *c) {
        const JsonNode *node;
        int r;

        r = check_ceilings(reader, root, c);
        if (r < 0 || c->crates_max <= c->subuid_count)
                return error_trace(r);
        node = json_node_member(reader->doc, root, "subuid_range");
        return reader_fault(reader, node ?: root,
                            "%llu ids are fewer than instance.crates (%zu), and each crate needs "
                            "one",
                            (unsigned long long) c->subuid_count, c->crates_max);
}

int config_parse(const char *file, const char *text, size_t size, DiagList *diags, Config *config) {
        _cleanup_(config_done) Config c = {};
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        size_t before = reader_n_faults(diags);
        Reader reader;
        int r;

        r = reader_document(file, text, size, diags, &doc);
        if (r < 0)
                return error_trace(r);
        if (!doc)
                return CONFIG_E_INVALID;

        config_init(&c);
        c.file = strdup(file);
        if (!c.file)
                return error_origin(-ENOMEM);

        reader = (Reader){.file = file, .doc = doc, .diags = diags};
        r = reader_object(&reader, json_doc_root(doc), config_keys, &c);
        if (r == 0 && reader_n_faults(diags) == before)
                r = check_whole(&reader, json_doc_root(doc), &c);
        if (r < 0)
                return error_trace(r);
        if (reader_n_faults(diags) > before)
                return CONFIG_E_INVALID;

        config_done(config);
        *config = c;
        c = (Config){};
        return 0;
}
