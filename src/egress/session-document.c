/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/session-document.h"

#include <stdarg.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/json-scan.h"
#include "egress/destination-name.h"

typedef struct Parse {
        JsonDoc *doc;
        SessionReason *reason;
        size_t n_sockets;
        bool used[EGRESS_SESSION_SOCKETS_MAX];
} Parse;

static const char *const types[_DESTINATION_TYPE_MAX] = {
        [DESTINATION_TLS] = "tls",
        [DESTINATION_HTTP] = "http",
        [DESTINATION_TCP] = "tcp",
};

const char *destination_type_to_string(DestinationType type) {
        return types[type];
}

static void destination_done(Destination *name) {
        for (size_t i = 0; i < name->n_slots; i++)
                free(name->slots[i].name);
        for (size_t i = 0; i < name->n_ports; i++)
                free(name->ports[i].open.items);
        free(name->slots);
        free(name->ports);
        free(name->name);
}

SessionDocument *session_document_free(SessionDocument *document) {
        if (!document)
                return NULL;

        for (size_t i = 0; i < document->n_names; i++)
                destination_done(&document->names[i]);
        free(document->names);
        for (size_t i = 0; i < document->n_credentials; i++) {
                credential_free(document->credentials[i].credential);
                free(document->credentials[i].ca);
                free(document->credentials[i].open.items);
                destination_done(&document->credentials[i].host);
        }
        free(document->credentials);
        free(document->deny.items);
        strv_done(&document->deny_names);
        strv_done(&document->servers);
        free(document->tenant);
        free(document);
        return NULL;
}

/* --- what JSON there may be --- */

static int fault(const Parse *parse, const JsonNode *node, const char *what) {
        _cleanup_(freep) char *path = NULL;

        if (!node) {
                (void) snprintf(parse->reason->text, sizeof(parse->reason->text), "its document %s",
                                what);
                return SESSION_DOCUMENT_E_INVALID;
        }
        path = json_node_path(parse->doc, node);
        if (!path)
                return error_origin(-ENOMEM);
        (void) snprintf(parse->reason->text, sizeof(parse->reason->text),
                        "in its document, at line %u, \"%.80s\" %s", node->line, path, what);
        return SESSION_DOCUMENT_E_INVALID;
}

/* An object with these members, each at most once, and no others. */
static int check_object(const Parse *parse, const JsonNode *node, const char *const *members) {
        if (!node || node->type != JSON_NODE_OBJECT)
                return fault(parse, node, "is no object");
        for (const JsonNode *child = node->first; child; child = child->next) {
                const char *const *member = members;
                size_t size;
                const char *key = json_node_key_bytes(parse->doc, child, &size);

                while (*member && !(strlen(*member) == size && memcmp(*member, key, size) == 0))
                        member++;
                if (!*member)
                        return fault(parse, child, "is unknown");
        }
        return 0;
}

/* An array of so many entries. */
static int check_array(const Parse *parse, const JsonNode *parent, const char *member, size_t min,
                       size_t max, const JsonNode **ret_array) {
        const JsonNode *node = member ? json_node_member(parse->doc, parent, member) : parent;

        if (!node)
                return fault(parse, parent, "lacks a member");
        if (node->type != JSON_NODE_ARRAY)
                return fault(parse, node, "is no list");
        if (node->n_children < min || node->n_children > max)
                return fault(parse, node, "has too few or too many entries");
        *ret_array = node;
        return 0;
}

static int read_number(const Parse *parse, const JsonNode *parent, const char *member, uint64_t min,
                       uint64_t max, uint64_t *ret_number) {
        const JsonNode *node = json_node_member(parse->doc, parent, member);

        if (!node)
                return fault(parse, parent, "lacks a member");
        if (json_node_uint64(parse->doc, node, ret_number) != 0 || *ret_number < min ||
            *ret_number > max)
                return fault(parse, node, "is no number that it can be");
        return 0;
}

static int read_string(const Parse *parse, const JsonNode *node, char **ret_string) {
        int r;

        r = json_node_string(parse->doc, node, ret_string, NULL);
        return r > 0 ? fault(parse, node, "is no text") : error_trace(r);
}

/* --- its parts --- */

