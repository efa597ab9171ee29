/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/egress.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "egress/post.h"
#include "ipc/link.h"

/* What agentcrated may say when: first to whom, then what. */
enum {
        EGRESS_STATE_NEW = 1U << 0,
        EGRESS_STATE_READY = 1U << 1,
};

typedef struct Egress {
        Link link;
        Poster *poster;
} Egress;

/* Whoever wanted the post is gone. */
static bool link_has_ended(void *userdata) {
        const Egress *egress = userdata;
        struct pollfd poll_fd = {.fd = egress->link.fd, .events = POLLRDHUP};

        return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static int on_collector(void *userdata, Frame *frame) {
        _cleanup_(collector_done) Collector collector = {};
        Egress *egress = userdata;
        EgressCollector message;
        const void *text;
        size_t size;
        int r;

        memcpy(&message, frame->payload, sizeof(message));
        r = memfd_map_sealed(frame->fds[0], EGRESS_COLLECTOR_MAX, &text, &size);
        if (r < 0)
                return error_trace(r);
        r = collector_parse(text, size, message.timeout_msec, &collector);
        (void) munmap((void *) text, size);
        if (r == COLLECTOR_E_INVALID)
                return error_origin(-EBADMSG);
        if (r == 0)
                r = poster_new(&collector, link_has_ended, egress, &egress->poster);
        if (r < 0)
                return error_trace(r);
        egress->link.state = EGRESS_STATE_READY;
        return 0;
}

static int on_post(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        EgressPosted posted;
        const void *body;
        size_t size;
        int r;

        r = memfd_map_sealed(frame->fds[0], EGRESS_BODY_MAX, &body, &size);
        if (r < 0)
                return error_trace(r);
        poster_post(egress->poster, body, size, &posted);
        (void) munmap((void *) body, size);
        r = link_send(&egress->link, EGRESS_POSTED, frame->header.id, &posted, sizeof(posted), NULL,
                      0);
        /* One that has gone is found to have by the next receive. */
        return r == LINK_E_EOF ? 0 : error_trace(r);
}

static const LinkPermit permits[] = {
        {EGRESS_COLLECTOR, EGRESS_STATE_NEW, sizeof(EgressCollector), sizeof(EgressCollector), 1, 1,
         on_collector},
        {EGRESS_POST, EGRESS_STATE_READY, 0, 0, 1, 1, on_post},
};

int egress_serve(int link_fd) {
        Egress egress = {.link = {.fd = link_fd,
                                  .name = "agentcrated",
                                  .permits = permits,
                                  .n_permits = ELEMENTSOF(permits),
                                  .state = EGRESS_STATE_NEW}};
        int r;

        egress.link.userdata = &egress;
        do
                r = link_dispatch(&egress.link, 0);
        while (r == 0 || r == LINK_E_AGAIN);
        poster_free(egress.poster);
        link_done(&egress.link);
        if (r == LINK_E_DENIED)
                return error_origin(-EPROTO);
        return r == LINK_E_EOF ? 0 : error_trace(r);
}
