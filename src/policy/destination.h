/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a job may connect to: a name, a port, what is spoken there, and, where the name leads to
 * addresses that nothing may reach otherwise, those addresses. In files and calls an object or a
 * text, on the command line that text, "NAME:PORT[/tls|http|tcp][@CIDR,...]".
 *
 * "*.example.org" stands for all names below example.org and not for that one. At least two labels
 * follow the star, so that nobody allows a whole top-level domain.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"
#include "policy/cidr.h"
#include "policy/reader.h"

/* Names of one list, and of one job. */
#define DESTINATIONS_MAX 64U
#define DESTINATION_NAME_MAX 253U
#define DESTINATION_ADDRESSES_MAX 16U

typedef enum DestinationType {
        DESTINATION_TLS,  /* only TLS, for that name */
        DESTINATION_HTTP, /* only HTTP/1, for that name */
        DESTINATION_TCP,  /* anything */
} DestinationType;

typedef struct Destination {
        char *name; /* lower case, without a dot at its end */
        uint16_t port;
        DestinationType type;
        Cidr *addresses; /* private ones that it may lead to */
        size_t n_addresses;
        uint32_t line; /* where it stands; 0: in no file */
} Destination;

typedef struct DestinationList {
        Destination *items;
        size_t n_items;
        uint32_t line; /* of the list; 0: there is none */
} DestinationList;

#define DESTINATION_LIST_NULL ((DestinationList){})

enum {
        _DESTINATION_E_SUCCESS,
        DESTINATION_E_INVALID, /* ret_text tells; owned by the caller */
};

void destination_list_done(DestinationList *list);

/* A name as a policy has it: ret_name is in the one form that is compared. */
int destination_name_parse(const char *s, char **ret_name, char **ret_text);
/* Adds the one of a text "NAME:PORT[/TYPE][@CIDR,...]". */
int destination_list_parse(DestinationList *list, const char *s, char **ret_text);
/* Adds those of an array of objects and texts; faults go to the reader's diagnostics. 0 or -ENOMEM.
 */
int destination_list_read(const Reader *reader, const JsonNode *node, DestinationList *list);
/* Adds the one of an object or a text. The same. */
int destination_list_read_one(const Reader *reader, const JsonNode *node, DestinationList *list);
/* Adds those of from. What stands in both becomes one, with the addresses of both; it must be of
 * one type. */
int destination_list_merge(DestinationList *list, const DestinationList *from, char **ret_text);

static inline bool destination_is_wildcard(const Destination *destination) {
        return destination->name[0] == '*';
}

/* Whether a name, or all names of a wildcard, belong to a name or wildcard of a policy. */
bool destination_name_covers(const char *pattern, const char *name);
/* The entry of a configuration's egress.deny, networks and names, that covers the name or wildcard;
 * NULL: none does. */
const char *destination_name_find_denied(const StrV *deny, const char *name);
/* Takes out what they cover as a whole: whatever allows it, it does not count. */
void destination_list_drop_denied(DestinationList *list, const StrV *deny);
/* The entry for that name and port, or NULL. */
const Destination *destination_list_find(const DestinationList *list, const char *name,
                                         uint16_t port);
/* The entry that allows everything which this one asks for, or NULL. */
const Destination *destination_list_cover(const DestinationList *list,
                                          const Destination *destination);

const char *destination_type_to_string(DestinationType type);
/* The text form of it, with its type. Owned by the caller, NULL if out of memory. */
char *destination_format(const Destination *destination);
