/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DNS as the stub speaks it: one question in, the answer to it out. Nothing of a query is ever
 * passed on, so all of it that is looked at is the header, the question and whether EDNS is spoken.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

#define DNS_NAME_MAX 253U
/* A name in its escaped form, whatever bytes it has. */
#define DNS_TEXT_MAX 1024U
#define DNS_QUERY_MAX 4096U
#define DNS_REPLY_MAX 512U

enum {
        DNS_TYPE_A = 1,
        DNS_TYPE_AAAA = 28,
        DNS_TYPE_OPT = 41,
};

enum {
        DNS_CLASS_IN = 1,
};

typedef enum DnsCode {
        DNS_OK = 0,
        DNS_FORMERR = 1,
        DNS_SERVFAIL = 2,
        DNS_NXDOMAIN = 3,
        DNS_NOTIMP = 4,
        DNS_REFUSED = 5,
        DNS_BADVERS = 16,
} DnsCode;

typedef struct DnsQuery {
        uint16_t id;
        uint16_t flags; /* as they came */
        uint16_t type, class;
        /* Lower case, without the last dot; bytes that no name of a host has are \DDD. */
        char name[DNS_TEXT_MAX];
        bool is_plain; /* letters, digits, hyphens, underscores only, and not longer than a name */
        bool has_edns;
        const uint8_t *question; /* in the message */
        size_t question_size;
} DnsQuery;

enum {
        _DNS_E_SUCCESS,
        DNS_E_DROP, /* nobody who asks sends this: there is no answer */
        DNS_E_CODE, /* ret_code is the answer; of the query only id, flags and EDNS hold */
};

/* message is borrowed as long as the query is used. */
int dns_query_parse(const uint8_t *message, size_t size, DnsQuery *ret_query, DnsCode *ret_code);

/* address may be NULL: no such record. Returns the size. */
size_t dns_reply_write(const DnsQuery *query, DnsCode code, const Address *address,
                       uint32_t ttl_sec, uint8_t reply[static DNS_REPLY_MAX]);
