/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One connection that speaks HTTP: at the broker's own socket, where the first byte tells, or at a
 * listener of its own. It serves GET and HEAD of /metrics.
 *
 * Whoever connects can hold up nothing: a request, an answer that is not taken and the time between
 * two requests have their deadlines, and what is sent ahead waits in the kernel.
 */

#include "broker/manager.h"

/* Connections by TCP: whoever is on this host may make them. */
#define HTTP_CLIENT_TCP_MAX 64U

/*
 * Consumes fd, also on failure. data is what was read already. The budget was charged by the caller
 * for that user and is released with it.
 */
int http_client_new(Manager *manager, int fd, uid_t uid, const char *data, size_t size);
/* Takes a connection by TCP, or refuses it. Consumes fd. */
void http_client_admit(Manager *manager, int fd);
HttpClient *http_client_free(HttpClient *client);
DEFINE_CLEANUP(HttpClient, http_client_free);

/* Whether a connection that begins with this byte speaks HTTP. No JSON text begins with a capital
 * letter, and every method does. */
static inline bool http_client_begins(char first) {
        return first >= 'A' && first <= 'Z';
}
