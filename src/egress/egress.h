/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Serves hosts by their links: posts traces, and opens and ends sessions. */

#include "egress/loop.h"
#include "egress/session.h"

typedef struct Egress Egress;

/* link_fd is consumed. told is called when the link has ended, with 0, or a negative errno if the
 * host broke the protocol; it frees the Egress, which closes all that was served by the link. */
int egress_new(const SessionHost *host, int link_fd,
               void (*told)(void *userdata, Egress *egress, int result), void *userdata,
               Egress **ret_egress);
Egress *egress_free(Egress *egress);
DEFINE_CLEANUP(Egress, egress_free);
