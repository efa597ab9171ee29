/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/cidr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "basic/macros.h"
#include "basic/parse-util.h"

static bool is_mapped(const Cidr *cidr) {
        static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

        return cidr->size == 16 && memcmp(cidr->address, prefix, sizeof(prefix)) == 0;
}

/* Clears what lies behind the prefix; true if there was something. */
static bool clear_host_bits(Cidr *cidr) {
        bool found = false;

        for (unsigned i = cidr->prefix; i < cidr->size * 8U; i++) {
                uint8_t bit = (uint8_t) (0x80U >> (i % 8));

                found = found || (cidr->address[i / 8] & bit);
                cidr->address[i / 8] &= (uint8_t) ~bit;
        }
        return found;
}

static int parse_prefix(const char *s, unsigned max, uint8_t *ret_prefix) {
        uint64_t prefix;

        /* "08" and the like have more than one meaning elsewhere. */
        if ((s[0] == '0' && s[1]) || parse_uint64(s, &prefix) != 0 || prefix > max)
                return CIDR_E_SYNTAX;
        *ret_prefix = (uint8_t) prefix;
        return 0;
}

int cidr_parse(const char *s, Cidr *ret_cidr) {
        const char *slash = strchr(s, '/');
        size_t n = slash ? (size_t) (slash - s) : strlen(s);
        char address[INET6_ADDRSTRLEN];
        Cidr cidr = {};
        int r;

        if (n >= sizeof(address))
                return CIDR_E_SYNTAX;
        memcpy(address, s, n);
        address[n] = 0;
        cidr.size = strchr(address, ':') ? 16 : 4;
        if (inet_pton(cidr.size == 4 ? AF_INET : AF_INET6, address, cidr.address) != 1)
                return CIDR_E_SYNTAX;
        cidr.prefix = (uint8_t) (cidr.size * 8U);
        if (slash) {
                r = parse_prefix(slash + 1, cidr.prefix, &cidr.prefix);
                if (r != 0)
                        return r;
        }
        if (is_mapped(&cidr))
                return CIDR_E_MAPPED;
        r = clear_host_bits(&cidr) ? CIDR_E_HOST_BITS : 0;
        *ret_cidr = cidr;
        return r;
}

const char *cidr_error_to_string(int outcome) {
        switch (outcome) {
        case CIDR_E_HOST_BITS:
                return "names an address within its range";
        case CIDR_E_MAPPED:
                return "is an IPv4 address in the form of IPv6: give it as IPv4";
        default:
                return "is no range of addresses such as 10.0.0.0/8 or fd12::/16";
        }
}

void cidr_format(const Cidr *cidr, char *ret) {
        char address[INET6_ADDRSTRLEN] = "";

        (void) inet_ntop(cidr->size == 4 ? AF_INET : AF_INET6, cidr->address, address,
                         sizeof(address));
        (void) snprintf(ret, CIDR_TEXT_SIZE, "%s/%u", address, cidr->prefix);
}

bool cidr_contains(const Cidr *outer, const Cidr *inner) {
        Cidr cut = *inner;

        if (outer->size != inner->size || outer->prefix > inner->prefix)
                return false;
        cut.prefix = outer->prefix;
        (void) clear_host_bits(&cut);
        return memcmp(cut.address, outer->address, outer->size) == 0;
}
