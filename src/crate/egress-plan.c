/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/egress-plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "basic/time-util.h"
#include "ipc/proto.h"

/* Names of one wildcard that can be in use at a time. */
#define WILDCARD_SLOTS 16U
#define DNS_PORT 53U
#define HTTP_PORT 80U
/* udp4 tcp4 udp6 tcp6 */
#define DNS_SOCKETS 4U
/* The stub has the first address. */
#define FIRST_SLOT 2U

_Static_assert(EGRESS_SESSION_SOCKETS_MAX == PLAN_LISTENS_MAX, "one bound, named in two places");

typedef struct EgressName {
        const char *name; /* of the first port's destination */
        size_t *ports;    /* indexes of destinations */
        size_t n_ports;
        size_t first_slot, n_slots;
        size_t first_socket;
} EgressName;

/* Of one credential: its host has one pair of addresses, and port 80. */
typedef struct EgressCredential {
        char *name, *ca, *document;
        size_t slot, first_socket;
} EgressCredential;

struct EgressPlan {
        DestinationList destinations;
        EgressName *names;
        size_t n_names;
        EgressCredential *credentials;
        size_t n_credentials;
        size_t n_sockets;
        StrV deny, resolver;
        uint64_t connections, idle_usec, bytes;
        char *tenant; /* NULL: none is told of */
};

EgressPlan *egress_plan_free(EgressPlan *plan) {
        if (!plan)
                return NULL;
        for (size_t i = 0; i < plan->n_names; i++)
                free(plan->names[i].ports);
        free(plan->names);
        for (size_t i = 0; i < plan->n_credentials; i++) {
                free(plan->credentials[i].name);
                free(plan->credentials[i].ca);
                free(plan->credentials[i].document);
        }
        free(plan->credentials);
        destination_list_done(&plan->destinations);
        strv_done(&plan->deny);
        strv_done(&plan->resolver);
        free(plan->tenant);
        free(plan);
        return NULL;
}

EgressSettings egress_settings(const ConfigEgress *config) {
        return (EgressSettings){
                .deny = &config->deny,
                .resolver = &config->resolver,
                .connections = config->connections,
                .idle_usec = config->idle_usec,
                .bytes = config->bytes,
        };
}

size_t egress_plan_n_sockets(const EgressPlan *plan) {
        return plan->n_sockets;
}

/* --- names, and the ports of each --- */

static EgressName *find_name(EgressPlan *plan, const char *name) {
        for (size_t i = 0; i < plan->n_names; i++)
                if (string_equal(plan->names[i].name, name))
                        return &plan->names[i];
        return NULL;
}

static bool has_port(const EgressPlan *plan, const EgressName *name, uint16_t port) {
        for (size_t i = 0; i < name->n_ports; i++)
                if (plan->destinations.items[name->ports[i]].port == port)
                        return true;
        return false;
}

static int add_port(EgressPlan *plan, EgressName *name, size_t destination) {
        if (!name->ports) {
                name->ports = calloc(plan->destinations.n_items, sizeof(*name->ports));
                if (!name->ports)
                        return error_origin(-ENOMEM);
        }
        if (!has_port(plan, name, plan->destinations.items[destination].port))
                name->ports[name->n_ports++] = destination;
        return 0;
}

/* Of the destinations that cover the name and have that port, the one that says most: the name
 * itself, else the longest wildcard. So it does not matter in which order they stand. */
static size_t find_deciding(const DestinationList *list, const EgressName *name, uint16_t port) {
        size_t found = SIZE_MAX;

        for (size_t i = 0; i < list->n_items; i++) {
                const char *pattern = list->items[i].name;

                if (list->items[i].port == port && destination_name_covers(pattern, name->name) &&
                    (found == SIZE_MAX || string_equal(pattern, name->name) ||
                     (!string_equal(list->items[found].name, name->name) &&
                      strlen(pattern) > strlen(list->items[found].name))))
                        found = i;
        }
        return found;
}

/* What a wildcard covers, too, has the wildcard's ports as well: it would not be found among the
 * wildcard's. */
static int collect_ports(EgressPlan *plan, EgressName *name) {
        const DestinationList *list = &plan->destinations;
        int r = 0;

        for (size_t i = 0; r == 0 && i < list->n_items; i++)
                if (destination_name_covers(list->items[i].name, name->name))
                        r = add_port(plan, name, find_deciding(list, name, list->items[i].port));
        return r;
}