static int read_cidrs(const Parse *parse, const JsonNode *parent, const char *member,
                      CidrList *ret_cidrs) {
        const JsonNode *array;
        int r;

        r = check_array(parse, parent, member, 0, SESSION_CIDRS_MAX, &array);
        if (r != 0)
                return r;
        ret_cidrs->items = calloc(array->n_children + 1, sizeof(Cidr));
        if (!ret_cidrs->items)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; node; node = node->next) {
                _cleanup_(freep) char *text = NULL;

                r = read_string(parse, node, &text);
                if (r != 0)
                        return r;
                if (!cidr_parse(text, &ret_cidrs->items[ret_cidrs->n_items++]))
                        return fault(parse, node, "is no network");
        }
        return 0;
}

static int read_deny(const Parse *parse, const JsonNode *root, SessionDocument *document) {
        const JsonNode *array;
        int r;

        r = check_array(parse, root, "deny", 0, SESSION_CIDRS_MAX, &array);
        if (r != 0)
                return r;
        document->deny.items = calloc(array->n_children + 1, sizeof(Cidr));
        if (!document->deny.items)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; node; node = node->next) {
                _cleanup_(freep) char *text = NULL;

                r = read_string(parse, node, &text);
                if (r != 0)
                        return r;
                if (cidr_parse(text, &document->deny.items[document->deny.n_items])) {
                        document->deny.n_items++;
                        continue;
                }
                if (!destination_name_is_valid(text, true))
                        return fault(parse, node, "is no network and no name of a host");
                r = strv_append(&document->deny_names, text);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int read_socket(Parse *parse, const JsonNode *node, int *ret_number) {
        int64_t number;

        if (json_node_int64(parse->doc, node, &number) != 0 || number < -1 ||
            number >= (int64_t) parse->n_sockets)
                return fault(parse, node, "is no number of a socket");
        if (number >= 0 && parse->used[number])
                return fault(parse, node, "is a socket that has a place already");
        if (number >= 0)
                parse->used[number] = true;
        *ret_number = (int) number;
        return 0;
}

static int read_sockets(Parse *parse, const JsonNode *array, int *ret_numbers) {
        int r = 0;

        for (const JsonNode *node = array->first; r == 0 && node; node = node->next)
                r = read_socket(parse, node, ret_numbers++);
        return r;
}

static int read_slot_sockets(Parse *parse, const JsonNode *parent, Destination *name,
                             DestinationPort *port) {
        const JsonNode *array;
        int r;

        r = check_array(parse, parent, "sockets", name->n_slots, name->n_slots, &array);
        if (r != 0)
                return r;
        array = array->first;
        for (size_t i = 0; i < name->n_slots; i++, array = array->next) {
                const JsonNode *pair;

                r = check_array(parse, array, NULL, 2, 2, &pair);
                if (r == 0)
                        r = read_sockets(parse, pair, port->sockets[i]);
                if (r != 0)
                        return r;
                /* What has no listener of IPv6 is told no address of it. */
                if (port->sockets[i][1] >= 0)
                        name->slots[i].has_v6 = true;
        }
        return 0;
}

static int read_type(const Parse *parse, const JsonNode *parent, DestinationType *ret_type) {
        const JsonNode *node = json_node_member(parse->doc, parent, "type");

        for (size_t i = 0; node && i < ELEMENTSOF(types); i++)
                if (json_node_string_equal(parse->doc, node, types[i])) {
                        *ret_type = (DestinationType) i;
                        return 0;
                }
        return fault(parse, node ?: parent, "is no type of a destination");
}

static int read_port(Parse *parse, const JsonNode *node, Destination *name) {
        static const char *const members[] = {"port", "type", "addresses", "sockets", NULL};
        DestinationPort *port = &name->ports[name->n_ports];
        uint64_t number;
        int r;

        r = check_object(parse, node, members);
        if (r == 0)
                r = read_number(parse, node, "port", 1, UINT16_MAX, &number);
        if (r == 0)
                r = read_type(parse, node, &port->type);
        if (r != 0)
                return r;
        name->n_ports++;
        port->port = (uint16_t) number;
        for (size_t i = 0; i + 1 < name->n_ports; i++)
                if (name->ports[i].port == port->port)
                        return fault(parse, node, "is a port for the second time");
        r = read_cidrs(parse, node, "addresses", &port->open);
        return r == 0 ? read_slot_sockets(parse, node, name, port) : r;
}

static int read_slot(const Parse *parse, const JsonNode *node, DestinationSlot *slot) {
        _cleanup_(freep) char *v4 = NULL, *v6 = NULL;
        const JsonNode *pair;
        int r;

        r = check_array(parse, node, NULL, 2, 2, &pair);
        if (r == 0)
                r = read_string(parse, pair->first, &v4);
        if (r == 0)
                r = read_string(parse, pair->first->next, &v6);
        if (r != 0)
                return r;
        if (!address_parse(v4, &slot->v4) || slot->v4.family != AF_INET ||
            !address_parse(v6, &slot->v6) || slot->v6.family != AF_INET6)
                return fault(parse, node, "is no pair of an IPv4 and an IPv6 address");
        return 0;
}

static int read_slots(const Parse *parse, const JsonNode *parent, Destination *name) {
        const JsonNode *array;
        int r;

        r = check_array(parse, parent, "slots", 1, name->is_wildcard ? SESSION_SLOTS_MAX : 1,
                        &array);
        if (r != 0)
                return r;
        name->slots = calloc(array->n_children, sizeof(DestinationSlot));
        if (!name->slots)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; node; node = node->next) {
                r = read_slot(parse, node, &name->slots[name->n_slots++]);
                if (r != 0)
                        return r;
        }
        if (name->is_wildcard)
                return 0;
        name->slots[0].name = strdup(name->name);
        return name->slots[0].name ? 0 : error_origin(-ENOMEM);
}

