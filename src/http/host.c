/* SPDX-License-Identifier: Apache-2.0 */

#include "http/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool is_port(const char *s) {
        size_t n = strspn(s, "0123456789");

        return n <= 5 && s[n] == '\0';
}

static bool is_ipv6_loopback(char *s) {
        struct in6_addr address;
        char *end = strchr(s, ']');

        if (!end || (end[1] != '\0' && (end[1] != ':' || !is_port(end + 2))))
                return false;
        *end = '\0';
        return inet_pton(AF_INET6, s + 1, &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
}

bool http_host_is_loopback(const char *host, size_t size) {
        struct in_addr address;
        char s[INET6_ADDRSTRLEN + sizeof("[]:65535")];
        char *colon;

        if (size >= sizeof(s) || memchr(host, '\0', size))
                return false;
        memcpy(s, host, size);
        s[size] = '\0';

        if (s[0] == '[')
                return is_ipv6_loopback(s);
        colon = strchr(s, ':');
        if (colon) {
                if (!is_port(colon + 1))
                        return false;
                *colon = '\0';
        }
        return strcasecmp(s, "localhost") == 0 ||
               (inet_pton(AF_INET, s, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}