static int collect_names(EgressPlan *plan) {
        const DestinationList *list = &plan->destinations;
        size_t slot = FIRST_SLOT;
        int r = 0;

        plan->names = calloc(size_max(list->n_items, 1), sizeof(*plan->names));
        if (!plan->names)
                return error_origin(-ENOMEM);
        plan->n_sockets = DNS_SOCKETS;
        for (size_t i = 0; r == 0 && i < list->n_items; i++) {
                EgressName *name;

                if (find_name(plan, list->items[i].name))
                        continue;
                name = &plan->names[plan->n_names++];
                *name = (EgressName){
                        .name = list->items[i].name,
                        .first_slot = slot,
                        .n_slots = destination_is_wildcard(&list->items[i]) ? WILDCARD_SLOTS : 1,
                        .first_socket = plan->n_sockets,
                };
                r = collect_ports(plan, name);
                slot += name->n_slots;
                plan->n_sockets += name->n_slots * name->n_ports * 2;
        }
        return r;
}

static int add_credential(EgressPlan *plan, const Credential *from, const StrV *rules,
                          size_t slot) {
        EgressCredential *credential = &plan->credentials[plan->n_credentials++];
        _cleanup_(strbuf_done) StrBuf document = STRBUF_NULL;
        int r;

        credential->slot = slot;
        credential->first_socket = plan->n_sockets;
        plan->n_sockets += 2;
        credential->name = strdup(from->name);
        if (from->ca_text)
                credential->ca = strdup(from->ca_text);
        if (!credential->name || (from->ca_text && !credential->ca))
                return error_origin(-ENOMEM);
        r = credential_write(from, rules, &document);
        if (r < 0)
                return error_trace(r);
        credential->document = strbuf_steal(&document);
        return credential->document ? 0 : error_origin(-ENOMEM);
}

/* Behind the names, so that what names have does not depend on them. */
static int collect_credentials(EgressPlan *plan, const EgressGrants *grants) {
        size_t slot = FIRST_SLOT;
        int r = 0;

        if (grants->tenant) {
                plan->tenant = strdup(grants->tenant);
                if (!plan->tenant)
                        return error_origin(-ENOMEM);
        }
        for (size_t i = 0; i < plan->n_names; i++)
                slot += plan->names[i].n_slots;
        plan->credentials = calloc(grants->n_credentials + 1, sizeof(*plan->credentials));
        if (!plan->credentials)
                return error_origin(-ENOMEM);
        for (size_t i = 0; r == 0 && i < grants->n_credentials; i++)
                if (credential_n_covered(grants->credentials[i], grants->rules) > 0)
                        r = add_credential(plan, grants->credentials[i], grants->rules, slot++);
        return r;
}

int egress_plan_new(const DestinationList *destinations, const EgressGrants *grants,
                    const EgressSettings *settings, EgressPlan **ret_plan, CrateError *ret_error) {
        _cleanup_(egress_plan_freep) EgressPlan *plan = calloc(1, sizeof(*plan));
        _cleanup_(freep) char *text = NULL;
        int r;

        if (!plan)
                return error_origin(-ENOMEM);
        plan->connections = settings->connections;
        plan->idle_usec = settings->idle_usec;
        plan->bytes = settings->bytes;
        r = destination_list_merge(&plan->destinations, destinations, &text);
        if (r == DESTINATION_E_INVALID) {
                (void) crate_error_set(ret_error, "egress", EINVAL, NULL, NULL, "egress: %s", text);
                return EGRESS_PLAN_E_INVALID;
        }
        destination_list_drop_denied(&plan->destinations, settings->deny);
        if (r == 0)
                r = strv_copy(&plan->deny, settings->deny);
        if (r == 0)
                r = strv_copy(&plan->resolver, settings->resolver);
        if (r == 0)
                r = collect_names(plan);
        if (r == 0 && grants)
                r = collect_credentials(plan, grants);
        if (r < 0)
                return error_trace(r);
        if (plan->n_sockets > PLAN_LISTENS_MAX) {
                (void) crate_error_set(ret_error, "egress", E2BIG, NULL,
                                       "name hosts instead of wildcards, each of which takes 32 "
                                       "sockets for a port",
                                       "egress: the destinations need %zu sockets, the limit is %u",
                                       plan->n_sockets, PLAN_LISTENS_MAX);
                return EGRESS_PLAN_E_INVALID;
        }
        *ret_plan = TAKE_PTR(plan);
        return 0;
}

