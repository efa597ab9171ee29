/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the broker may listen for TCP: on this host only, since whoever reaches it is answered. */

#include <stdbool.h>
#include <stdint.h>

typedef struct ListenAddress {
        bool ipv6;     /* ::1, else 127.0.0.1 */
        uint16_t port; /* 0: nowhere */
} ListenAddress;

enum {
        _LISTEN_ADDRESS_E_SUCCESS,
        LISTEN_ADDRESS_E_INVALID,
};

#define LISTEN_ADDRESS_SIZE sizeof("127.0.0.1:65535")

/* "127.0.0.1:PORT" or "[::1]:PORT". */
int listen_address_parse(const char *s, ListenAddress *ret_address);
void listen_address_format(const ListenAddress *address, char buffer[LISTEN_ADDRESS_SIZE]);
