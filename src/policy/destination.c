/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/destination.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/parse-util.h"

#define LABEL_MAX 63U

static const char *const type_words[] = {
        [DESTINATION_TLS] = "tls", [DESTINATION_HTTP] = "http", [DESTINATION_TCP] = "tcp", NULL};

static void destination_done(Destination *destination) {
        free(destination->name);
        free(destination->addresses);
        *destination = (Destination){};
}

void destination_list_done(DestinationList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                destination_done(&list->items[i]);
        free(list->items);
        *list = DESTINATION_LIST_NULL;
}

const char *destination_type_to_string(DestinationType type) {
        return type_words[type];
}

static DestinationType type_default(uint16_t port) {
        return port == 443 ? DESTINATION_TLS : port == 80 ? DESTINATION_HTTP : DESTINATION_TCP;
}

/* --- names --- */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_label_char(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* What is wrong with one label, or NULL. */
static const char *label_fault(const char *label, size_t size) {
        if (size == 0)
                return "has an empty label";
        if (size > LABEL_MAX)
                return "has a label of more than 63 bytes";
        for (size_t i = 0; i < size; i++) {
                if ((unsigned char) label[i] >= 0x80)
                        return "is not ASCII: give the form that begins with xn--";
                if (label[i] == '*')
                        return "has a * that is not the whole first label: give a form such as "
                               "*.example.org";
                if (!is_label_char(label[i]))
                        return "has a character that is no letter, digit, - or _";
        }
        if (label[0] == '-' || label[size - 1] == '-')
                return "has a label that begins or ends with -";
        return NULL;
}

static bool all_digits(const char *s, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!is_digit(s[i]))
                        return false;
        return size > 0;
}

/* Names that lead somewhere in the crate itself. */
static const char *reserved_fault(const char *name) {
        static const struct {
                const char *name, *fault;
        } reserved[] = {
                {"localhost", "is the crate itself"},
                {"crate.internal", "is the crate itself"},
        };

        for (size_t i = 0; i < ELEMENTSOF(reserved); i++) {
                size_t n = strlen(name), m = strlen(reserved[i].name);

                if (n >= m && string_equal(name + n - m, reserved[i].name) &&
                    (n == m || name[n - m - 1] == '.'))
                        return reserved[i].fault;
        }
        return NULL;
}

/* name is in lower case. */
static const char *name_fault(const char *name) {
        bool wildcard = name[0] == '*' && name[1] == '.';
        const char *label = wildcard ? name + 2 : name, *fault;
        size_t n_labels = 0, size = 0;

        if (!*name)
                return "is empty";
        if (string_equal(name, "*") || string_equal(name, "*."))
                return "would be every name: give names, or a form such as *.example.org";
        if (strlen(name) > DESTINATION_NAME_MAX)
                return "is longer than 253 bytes";
        if (strchr(name, ':') || name[0] == '[')
                return "is an address: give a name, which may lead to it by addresses";
        for (;; label += size + 1) {
                size = strcspn(label, ".");
                fault = label_fault(label, size);
                if (fault)
                        return fault;
                n_labels++;
                if (!label[size])
                        break;
        }
        /* What the end of a name may not be, so that it is never taken for an address. */
        if (all_digits(label, size) || (label[0] == '0' && label[1] == 'x'))
                return "is an address: give a name, which may lead to it by addresses";
        if (wildcard && n_labels < 2)
                return "would be a whole domain at the top: two labels follow the star";
        return reserved_fault(wildcard ? name + 2 : name);
}

static int name_invalid(char **ret_text, const char *s, const char *fault) {
        _cleanup_(freep) char *quoted = diag_quote(s);

        if (!quoted)
                return error_origin(-ENOMEM);
        return outcome_text(DESTINATION_E_INVALID, ret_text, "the name %s %s", quoted, fault);
}

int destination_name_parse(const char *s, char **ret_name, char **ret_text) {
        _cleanup_(freep) char *name = strdup(s);
        const char *fault;
        size_t n;

        if (!name)
                return error_origin(-ENOMEM);
        n = strlen(name);
        if (n > 1 && name[n - 1] == '.')
                name[--n] = 0;
        for (size_t i = 0; i < n; i++)
                if (name[i] >= 'A' && name[i] <= 'Z')
                        name[i] = (char) (name[i] - 'A' + 'a');
        fault = name_fault(name);
        if (fault)
                return name_invalid(ret_text, s, fault);
        *ret_name = TAKE_PTR(name);
        return 0;
}