static int read_ports(Parse *parse, const JsonNode *parent, Destination *name) {
        const JsonNode *array;
        int r;

        r = check_array(parse, parent, "ports", 1, SESSION_PORTS_MAX, &array);
        if (r != 0)
                return r;
        name->ports = calloc(array->n_children, sizeof(DestinationPort));
        if (!name->ports)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; r == 0 && node; node = node->next)
                r = read_port(parse, node, name);
        return r;
}

static int read_name(Parse *parse, const JsonNode *node, SessionDocument *document) {
        static const char *const members[] = {"name", "slots", "ports", NULL};
        Destination *name = &document->names[document->n_names];
        int r;

        r = check_object(parse, node, members);
        if (r == 0)
                r = read_string(parse, json_node_member(parse->doc, node, "name") ?: node,
                                &name->name);
        if (r != 0)
                return r;
        document->n_names++;
        if (!destination_name_is_valid(name->name, true))
                return fault(parse, node, "has no name of a host");
        for (size_t i = 0; i + 1 < document->n_names; i++)
                if (string_equal(document->names[i].name, name->name))
                        return fault(parse, node, "is a name for the second time");
        name->is_wildcard = destination_name_is_wildcard(name->name);
        r = read_slots(parse, node, name);
        return r == 0 ? read_ports(parse, node, name) : r;
}

static int read_names(Parse *parse, const JsonNode *root, SessionDocument *document) {
        const JsonNode *array;
        int r;

        r = check_array(parse, root, "names", 0, SESSION_NAMES_MAX, &array);
        if (r != 0)
                return r;
        document->names = calloc(array->n_children + 1, sizeof(Destination));
        if (!document->names)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; r == 0 && node; node = node->next)
                r = read_name(parse, node, document);
        return r;
}

/* --- credentials --- */

/* By the reader of the file that it comes from: the first of its faults is the reason. */
static int read_credential_file(const Parse *parse, const JsonNode *node, const char *name,
                                SessionCredential *credential) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        const Reader reader = {.file = name, .doc = parse->doc, .diags = &diags};
        int r;

        r = credential_read(&reader, node, name, &credential->credential);
        if (r < 0)
                return error_trace(r);
        if (credential->credential)
                return 0;
        (void) snprintf(parse->reason->text, sizeof(parse->reason->text),
                        "in its document, \"%.60s\" %.100s", diags.items[0].path ?: "",
                        diags.items[0].text);
        return SESSION_DOCUMENT_E_INVALID;
}

