/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The two ways in which the program lives: for one host, or for all that connect. */

#include <stdbool.h>

#include "egress/secret.h"

/* Until the link, which is consumed, ends. 0, or a negative errno if the host broke the protocol.
 */
int serve_host(int link_fd, const SecretFolders *secrets);

/* admit says who is served; told, that one is no more: 0, or a negative errno if it broke the
 * protocol. Ends with a negative errno only. */
int serve_hosts(int listen_fd, const SecretFolders *secrets, bool (*admit)(void *userdata, int fd),
                void (*told)(void *userdata, int result), void *userdata);