bool destination_name_covers(const char *pattern, const char *name) {
        size_t n = strlen(name), m = strlen(pattern);

        if (pattern[0] != '*')
                return string_equal(pattern, name);
        /* "*.b.c" covers itself, "*.a.b.c" and "a.b.c". */
        return n >= m && string_equal(name + n - m + 1, pattern + 1);
}

/* --- parts --- */

static int add_address(Destination *destination, const char *s, char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;
        char right[CIDR_TEXT_SIZE] = "";
        Cidr cidr, *addresses;
        int r;

        r = cidr_parse(s, &cidr);
        if (r != 0) {
                quoted = diag_quote(s);
                if (!quoted)
                        return error_origin(-ENOMEM);
                if (r == CIDR_E_HOST_BITS)
                        cidr_format(&cidr, right);
                return outcome_text(DESTINATION_E_INVALID, ret_text, "%s %s%s%s", quoted,
                                    cidr_error_to_string(r), *right ? ": give " : "", right);
        }
        if (destination->n_addresses == DESTINATION_ADDRESSES_MAX)
                return outcome_text(DESTINATION_E_INVALID, ret_text,
                                    "there are more than %u ranges of addresses",
                                    DESTINATION_ADDRESSES_MAX);
        addresses = reallocarray(destination->addresses, destination->n_addresses + 1,
                                 sizeof(*addresses));
        if (!addresses)
                return error_origin(-ENOMEM);
        destination->addresses = addresses;
        addresses[destination->n_addresses++] = cidr;
        return 0;
}

const Destination *destination_list_find(const DestinationList *list, const char *name,
                                         uint16_t port) {
        for (size_t i = 0; i < list->n_items; i++)
                if (list->items[i].port == port && string_equal(list->items[i].name, name))
                        return &list->items[i];
        return NULL;
}

/* Takes what destination holds, on success. */
static int list_add(DestinationList *list, Destination *destination, char **ret_text) {
        Destination *items;

        if (destination_list_find(list, destination->name, destination->port))
                return outcome_text(DESTINATION_E_INVALID, ret_text,
                                    "%s:%u is there twice: give it once, with all its addresses",
                                    destination->name, destination->port);
        if (list->n_items == DESTINATIONS_MAX)
                return outcome_text(DESTINATION_E_INVALID, ret_text,
                                    "there are more than %u destinations", DESTINATIONS_MAX);
        items = reallocarray(list->items, list->n_items + 1, sizeof(*items));
        if (!items)
                return error_origin(-ENOMEM);
        list->items = items;
        items[list->n_items++] = *destination;
        *destination = (Destination){};
        return 0;
}

/* --- the text form --- */

static int parse_port(Destination *destination, const char *whole, const char *s, char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;
        uint64_t port;

        if (parse_uint64(s, &port) == 0 && port >= 1 && port <= UINT16_MAX) {
                destination->port = (uint16_t) port;
                return 0;
        }
        quoted = diag_quote(whole);
        return quoted ? outcome_text(DESTINATION_E_INVALID, ret_text,
                                     "%s has no port from 1 to 65535: give NAME:PORT", quoted)
                      : error_origin(-ENOMEM);
}

static int parse_type(Destination *destination, const char *s, char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;

        for (DestinationType type = 0; type_words[type]; type++)
                if (string_equal(type_words[type], s)) {
                        destination->type = type;
                        return 0;
                }
        quoted = diag_quote(s);
        return quoted ? outcome_text(DESTINATION_E_INVALID, ret_text,
                                     "the type %s is unknown; known are tls, http and tcp", quoted)
                      : error_origin(-ENOMEM);
}

static int parse_addresses(Destination *destination, char *s, char **ret_text) {
        int r = 0;

        while (r == 0 && s) {
                char *one = strsep(&s, ",");

                r = add_address(destination, one, ret_text);
        }
        return r;
}

/* What a browser shows is no destination, but what people have at hand. */
static int url_invalid(const char *s, const char *scheme_end, char **ret_text) {
        _cleanup_(freep) char *quoted = diag_quote(s);

        return quoted ? outcome_text(DESTINATION_E_INVALID, ret_text,
                                     "%s is a URL: give NAME:PORT, without \"%.*s\" and a path",
                                     quoted, (int) (scheme_end - s), s)
                      : error_origin(-ENOMEM);
}

