/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* What the crate's network has counted; 0 for what the kernel does not tell. */
typedef struct NetCounters {
        uint64_t refused;  /* connections that nobody accepted */
        uint64_t unrouted; /* packets that had no route */
        uint64_t unheard;  /* datagrams to a port that nobody has */
} NetCounters;

void net_counters_read(NetCounters *ret_counters);
