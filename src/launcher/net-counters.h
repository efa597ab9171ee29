/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* What the crate's network has counted: connections that nobody accepted, and packets that had no
 * route. 0 for what the kernel does not tell. */
void net_counters_read(uint64_t *ret_refused, uint64_t *ret_unrouted);