/* --- addresses and sockets --- */

#define ADDRESS_SIZE 24U

/* The n-th address of both ranges, which are much larger than any n. */
static void slot_address(size_t n, bool v6, char *ret) {
        if (v6)
                (void) snprintf(ret, ADDRESS_SIZE, "fd00:ac::%zx", n & 0xffff);
        else
                (void) snprintf(ret, ADDRESS_SIZE, "198.18.%zu.%zu", n >> 8 & 0xff, n & 0xff);
}

static size_t socket_index(const EgressName *name, size_t slot, size_t port, bool v6) {
        return name->first_socket + (slot * name->n_ports + port) * 2 + v6;
}

static int add_listen(CratePlan *crate, size_t slot, bool v6, uint16_t port, uint32_t flags,
                      const char *what) {
        char address[ADDRESS_SIZE];

        slot_address(slot, v6, address);
        return plan_add(crate, &(PlanOp){.type = PLAN_OP_LISTEN,
                                         .flags = flags | (v6 ? PLAN_OPTIONAL : 0),
                                         .source = address,
                                         .a = port,
                                         .data = what,
                                         .data_size = strlen(what)});
}

static int add_name(const EgressPlan *plan, const EgressName *name, CratePlan *crate) {
        int r = 0;

        for (size_t slot = 0; slot < name->n_slots; slot++)
                for (size_t i = 0; r == 0 && i < name->n_ports; i++) {
                        const Destination *d = &plan->destinations.items[name->ports[i]];
                        _cleanup_(freep) char *text = destination_format(d);

                        if (!text)
                                return error_origin(-ENOMEM);
                        for (int v6 = 0; r == 0 && v6 < 2; v6++)
                                r = add_listen(crate, name->first_slot + slot, v6, d->port, 0,
                                               text);
                }
        return r;
}

static int add_credential_host(const EgressCredential *credential, CratePlan *crate) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_appendf(&text, "%s" CREDENTIAL_HOST_SUFFIX, credential->name);
        for (int v6 = 0; r == 0 && v6 < 2; v6++)
                r = add_listen(crate, credential->slot, v6, HTTP_PORT, 0, text.data);
        return r;
}

int egress_plan_add(const EgressPlan *plan, CratePlan *crate) {
        int r = 0;

        for (int v6 = 0; r == 0 && v6 < 2; v6++) {
                r = add_listen(crate, 1, v6, DNS_PORT, PLAN_DATAGRAM, "dns");
                if (r == 0)
                        r = add_listen(crate, 1, v6, DNS_PORT, 0, "dns");
        }
        for (size_t i = 0; r == 0 && i < plan->n_names; i++)
                r = add_name(plan, &plan->names[i], crate);
        for (size_t i = 0; r == 0 && i < plan->n_credentials; i++)
                r = add_credential_host(&plan->credentials[i], crate);
        return r < 0 ? error_trace(r) : 0;
}

/* --- the document --- */

/* Takes value, which may be NULL. */
static bool member(json_t *object, const char *key, json_t *value) {
        return json_object_set_new(object, key, value) == 0;
}

static bool item(json_t *array, json_t *value) {
        return json_array_append_new(array, value) == 0;
}

