/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ranges of addresses, of IPv4 and IPv6: "10.0.0.0/8", "fd12::/16", or one address alone. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Cidr {
        uint8_t address[16];
        uint8_t size;   /* of the address: 4 or 16 */
        uint8_t prefix; /* bits */
} Cidr;

#define CIDR_TEXT_SIZE 52U

enum {
        _CIDR_E_SUCCESS,
        CIDR_E_SYNTAX,    /* no address, or something behind it that is no length of a prefix */
        CIDR_E_HOST_BITS, /* an address within the range, not the range; ret_cidr is that one */
        CIDR_E_MAPPED,    /* IPv4 in the form of IPv6, which no rule ever meets */
};

int cidr_parse(const char *s, Cidr *ret_cidr);
/* What is wrong with a text that gave CIDR_E_X, as a clause. */
const char *cidr_error_to_string(int outcome);
/* The one way to write it. ret has room for CIDR_TEXT_SIZE bytes. */
void cidr_format(const Cidr *cidr, char *ret);
/* Whether every address of inner is one of outer. */
bool cidr_contains(const Cidr *outer, const Cidr *inner);
