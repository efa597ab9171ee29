/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/serve.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "egress/egress.h"

#define PAUSE_USEC 100000ULL

typedef struct Server {
        Loop *loop;
        BufferPool buffers;
        HostAddresses *addresses;
        CurlLoop *curl;
        SessionHost host;
        int result; /* of the last link that ended */
        LoopFd listener;
        LoopTimer pause;
        bool (*admit)(void *userdata, int fd);
        void (*told)(void *userdata, int result);
        void *userdata;
} Server;

static void server_done(Server *server) {
        buffer_pool_done(&server->buffers);
        host_addresses_free(server->addresses);
        curl_loop_free(server->curl);
        loop_free(server->loop);
}

static int server_init(Server *server, const SecretFolders *secrets) {
        int r;

        r = loop_new(&server->loop);
        if (r == 0)
                r = host_addresses_new(&server->addresses);
        if (r == 0)
                r = curl_loop_new(server->loop, &server->curl);
        server->host = (SessionHost){.loop = server->loop,
                                     .buffers = &server->buffers,
                                     .addresses = server->addresses,
                                     .curl = server->curl,
                                     .secrets = secrets};
        return error_trace(r);
}

static void on_only_end(void *userdata, Egress *egress, int result) {
        Server *server = userdata;

        server->result = result;
        egress_free(egress);
        loop_stop(server->loop);
}

int serve_host(int link_fd, const SecretFolders *secrets) {
        _cleanup_(server_done) Server server = {};
        _cleanup_(fd_closep) int fd = link_fd;
        Egress *egress;
        int r;

        r = server_init(&server, secrets);
        if (r == 0)
                r = egress_new(&server.host, TAKE_FD(fd), on_only_end, &server, &egress);
        if (r == 0)
                r = loop_run(server.loop);
        return r < 0 ? error_trace(r) : server.result;
}

static void on_end(void *userdata, Egress *egress, int result) {
        Server *server = userdata;

        egress_free(egress);
        server->told(server->userdata, result);
}

static void on_pause_end(void *userdata) {
        Server *server = userdata;

        (void) loop_change(&server->listener, EPOLLIN);
}

static void on_connection(void *userdata, uint32_t events _unused_) {
        Server *server = userdata;
        _cleanup_(fd_closep) int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC);
        Egress *egress;

        if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
                return;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                (void) loop_change(&server->listener, 0);
                (void) loop_timer_set(server->loop, &server->pause,
                                      loop_now(server->loop) + PAUSE_USEC);
                return;
        }
        if (fd < 0) {
                server->result = error_origin(negative_errno());
                loop_stop(server->loop);
                return;
        }
        if (server->admit(server->userdata, fd))
                (void) egress_new(&server->host, TAKE_FD(fd), on_end, server, &egress);
}

int serve_hosts(int listen_fd, const SecretFolders *secrets, bool (*admit)(void *userdata, int fd),
                void (*told)(void *userdata, int result), void *userdata) {
        _cleanup_(server_done) Server server = {.admit = admit, .told = told, .userdata = userdata};
        int r;

        r = server_init(&server, secrets);
        if (r < 0)
                return error_trace(r);
        server.listener = (LoopFd){.fd = listen_fd, .on_ready = on_connection, .userdata = &server};
        server.pause = (LoopTimer){.on_time = on_pause_end, .userdata = &server};
        if (fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        r = loop_add(server.loop, &server.listener, EPOLLIN);
        if (r == 0)
                r = loop_run(server.loop);
        return r < 0 ? error_trace(r) : server.result;
}