static int read_open(const Parse *parse, const JsonNode *node, SessionCredential *credential) {
        const StrV *addresses = &credential->credential->addresses;

        credential->open.items = calloc(addresses->n_items + 1, sizeof(Cidr));
        if (!credential->open.items)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < addresses->n_items; i++)
                if (!cidr_parse(addresses->items[i],
                                &credential->open.items[credential->open.n_items++]))
                        return fault(parse, node, "has an address that is no network");
        return 0;
}

static int read_host(Parse *parse, const JsonNode *node, Destination *host) {
        int r;

        r = read_slots(parse, node, host);
        if (r != 0)
                return r;
        if (host->n_slots != 1)
                return fault(parse, node, "has more than one pair of addresses");
        host->ports = calloc(1, sizeof(DestinationPort));
        if (!host->ports)
                return error_origin(-ENOMEM);
        host->n_ports = 1;
        host->ports[0] = (DestinationPort){.port = 80, .type = DESTINATION_HTTP};
        return read_slot_sockets(parse, node, host, &host->ports[0]);
}

/* The host is the same, but nowhere. */
static int read_connection(Parse *parse, const JsonNode *node, SessionCredential *credential) {
        Destination *host = &credential->host;

        if (json_node_member(parse->doc, node, "slots") ||
            json_node_member(parse->doc, node, "sockets"))
                return fault(parse, node, "has both a connection and sockets");
        host->slots = calloc(1, sizeof(DestinationSlot));
        host->ports = calloc(1, sizeof(DestinationPort));
        if (!host->slots || !host->ports)
                return error_origin(-ENOMEM);
        host->n_slots = host->n_ports = 1;
        host->ports[0] =
                (DestinationPort){.port = 80, .type = DESTINATION_HTTP, .sockets = {{-1, -1}}};
        host->slots[0].name = strdup(host->name);
        if (!host->slots[0].name)
                return error_origin(-ENOMEM);
        return read_socket(parse, json_node_member(parse->doc, node, "connection"),
                           &credential->connection);
}

static int read_credential(Parse *parse, const JsonNode *node, SessionDocument *document) {
        static const char *const members[] = {"name", "slots",      "sockets", "connection",
                                              "ca",   "credential", NULL};
        SessionCredential *credential = &document->credentials[document->n_credentials];
        const JsonNode *file, *ca;
        _cleanup_(freep) char *name = NULL;
        int r;

        r = check_object(parse, node, members);
        if (r == 0)
                r = read_string(parse, json_node_member(parse->doc, node, "name") ?: node, &name);
        if (r != 0)
                return r;
        document->n_credentials++;
        file = json_node_member(parse->doc, node, "credential");
        ca = json_node_member(parse->doc, node, "ca");
        if (!file || !credential_name_is_valid(name))
                return fault(parse, node, "is no credential");
        for (size_t i = 0; i + 1 < document->n_credentials; i++)
                if (string_equal(document->credentials[i].credential->name, name))
                        return fault(parse, node, "is a credential for the second time");
        if (asprintf(&credential->host.name, "%s" CREDENTIAL_HOST_SUFFIX, name) < 0) {
                credential->host.name = NULL;
                return error_origin(-ENOMEM);
        }
        r = read_credential_file(parse, file, name, credential);
        if (r == 0)
                r = read_open(parse, file, credential);
        if (r == 0 && ca)
                r = read_string(parse, ca, &credential->ca);
        if (r != 0)
                return r;
        credential->connection = -1;
        return json_node_member(parse->doc, node, "connection")
                       ? read_connection(parse, node, credential)
                       : read_host(parse, node, &credential->host);
}

static int read_credentials(Parse *parse, const JsonNode *root, SessionDocument *document) {
        const JsonNode *array;
        int r;

        if (!json_node_member(parse->doc, root, "credentials"))
                return 0;
        r = check_array(parse, root, "credentials", 0, SESSION_CREDENTIALS_MAX, &array);
        if (r != 0)
                return r;
        document->credentials = calloc(array->n_children + 1, sizeof(SessionCredential));
        if (!document->credentials)
                return error_origin(-ENOMEM);
        for (const JsonNode *node = array->first; r == 0 && node; node = node->next)
                r = read_credential(parse, node, document);
        return r;
}