static json_t *strings(const StrV *list) {
        json_t *array = json_array();

        for (size_t i = 0; i < list->n_items; i++)
                if (!item(array, json_string(list->items[i]))) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

static json_t *slots_to_json(const EgressName *name) {
        json_t *array = json_array();
        char v4[ADDRESS_SIZE], v6[ADDRESS_SIZE];

        for (size_t slot = 0; slot < name->n_slots; slot++) {
                slot_address(name->first_slot + slot, false, v4);
                slot_address(name->first_slot + slot, true, v6);
                if (!item(array, json_pack("[s,s]", v4, v6))) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *addresses_to_json(const Destination *destination) {
        json_t *array = json_array();
        char text[CIDR_TEXT_SIZE];

        for (size_t i = 0; i < destination->n_addresses; i++) {
                cidr_format(&destination->addresses[i], text);
                if (!item(array, json_string(text))) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *sockets_to_json(const EgressName *name, size_t port, const int *numbers) {
        json_t *array = json_array();

        for (size_t slot = 0; slot < name->n_slots; slot++)
                if (!item(array, json_pack("[i,i]", numbers[socket_index(name, slot, port, false)],
                                           numbers[socket_index(name, slot, port, true)]))) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

static json_t *ports_to_json(const EgressPlan *plan, const EgressName *name, const int *numbers) {
        json_t *array = json_array();

        for (size_t i = 0; i < name->n_ports; i++) {
                const Destination *d = &plan->destinations.items[name->ports[i]];

                if (!item(array, json_pack("{s:i,s:s,s:o,s:o}", "port", (int) d->port, "type",
                                           destination_type_to_string(d->type), "addresses",
                                           addresses_to_json(d), "sockets",
                                           sockets_to_json(name, i, numbers)))) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *names_to_json(const EgressPlan *plan, const int *numbers) {
        json_t *array = json_array();

        for (size_t i = 0; i < plan->n_names; i++) {
                const EgressName *name = &plan->names[i];

                if (!item(array, json_pack("{s:s,s:o,s:o}", "name", name->name, "slots",
                                           slots_to_json(name), "ports",
                                           ports_to_json(plan, name, numbers)))) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

/* numbers NULL: it is reached by the one connection that there is. */
static json_t *credential_to_json(const EgressCredential *credential, const int *numbers) {
        char v4[ADDRESS_SIZE], v6[ADDRESS_SIZE];
        json_t *object;

        slot_address(credential->slot, false, v4);
        slot_address(credential->slot, true, v6);
        if (numbers)
                object = json_pack("{s:s,s:[[s,s]],s:[[i,i]],s:o}", "name", credential->name,
                                   "slots", v4, v6, "sockets", numbers[credential->first_socket],
                                   numbers[credential->first_socket + 1], "credential",
                                   json_loads(credential->document, 0, NULL));
        else
                object = json_pack("{s:s,s:i,s:o}", "name", credential->name, "connection", 0,
                                   "credential", json_loads(credential->document, 0, NULL));
        if (object && credential->ca && !member(object, "ca", json_string(credential->ca))) {
                json_decref(object);
                return NULL;
        }
        return object;
}

static json_t *credentials_to_json(const EgressPlan *plan, const int *numbers) {
        json_t *array = json_array();

        for (size_t i = 0; i < plan->n_credentials; i++)
                if (!item(array, credential_to_json(&plan->credentials[i], numbers))) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

static json_t *document_to_json(const EgressPlan *plan, const int *numbers) {
        json_t *document;

        document = json_pack(
                "{s:[i,i,i,i],s:o,s:o,s:{s:I,s:I,s:I}}", "dns", numbers ? numbers[0] : -1,
                numbers ? numbers[1] : -1, numbers ? numbers[2] : -1, numbers ? numbers[3] : -1,
                "names", names_to_json(plan, numbers), "deny", strings(&plan->deny), "limits",
                "connections", (json_int_t) plan->connections, "idle_ms",
                (json_int_t) (plan->idle_usec / USEC_PER_MSEC), "bytes", (json_int_t) plan->bytes);
        if (document && plan->resolver.n_items > 0 &&
            !member(document, "resolver",
                    json_pack("{s:o}", "servers", strings(&plan->resolver)))) {
                json_decref(document);
                return NULL;
        }
        if (document && plan->tenant && !member(document, "tenant", json_string(plan->tenant))) {
                json_decref(document);
                return NULL;
        }
        if (document && plan->n_credentials > 0 &&
            !member(document, "credentials", credentials_to_json(plan, numbers))) {
                json_decref(document);
                return NULL;
        }
        return document;
}

int egress_plan_document(const EgressPlan *plan, const int *numbers, int *ret_fd) {
        json_t *document = document_to_json(plan, numbers);
        _cleanup_(freep) char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

        json_decref(document);
        if (!text)
                return error_origin(-ENOMEM);
        if (strlen(text) > EGRESS_SESSION_MAX)
                return error_origin(-E2BIG);
        return memfd_new_sealed("agentcrate-egress", text, strlen(text), ret_fd);
}

int egress_plan_call_document(const EgressGrants *grants, const EgressSettings *settings,
                              int *ret_fd) {
        static const DestinationList none = {};
        _cleanup_(egress_plan_freep) EgressPlan *plan = NULL;
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        int r;

        r = egress_plan_new(&none, grants, settings, &plan, &error);
        if (r == 0)
                r = egress_plan_document(plan, NULL, ret_fd);
        return error_fold(r);
}