int destination_list_parse(DestinationList *list, const char *s, char **ret_text) {
        _cleanup_(freep) char *copy = strdup(s);
        _cleanup_(destination_done) Destination destination = {};
        char *addresses, *type, *port, *scheme;
        int r;

        if (!copy)
                return error_origin(-ENOMEM);
        scheme = strstr(s, "://");
        if (scheme)
                return url_invalid(s, scheme + strlen("://"), ret_text);
        addresses = strchr(copy, '@');
        if (addresses)
                *addresses++ = 0;
        type = strchr(copy, '/');
        if (type)
                *type++ = 0;
        port = strrchr(copy, ':');
        if (port)
                *port++ = 0;

        r = destination_name_parse(copy, &destination.name, ret_text);
        if (r == 0)
                r = parse_port(&destination, s, port ?: "", ret_text);
        if (r != 0)
                return r;
        destination.type = type_default(destination.port);
        if (type)
                r = parse_type(&destination, type, ret_text);
        if (r == 0 && addresses)
                r = parse_addresses(&destination, addresses, ret_text);
        return r == 0 ? list_add(list, &destination, ret_text) : r;
}

char *destination_format(const Destination *destination) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        char text[CIDR_TEXT_SIZE];
        int r;

        r = strbuf_appendf(&out, "%s:%u/%s", destination->name, destination->port,
                           type_words[destination->type]);
        for (size_t i = 0; r == 0 && i < destination->n_addresses; i++) {
                cidr_format(&destination->addresses[i], text);
                r = strbuf_appendf(&out, "%c%s", i > 0 ? ',' : '@', text);
        }
        return r < 0 ? NULL : strbuf_steal(&out);
}

/* --- the object form --- */

/* An object that is being read. */
typedef struct DestinationRead {
        Destination destination;
        bool has_type;
} DestinationRead;

/* A fault at that node, by a text that one of the functions above has given. */
static int fault_text(const Reader *reader, const JsonNode *node, int r, char *text) {
        _cleanup_(freep) char *owned = text;

        return r == DESTINATION_E_INVALID ? reader_fault(reader, node, "%s", owned)
                                          : error_trace(r);
}

static int read_name(const Reader *reader, const JsonNode *node, void *target) {
        DestinationRead *read = target;
        _cleanup_(freep) char *s = NULL;
        char *text = NULL;
        int r;

        r = reader_string(reader, node, &s);
        if (r < 0 || !s)
                return error_trace(r);
        free(read->destination.name);
        read->destination.name = NULL;
        r = destination_name_parse(s, &read->destination.name, &text);
        return fault_text(reader, node, r, text);
}

static int read_port(const Reader *reader, const JsonNode *node, void *target) {
        DestinationRead *read = target;
        uint64_t port = 0;
        int r;

        r = reader_count(reader, node, 1, UINT16_MAX, &port);
        read->destination.port = (uint16_t) port;
        return error_trace(r);
}

static int read_type(const Reader *reader, const JsonNode *node, void *target) {
        DestinationRead *read = target;
        size_t index = 0;
        int r;

        r = reader_choice(reader, node, type_words, &index);
        read->destination.type = (DestinationType) index;
        read->has_type = true;
        return error_trace(r);
}

static int read_address(const Reader *reader, const JsonNode *node, void *target) {
        DestinationRead *read = target;
        _cleanup_(freep) char *s = NULL;
        char *text = NULL;
        int r;

        r = reader_string(reader, node, &s);
        if (r < 0 || !s)
                return error_trace(r);
        r = add_address(&read->destination, s, &text);
        return fault_text(reader, node, r, text);
}

static int read_addresses(const Reader *reader, const JsonNode *node, void *target) {
        return reader_array(reader, node, read_address, target);
}

static const ReaderKey destination_keys[] = {
        {.name = "name", .read = read_name},
        {.name = "port", .read = read_port},
        {.name = "type", .read = read_type},
        {.name = "addresses", .read = read_addresses},
        {},
};

static int read_one_text(const Reader *reader, const JsonNode *node, DestinationList *list) {
        _cleanup_(freep) char *s = NULL;
        char *text = NULL;
        size_t before = list->n_items;
        int r;

        r = reader_string(reader, node, &s);
        if (r < 0 || !s)
                return error_trace(r);
        r = destination_list_parse(list, s, &text);
        if (list->n_items > before)
                list->items[before].line = node->line;
        return fault_text(reader, node, r, text);
}

