/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "basic/macros.h"
#include "basic/parse-util.h"

typedef struct Row {
        const char *network;
        uint8_t n_bits;
        AddressClass class;
} Row;

/* The first that matches counts, so a part stands before its whole. */
static const Row rows_v4[] = {
        {"169.254.169.254", 32, ADDRESS_METADATA}, /* nearly all clouds */
        {"169.254.170.2", 32, ADDRESS_METADATA},   /* tasks of ECS */
        {"169.254.170.23", 32, ADDRESS_METADATA},  /* pods of EKS */
        {"100.100.100.200", 32, ADDRESS_METADATA}, /* Alibaba */
        {"168.63.129.16", 32, ADDRESS_METADATA},   /* Azure */
        {"192.0.0.192", 32, ADDRESS_METADATA},     /* Oracle */
        {"0.0.0.0", 8, ADDRESS_UNSPECIFIED},       /* dialled, it is this machine */
        {"10.0.0.0", 8, ADDRESS_PRIVATE},
        {"100.64.0.0", 10, ADDRESS_SHARED},
        {"127.0.0.0", 8, ADDRESS_LOOPBACK},
        {"169.254.0.0", 16, ADDRESS_LINK_LOCAL},
        {"172.16.0.0", 12, ADDRESS_PRIVATE},
        {"192.0.0.0", 24, ADDRESS_PROTOCOL},
        {"192.0.2.0", 24, ADDRESS_DOCUMENTATION},
        {"192.88.99.0", 24, ADDRESS_RELAY},
        {"192.168.0.0", 16, ADDRESS_PRIVATE},
        {"198.18.0.0", 15, ADDRESS_BENCHMARK},
        {"198.51.100.0", 24, ADDRESS_DOCUMENTATION},
        {"203.0.113.0", 24, ADDRESS_DOCUMENTATION},
        {"224.0.0.0", 4, ADDRESS_MULTICAST},
        {"255.255.255.255", 32, ADDRESS_BROADCAST},
        {"240.0.0.0", 4, ADDRESS_RESERVED},
};

static const Row rows_v6[] = {
        {"fd00:ec2::", 32, ADDRESS_METADATA},    /* AWS */
        {"fd20:ce::254", 128, ADDRESS_METADATA}, /* Google */
        {"fd00:42::42", 128, ADDRESS_METADATA},  /* Scaleway */
        {"::", 128, ADDRESS_UNSPECIFIED},
        {"::1", 128, ADDRESS_LOOPBACK},
        {"::", 96, ADDRESS_V4_COMPATIBLE},
        {"::ffff:0:0", 96, ADDRESS_V4_MAPPED},
        {"::ffff:0:0:0", 96, ADDRESS_V4_TRANSLATED},
        {"64:ff9b::", 96, ADDRESS_NAT64},
        {"64:ff9b:1::", 48, ADDRESS_NAT64},
        {"100::", 64, ADDRESS_DISCARD},
        {"2001::", 32, ADDRESS_TEREDO},
        {"2001:db8::", 32, ADDRESS_DOCUMENTATION},
        {"2002::", 16, ADDRESS_6TO4},
        {"3fff::", 20, ADDRESS_DOCUMENTATION},
        {"fc00::", 7, ADDRESS_PRIVATE},
        {"fe80::", 10, ADDRESS_LINK_LOCAL},
        {"fec0::", 10, ADDRESS_SITE_LOCAL},
        {"ff00::", 8, ADDRESS_MULTICAST},
};

