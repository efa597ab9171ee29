/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The addresses of this machine's interfaces, as they are now: the kernel tells when they change,
 * and they are read again when somebody asks after that. */

#include "basic/macros.h"
#include "egress/address.h"

typedef struct HostAddresses HostAddresses;

int host_addresses_new(HostAddresses **ret_addresses);
HostAddresses *host_addresses_free(HostAddresses *addresses);
DEFINE_CLEANUP(HostAddresses, host_addresses_free);

/* An AddressIsOwn, with the addresses as userdata. Where they cannot be read, every address is. */
bool host_addresses_contain(void *userdata, const Address *address);
