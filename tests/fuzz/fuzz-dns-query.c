/* SPDX-License-Identifier: Apache-2.0 */

/* Whatever is asked, the answer is one message that fits, carries the question's id, and says no
 * more than it was told to. */

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egress/destination-name.h"
#include "egress/dns-message.h"

static void check_reply(const DnsQuery *query, DnsCode code, const Address *address) {
        uint8_t reply[DNS_REPLY_MAX];
        size_t size = dns_reply_write(query, code, address, 30, reply);

        FUZZ_ASSERT(size >= 12 && size <= sizeof(reply));
        FUZZ_ASSERT(reply[0] == query->id >> 8 && reply[1] == (query->id & 0xff));
        FUZZ_ASSERT(reply[2] & 0x80 && (reply[3] & 0xf) == ((unsigned) code & 0xf));
        FUZZ_ASSERT(reply[7] == (address != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const Address v4 = {.family = AF_INET}, v6 = {.family = AF_INET6};
        DnsCode code = DNS_OK;
        DnsQuery query;
        int r;

        r = dns_query_parse(data, size, &query, &code);
        FUZZ_ASSERT(r == 0 || r == DNS_E_DROP || r == DNS_E_CODE);
        if (r == DNS_E_DROP)
                return 0;
        if (r == DNS_E_CODE) {
                FUZZ_ASSERT(code != DNS_OK && query.question_size == 0);
                check_reply(&query, code, NULL);
                return 0;
        }
        FUZZ_ASSERT(query.question == data + 12 && query.question_size <= size - 12);
        FUZZ_ASSERT(strnlen(query.name, sizeof(query.name)) < sizeof(query.name));
        FUZZ_ASSERT(query.is_plain == destination_name_is_valid(query.name, false));
        check_reply(&query, DNS_NXDOMAIN, NULL);
        check_reply(&query, DNS_OK, &v4);
        check_reply(&query, DNS_OK, &v6);
        return 0;
}