static const struct {
        const char *name;
        bool can_open;
} classes[_ADDRESS_CLASS_MAX] = {
        [ADDRESS_PUBLIC] = {"public", true},
        [ADDRESS_METADATA] = {"metadata", false},
        [ADDRESS_UNSPECIFIED] = {"unspecified", false},
        [ADDRESS_LOOPBACK] = {"loopback", true},
        [ADDRESS_PRIVATE] = {"private", true},
        [ADDRESS_SHARED] = {"shared", true},
        [ADDRESS_LINK_LOCAL] = {"link-local", false},
        [ADDRESS_PROTOCOL] = {"protocol", false},
        [ADDRESS_DOCUMENTATION] = {"documentation", true},
        [ADDRESS_RELAY] = {"6to4-relay", false},
        [ADDRESS_BENCHMARK] = {"benchmark", true},
        [ADDRESS_MULTICAST] = {"multicast", false},
        [ADDRESS_RESERVED] = {"reserved", false},
        [ADDRESS_BROADCAST] = {"broadcast", false},
        [ADDRESS_V4_COMPATIBLE] = {"ipv4-compatible", false},
        [ADDRESS_V4_MAPPED] = {"ipv4-mapped", false},
        [ADDRESS_V4_TRANSLATED] = {"ipv4-translated", false},
        /* Where a network has no IPv4, all of it lies behind this. */
        [ADDRESS_NAT64] = {"nat64", true},
        [ADDRESS_DISCARD] = {"discard", false},
        [ADDRESS_TEREDO] = {"teredo", false},
        [ADDRESS_6TO4] = {"6to4", false},
        [ADDRESS_SITE_LOCAL] = {"site-local", false},
        [ADDRESS_HOST] = {"host", true},
        [ADDRESS_POLICY] = {"policy", false},
};

const char *address_class_to_string(AddressClass class) {
        return classes[class].name;
}

bool address_class_can_open(AddressClass class) {
        return classes[class].can_open;
}

/* --- networks --- */

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned n_bits) {
        unsigned n_bytes = n_bits / 8, rest = n_bits % 8;

        if (memcmp(a, b, n_bytes) != 0)
                return false;
        return rest == 0 || ((a[n_bytes] ^ b[n_bytes]) >> (8 - rest)) == 0;
}

bool cidr_contains(const Cidr *cidr, const Address *address) {
        return cidr->address.family == address->family &&
               prefix_equal(cidr->address.bytes, address->bytes, cidr->n_bits);
}

static bool any_contains(const Cidr *cidrs, size_t n, const Address *address) {
        for (size_t i = 0; i < n; i++)
                if (cidr_contains(&cidrs[i], address))
                        return true;
        return false;
}

AddressClass address_classify(const Address *address) {
        bool is_v4 = address->family == AF_INET;
        const Row *rows = is_v4 ? rows_v4 : rows_v6;
        size_t n = is_v4 ? ELEMENTSOF(rows_v4) : ELEMENTSOF(rows_v6);

        for (size_t i = 0; i < n; i++) {
                Cidr cidr = {.n_bits = rows[i].n_bits};

                if (address_parse(rows[i].network, &cidr.address) && cidr_contains(&cidr, address))
                        return rows[i].class;
        }
        return ADDRESS_PUBLIC;
}

/* --- IPv4 in IPv6 --- */

/* Where its four bytes lie, by class; Teredo has the client's there, turned round. */
static bool address_embedded(const Address *address, AddressClass class, Address *ret_inner) {
        uint8_t turn = class == ADDRESS_TEREDO ? 0xff : 0;
        size_t at;

        switch (class) {
        case ADDRESS_V4_COMPATIBLE:
        case ADDRESS_V4_MAPPED:
        case ADDRESS_V4_TRANSLATED:
        case ADDRESS_NAT64:
        case ADDRESS_TEREDO:
                at = 12;
                break;
        case ADDRESS_6TO4:
                at = 2;
                break;
        default:
                return false;
        }
        *ret_inner = (Address){.family = AF_INET};
        for (size_t i = 0; i < 4; i++)
                ret_inner->bytes[i] = address->bytes[at + i] ^ turn;
        return true;
}