static int read_limits(const Parse *parse, const JsonNode *root, SessionDocument *document) {
        static const char *const members[] = {"connections", "idle_ms", "bytes", "head_ms", NULL};
        const JsonNode *node = json_node_member(parse->doc, root, "limits");
        int r;

        r = check_object(parse, node ?: root, members);
        if (r == 0)
                r = read_number(parse, node, "connections", 1, SESSION_CONNECTIONS_MAX,
                                &document->connections_max);
        if (r == 0)
                r = read_number(parse, node, "idle_ms", 1, UINT32_MAX, &document->idle_msec);
        if (r == 0)
                r = read_number(parse, node, "bytes", 0, INT64_MAX, &document->bytes_max);
        document->head_msec = SESSION_HEAD_MSEC;
        if (r == 0 && json_node_member(parse->doc, node, "head_ms"))
                r = read_number(parse, node, "head_ms", 1, SESSION_HEAD_MSEC, &document->head_msec);
        return r;
}

static int read_resolver(const Parse *parse, const JsonNode *root, SessionDocument *document) {
        static const char *const members[] = {"servers", NULL};
        const JsonNode *node = json_node_member(parse->doc, root, "resolver"), *array;
        int r;

        if (!node)
                return 0;
        r = check_object(parse, node, members);
        if (r == 0)
                r = check_array(parse, node, "servers", 1, 8, &array);
        if (r != 0)
                return r;
        for (node = array->first; node; node = node->next) {
                _cleanup_(freep) char *text = NULL;
                Address address;
                uint16_t port;

                r = read_string(parse, node, &text);
                if (r != 0)
                        return r;
                if (!address_parse_with_port(text, &address, &port))
                        return fault(parse, node, "is no ADDRESS:PORT");
                r = strv_append(&document->servers, text);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int read_tenant(const Parse *parse, const JsonNode *root, SessionDocument *document) {
        const JsonNode *node = json_node_member(parse->doc, root, "tenant");
        int r;

        if (!node)
                return 0;
        r = read_string(parse, node, &document->tenant);
        if (r == 0 && (!*document->tenant || strlen(document->tenant) > SESSION_TENANT_MAX))
                return fault(parse, node, "is no name of a tenant");
        return r;
}

static int read_document(Parse *parse, const JsonNode *root, SessionDocument *document) {
        static const char *const members[] = {"dns",      "names",       "deny",   "limits",
                                              "resolver", "credentials", "tenant", NULL};
        const JsonNode *dns;
        int r;

        r = check_object(parse, root, members);
        if (r == 0)
                r = check_array(parse, root, "dns", _SESSION_DNS_MAX, _SESSION_DNS_MAX, &dns);
        if (r == 0)
                r = read_sockets(parse, dns, document->dns);
        if (r == 0)
                r = read_names(parse, root, document);
        if (r == 0)
                r = read_deny(parse, root, document);
        if (r == 0)
                r = read_limits(parse, root, document);
        if (r == 0)
                r = read_credentials(parse, root, document);
        if (r == 0)
                r = read_tenant(parse, root, document);
        return r == 0 ? read_resolver(parse, root, document) : r;
}

int session_document_parse(const char *text, size_t size, size_t n_sockets,
                           SessionDocument **ret_document, SessionReason *ret_reason) {
        _cleanup_(session_document_freep) SessionDocument *document = NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        Parse parse = {.reason = ret_reason, .n_sockets = n_sockets};
        JsonError error;
        int r;

        if (n_sockets > EGRESS_SESSION_SOCKETS_MAX)
                return fault(&parse, NULL, "has too many sockets");
        r = json_scan(text, size, &doc, &error);
        if (r == JSON_SCAN_E_SYNTAX) {
                (void) snprintf(ret_reason->text, sizeof(ret_reason->text),
                                "its document is no JSON at line %u, column %u: %.80s", error.line,
                                error.column, error.text);
                return SESSION_DOCUMENT_E_INVALID;
        }
        if (r < 0)
                return error_trace(r);
        document = calloc(1, sizeof(*document));
        if (!document)
                return error_origin(-ENOMEM);
        parse.doc = doc;
        r = read_document(&parse, json_doc_root(doc), document);
        if (r == 0)
                *ret_document = TAKE_PTR(document);
        return r;
}
