/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connections to an upstream that libcurl keeps to use them again, for one credential of one
 * session. libcurl itself asks only whether a kept one has ended, not whether something came that
 * nobody asked for: the next request would take it for its answer, and every later one the answer
 * of the one before.
 */

#include <curl/curl.h>

#include "basic/macros.h"

typedef struct Connections Connections;

int connections_new(Connections **ret_connections);
/* No transfer may use them any more. Closes those that were kept. */
Connections *connections_free(Connections *connections);
DEFINE_CLEANUP(Connections, connections_free);

/* The transfer may use one that is kept, and leaves its own to be kept. */
CURLcode connections_use(Connections *connections, CURL *curl);
/* What CURLOPT_OPENSOCKETFUNCTION of such a transfer returns, once it was decided that it may. */
curl_socket_t connections_open(Connections *connections, const struct curl_sockaddr *to);
/* From within CURLOPT_PREREQFUNCTION: whether the transfer is about to use one that was kept, and
 * that has ended or has something to read already. */
bool connections_is_spoilt(const Connections *connections, CURL *curl, int local_port);