AddressClass address_judge(const Address *address, const AddressRules *rules) {
        AddressClass class = address_classify(address), inner_class;
        bool opened = any_contains(rules->open, rules->n_open, address);
        Address inner;

        /* Said first, since the log should name what it would have led to. */
        if (address_embedded(address, class, &inner)) {
                inner_class = address_judge(&inner, rules);
                if (inner_class != ADDRESS_PUBLIC)
                        return inner_class;
        }
        if (class == ADDRESS_METADATA)
                return class;
        if (any_contains(rules->deny, rules->n_deny, address))
                return ADDRESS_POLICY;
        if (class != ADDRESS_PUBLIC && !(opened && classes[class].can_open))
                return class;
        if (!opened && rules->is_own && rules->is_own(rules->userdata, address))
                return ADDRESS_HOST;
        return ADDRESS_PUBLIC;
}

/* --- text --- */

bool address_parse(const char *text, Address *ret_address) {
        Address address = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};

        if (inet_pton(address.family, text, address.bytes) != 1)
                return false;
        *ret_address = address;
        return true;
}

bool cidr_parse(const char *text, Cidr *ret_cidr) {
        const char *slash = strchr(text, '/');
        size_t size = slash ? (size_t) (slash - text) : strlen(text);
        char address[ADDRESS_TEXT_MAX];
        uint64_t n_bits;
        Cidr cidr = {};

        if (size >= sizeof(address))
                return false;
        memcpy(address, text, size);
        address[size] = 0;
        if (!address_parse(address, &cidr.address))
                return false;
        n_bits = cidr.address.family == AF_INET ? 32 : 128;
        if (slash) {
                uint64_t given;

                if (parse_uint64(slash + 1, &given) != 0 || given > n_bits)
                        return false;
                n_bits = given;
        }
        cidr.n_bits = (uint8_t) n_bits;
        *ret_cidr = cidr;
        return true;
}

bool address_parse_with_port(const char *text, Address *ret_address, uint16_t *ret_port) {
        const char *colon = strrchr(text, ':'), *end = colon;
        char address[ADDRESS_TEXT_MAX];
        uint64_t port;

        if (!colon)
                return false;
        if (*text == '[') {
                if (colon == text || colon[-1] != ']')
                        return false;
                text++;
                end--;
        }
        if ((size_t) (end - text) >= sizeof(address) ||
            (*end == ':' && memchr(text, ':', (size_t) (end - text))))
                return false;
        memcpy(address, text, (size_t) (end - text));
        address[end - text] = 0;
        if (parse_uint64(colon + 1, &port) != 0 || port == 0 || port > UINT16_MAX ||
            !address_parse(address, ret_address))
                return false;
        *ret_port = (uint16_t) port;
        return true;
}

const char *address_format(const Address *address, char text[static ADDRESS_TEXT_MAX]) {
        return inet_ntop(address->family, address->bytes, text, ADDRESS_TEXT_MAX) ?: "?";
}

bool address_equal(const Address *a, const Address *b) {
        return a->family == b->family &&
               memcmp(a->bytes, b->bytes, a->family == AF_INET ? 4 : 16) == 0;
}

/* --- as the kernel has them --- */

bool address_from_sockaddr(const struct sockaddr *sockaddr, Address *ret_address) {
        *ret_address = (Address){.family = sockaddr->sa_family};
        if (sockaddr->sa_family == AF_INET)
                memcpy(ret_address->bytes, &((const struct sockaddr_in *) sockaddr)->sin_addr, 4);
        else if (sockaddr->sa_family == AF_INET6)
                memcpy(ret_address->bytes, &((const struct sockaddr_in6 *) sockaddr)->sin6_addr,
                       16);
        else
                return false;
        return true;
}

socklen_t address_to_sockaddr(const Address *address, uint16_t port,
                              struct sockaddr_storage *ret_sockaddr) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) ret_sockaddr;
        struct sockaddr_in *v4 = (struct sockaddr_in *) ret_sockaddr;

        *ret_sockaddr = (struct sockaddr_storage){.ss_family = address->family};
        if (address->family == AF_INET) {
                v4->sin_port = htons(port);
                memcpy(&v4->sin_addr, address->bytes, 4);
                return sizeof(*v4);
        }
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, address->bytes, 16);
        return sizeof(*v6);
}
