/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/curl-loop.h"

#include "basic/error.h"
#include "basic/time-util.h"

typedef struct CurlSocket {
        CurlLoop *curl_loop;
        LoopFd fd;
} CurlSocket;

struct CurlLoop {
        Loop *loop;
        CURLM *multi;
        LoopTimer timer;
        LoopTask task; /* looks for transfers that have ended */
};

static void act(CurlLoop *curl_loop, curl_socket_t socket, int events) {
        int n;

        /* Before what is called from within puts off something of its own: the end of a transfer is
         * told of first, and what is written then is written once. */
        loop_defer(curl_loop->loop, &curl_loop->task);
        (void) curl_multi_socket_action(curl_loop->multi, socket, events, &n);
}

static void on_task(void *userdata) {
        CurlLoop *curl_loop = userdata;
        CURLMsg *message;
        int n;

        while ((message = curl_multi_info_read(curl_loop->multi, &n))) {
                CURLcode code = message->data.result;
                CurlTransfer *transfer = NULL;

                if (message->msg != CURLMSG_DONE ||
                    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) !=
                            CURLE_OK ||
                    !transfer)
                        continue;
                curl_loop_end(transfer);
                transfer->done(transfer->userdata, code);
        }
}

static void on_socket(void *userdata, uint32_t events) {
        CurlSocket *socket = userdata;

        act(socket->curl_loop, socket->fd.fd,
            (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                    (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
}

static void on_time(void *userdata) {
        act(userdata, CURL_SOCKET_TIMEOUT, 0);
}

static int socket_watch(CurlLoop *curl_loop, int fd, CurlSocket *socket, uint32_t events) {
        int r;

        if (socket)
                return loop_change(&socket->fd, events);
        socket = calloc(1, sizeof(*socket));
        if (!socket)
                return error_origin(-ENOMEM);
        *socket = (CurlSocket){.curl_loop = curl_loop,
                               .fd = {.fd = fd, .on_ready = on_socket, .userdata = socket}};
        r = loop_add(curl_loop->loop, &socket->fd, events);
        if (r < 0) {
                free(socket);
                return error_trace(r);
        }
        (void) curl_multi_assign(curl_loop->multi, fd, socket);
        return 0;
}

static int on_socket_wanted(CURL *curl _unused_, curl_socket_t fd, int what, void *userdata,
                            void *socket_data) {
        CurlSocket *socket = socket_data;

        if (what != CURL_POLL_REMOVE)
                return socket_watch(userdata, fd, socket,
                                    (what & CURL_POLL_IN ? EPOLLIN : 0) |
                                            (what & CURL_POLL_OUT ? EPOLLOUT : 0)) < 0
                               ? -1
                               : 0;
        if (socket) {
                loop_remove(&socket->fd);
                free(socket);
        }
        return 0;
}

static int on_timer_wanted(CURLM *multi _unused_, long msec, void *userdata) {
        CurlLoop *curl_loop = userdata;

        if (msec < 0) {
                loop_timer_stop(&curl_loop->timer);
                return 0;
        }
        return loop_timer_set(curl_loop->loop, &curl_loop->timer,
                              now_usec() + (uint64_t) msec * USEC_PER_MSEC) < 0
                       ? -1
                       : 0;
}

int curl_loop_new(Loop *loop, CurlLoop **ret_curl_loop) {
        _cleanup_(curl_loop_freep) CurlLoop *curl_loop = calloc(1, sizeof(CurlLoop));

        if (!curl_loop)
                return error_origin(-ENOMEM);
        curl_loop->loop = loop;
        curl_loop->timer = (LoopTimer){.on_time = on_time, .userdata = curl_loop};
        curl_loop->task = (LoopTask){.run = on_task, .userdata = curl_loop};
        curl_loop->multi = curl_multi_init();
        if (!curl_loop->multi)
                return error_origin(-ENOMEM);
        if (curl_multi_setopt(curl_loop->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) !=
                    CURLM_OK ||
            curl_multi_setopt(curl_loop->multi, CURLMOPT_SOCKETDATA, curl_loop) != CURLM_OK ||
            curl_multi_setopt(curl_loop->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) !=
                    CURLM_OK ||
            curl_multi_setopt(curl_loop->multi, CURLMOPT_TIMERDATA, curl_loop) != CURLM_OK)
                return error_origin(-EOPNOTSUPP);
        *ret_curl_loop = TAKE_PTR(curl_loop);
        return 0;
}

CurlLoop *curl_loop_free(CurlLoop *curl_loop) {
        if (!curl_loop)
                return NULL;

        /* Closes the connections that were kept, and says so of each. */
        (void) curl_multi_cleanup(curl_loop->multi);
        loop_timer_stop(&curl_loop->timer);
        loop_task_cancel(&curl_loop->task);
        free(curl_loop);
        return NULL;
}

int curl_loop_begin(CurlLoop *curl_loop, CurlTransfer *transfer) {
        if (curl_easy_setopt(transfer->curl, CURLOPT_PRIVATE, transfer) != CURLE_OK ||
            curl_multi_add_handle(curl_loop->multi, transfer->curl) != CURLM_OK)
                return error_origin(-ENOMEM);
        transfer->curl_loop = curl_loop;
        return 0;
}

void curl_loop_end(CurlTransfer *transfer) {
        if (!transfer->curl_loop)
                return;
        (void) curl_multi_remove_handle(transfer->curl_loop->multi, transfer->curl);
        transfer->curl_loop = NULL;
}