int destination_list_read_one(const Reader *reader, const JsonNode *node, DestinationList *list) {
        DestinationRead read = {};
        size_t before = reader_n_faults(reader->diags);
        char *text = NULL;
        int r;

        if (node->type == JSON_NODE_STRING)
                return read_one_text(reader, node, list);
        if (node->type != JSON_NODE_OBJECT)
                return reader_fault_value(reader, node,
                                          "is no destination such as {\"name\": \"pypi.org\", "
                                          "\"port\": 443} or \"pypi.org:443\"");
        r = reader_object(reader, node, destination_keys, &read);
        if (r == 0 && reader_n_faults(reader->diags) == before) {
                if (!read.destination.name || read.destination.port == 0)
                        r = reader_fault(reader, node, "\"%s\" is missing",
                                         read.destination.name ? "port" : "name");
                else {
                        if (!read.has_type)
                                read.destination.type = type_default(read.destination.port);
                        read.destination.line = node->line;
                        r = list_add(list, &read.destination, &text);
                        r = fault_text(reader, node, r, text);
                }
        }
        destination_done(&read.destination);
        return error_trace(r);
}

static int read_destination(const Reader *reader, const JsonNode *node, void *target) {
        return destination_list_read_one(reader, node, target);
}

int destination_list_read(const Reader *reader, const JsonNode *node, DestinationList *list) {
        list->line = node->line;
        return error_trace(reader_array(reader, node, read_destination, list));
}

/* --- several lists --- */

static bool has_address(const Destination *destination, const Cidr *cidr) {
        for (size_t i = 0; i < destination->n_addresses; i++)
                if (cidr_contains(&destination->addresses[i], cidr))
                        return true;
        return false;
}

static int merge_addresses(Destination *destination, const Destination *from, char **ret_text) {
        char text[CIDR_TEXT_SIZE];
        int r = 0;

        for (size_t i = 0; r == 0 && i < from->n_addresses; i++) {
                if (has_address(destination, &from->addresses[i]))
                        continue;
                cidr_format(&from->addresses[i], text);
                r = add_address(destination, text, ret_text);
        }
        return r;
}

static int merge_one(DestinationList *list, const Destination *from, char **ret_text) {
        Destination *same = (Destination *) destination_list_find(list, from->name, from->port);
        _cleanup_(destination_done)
                Destination copy = {.port = from->port, .type = from->type, .line = from->line};
        int r;

        if (same && same->type != from->type)
                return outcome_text(DESTINATION_E_INVALID, ret_text,
                                    "%s:%u is asked for as %s and as %s: leave one out", from->name,
                                    from->port, type_words[same->type], type_words[from->type]);
        if (same)
                return merge_addresses(same, from, ret_text);
        copy.name = strdup(from->name);
        if (!copy.name)
                return error_origin(-ENOMEM);
        r = merge_addresses(&copy, from, ret_text);
        return r == 0 ? list_add(list, &copy, ret_text) : r;
}

int destination_list_merge(DestinationList *list, const DestinationList *from, char **ret_text) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < from->n_items; i++)
                r = merge_one(list, &from->items[i], ret_text);
        return r;
}

/* A network is no name, and so covers none. */
const char *destination_name_find_denied(const StrV *deny, const char *name) {
        for (size_t i = 0; i < deny->n_items; i++)
                if (destination_name_covers(deny->items[i], name))
                        return deny->items[i];
        return NULL;
}

void destination_list_drop_denied(DestinationList *list, const StrV *deny) {
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++)
                if (destination_name_find_denied(deny, list->items[i].name))
                        destination_done(&list->items[i]);
                else
                        list->items[n++] = list->items[i];
        list->n_items = n;
}

/* The stricter form of what is allowed is allowed, too. */
static bool covers(const Destination *rule, const Destination *asked) {
        if (rule->port != asked->port || !destination_name_covers(rule->name, asked->name) ||
            (rule->type != asked->type && rule->type != DESTINATION_TCP))
                return false;
        for (size_t i = 0; i < asked->n_addresses; i++)
                if (!has_address(rule, &asked->addresses[i]))
                        return false;
        return true;
}

const Destination *destination_list_cover(const DestinationList *list,
                                          const Destination *destination) {
        for (size_t i = 0; i < list->n_items; i++)
                if (covers(&list->items[i], destination))
                        return &list->items[i];
        return NULL;
}
