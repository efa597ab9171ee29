/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/listen-address.h"

#include <stdio.h>

#include "basic/parse-util.h"
#include "basic/string-util.h"

int listen_address_parse(const char *s, ListenAddress *ret_address) {
        const char *port = string_after(s, "127.0.0.1:");
        bool ipv6 = false;
        uint64_t value;

        if (!port) {
                port = string_after(s, "[::1]:");
                ipv6 = true;
        }
        /* One spelling: no leading zero. */
        if (!port || *port == '0' || parse_uint64(port, &value) != 0 || value > UINT16_MAX)
                return LISTEN_ADDRESS_E_INVALID;
        *ret_address = (ListenAddress){.ipv6 = ipv6, .port = (uint16_t) value};
        return 0;
}

void listen_address_format(const ListenAddress *address, char buffer[LISTEN_ADDRESS_SIZE]) {
        (void) snprintf(buffer, LISTEN_ADDRESS_SIZE, "%s:%u", address->ipv6 ? "[::1]" : "127.0.0.1",
                        (unsigned) address->port);
}
