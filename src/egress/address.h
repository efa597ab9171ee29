/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Addresses, and which of them are never dialled: the table of classes that no public name may lead
 * to. A class that can be opened is dialled where a destination itself names the address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX 46U

typedef struct Address {
        sa_family_t family; /* AF_INET or AF_INET6 */
        uint8_t bytes[16];  /* in network order; of IPv4 the first four */
} Address;

typedef struct Cidr {
        Address address;
        uint8_t n_bits;
} Cidr;

typedef enum AddressClass {
        ADDRESS_PUBLIC,
        ADDRESS_METADATA, /* where clouds hand out credentials */
        ADDRESS_UNSPECIFIED,
        ADDRESS_LOOPBACK,
        ADDRESS_PRIVATE,
        ADDRESS_SHARED, /* between providers and their customers */
        ADDRESS_LINK_LOCAL,
        ADDRESS_PROTOCOL,
        ADDRESS_DOCUMENTATION,
        ADDRESS_RELAY, /* of 6to4 */
        ADDRESS_BENCHMARK,
        ADDRESS_MULTICAST,
        ADDRESS_RESERVED,
        ADDRESS_BROADCAST,
        ADDRESS_V4_COMPATIBLE,
        ADDRESS_V4_MAPPED,
        ADDRESS_V4_TRANSLATED,
        ADDRESS_NAT64,
        ADDRESS_DISCARD,
        ADDRESS_TEREDO,
        ADDRESS_6TO4,
        ADDRESS_SITE_LOCAL,
        ADDRESS_HOST,   /* one of this machine's */
        ADDRESS_POLICY, /* that the operator denies */
        _ADDRESS_CLASS_MAX,
} AddressClass;

const char *address_class_to_string(AddressClass class);
/* Whether a destination can name addresses of it that are dialled then. */
bool address_class_can_open(AddressClass class);
/* By the address alone. */
AddressClass address_classify(const Address *address);

/* Whether this machine itself has the address. */
typedef bool (*AddressIsOwn)(void *userdata, const Address *address);

typedef struct AddressRules {
        const Cidr *deny; /* the operator's; nothing opens them */
        size_t n_deny;
        const Cidr *open; /* the destination's */
        size_t n_open;
        AddressIsOwn is_own;
        void *userdata;
} AddressRules;

/* ADDRESS_PUBLIC if it may be dialled, else the class that forbids it. What an IPv6 address carries
 * of IPv4 is judged as well. */
AddressClass address_judge(const Address *address, const AddressRules *rules);

bool cidr_contains(const Cidr *cidr, const Address *address);
/* Text without anything beside it; an address alone is one of all its bits. False: it is none. */
bool cidr_parse(const char *text, Cidr *ret_cidr);
bool address_parse(const char *text, Address *ret_address);
/* ADDRESS:PORT, of IPv6 [ADDRESS]:PORT. */
bool address_parse_with_port(const char *text, Address *ret_address, uint16_t *ret_port);
const char *address_format(const Address *address, char text[static ADDRESS_TEXT_MAX]);
bool address_equal(const Address *a, const Address *b);

bool address_from_sockaddr(const struct sockaddr *sockaddr, Address *ret_address);
socklen_t address_to_sockaddr(const Address *address, uint16_t port,
                              struct sockaddr_storage *ret_sockaddr);
