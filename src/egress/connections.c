/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "basic/error.h"

typedef struct OpenSocket OpenSocket;

struct OpenSocket {
        OpenSocket *next;
        int fd;
};

struct Connections {
        CURLSH *share;
        OpenSocket *sockets; /* all that libcurl has */
};

int connections_new(Connections **ret_connections) {
        _cleanup_(connections_freep) Connections *connections = calloc(1, sizeof(Connections));

        if (!connections)
                return error_origin(-ENOMEM);
        connections->share = curl_share_init();
        if (!connections->share || curl_share_setopt(connections->share, CURLSHOPT_SHARE,
                                                     CURL_LOCK_DATA_CONNECT) != CURLSHE_OK)
                return error_origin(-ENOMEM);
        *ret_connections = TAKE_PTR(connections);
        return 0;
}

Connections *connections_free(Connections *connections) {
        if (!connections)
                return NULL;

        (void) curl_share_cleanup(connections->share);
        for (OpenSocket *socket = connections->sockets, *next; socket; socket = next) {
                next = socket->next;
                free(socket);
        }
        free(connections);
        return NULL;
}

static int on_close(void *userdata, curl_socket_t fd) {
        Connections *connections = userdata;

        for (OpenSocket **socket = &connections->sockets; *socket; socket = &(*socket)->next)
                if ((*socket)->fd == fd) {
                        OpenSocket *closed = *socket;

                        *socket = closed->next;
                        free(closed);
                        break;
                }
        return close(fd);
}

CURLcode connections_use(Connections *connections, CURL *curl) {
        CURLcode code = curl_easy_setopt(curl, CURLOPT_SHARE, connections->share);

        if (code == CURLE_OK)
                code = curl_easy_setopt(curl, CURLOPT_CLOSESOCKETFUNCTION, on_close);
        if (code == CURLE_OK)
                code = curl_easy_setopt(curl, CURLOPT_CLOSESOCKETDATA, connections);
        return code;
}

curl_socket_t connections_open(Connections *connections, const struct curl_sockaddr *to) {
        OpenSocket *opened = calloc(1, sizeof(*opened));

        if (!opened)
                return CURL_SOCKET_BAD;
        opened->fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
        if (opened->fd < 0) {
                free(opened);
                return CURL_SOCKET_BAD;
        }
        opened->next = connections->sockets;
        connections->sockets = opened;
        return opened->fd;
}

static bool has_local_port(int fd, int port) {
        union {
                struct sockaddr any;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        } local = {};
        socklen_t size = sizeof(local);

        if (getsockname(fd, &local.any, &size) < 0)
                return false;
        return ntohs(local.any.sa_family == AF_INET6 ? local.in6.sin6_port : local.in.sin_port) ==
               port;
}

/* What was read from the socket together with the answer, and is not taken yet. A library of TLS
 * that cannot be asked is taken to have something. */
static bool tls_has_pending(CURL *curl) {
        struct curl_tlssessioninfo *info = NULL;

        if (curl_easy_getinfo(curl, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK || !info ||
            info->backend != CURLSSLBACKEND_OPENSSL || !info->internals)
                return true;
        return SSL_has_pending(info->internals) != 0;
}

/* libcurl does not tell a transfer that is under way its socket, but its port. Two may have the
 * same one, to different addresses: what one of them has is held against both. */
bool connections_is_spoilt(const Connections *connections, CURL *curl, int local_port) {
        bool found = false;
        long n_new = 0;

        if (curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &n_new) == CURLE_OK && n_new > 0)
                return false;
        for (const OpenSocket *socket = connections->sockets; socket; socket = socket->next) {
                char byte;

                if (!has_local_port(socket->fd, local_port))
                        continue;
                if (recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
                        return true;
                found = true;
        }
        return !found || tls_has_pending(curl);
}
