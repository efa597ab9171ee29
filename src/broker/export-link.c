/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "broker/export-internal.h"
#include "broker/log.h"
#include "crate/egress-program.h"

enum {
        EXPORT_STATE_IDLE = 1U << 0,
        EXPORT_STATE_POSTING = 1U << 1,
};

static int on_posted(void *userdata, Frame *frame) {
        ExportLink *link = userdata;
        EgressPosted posted;

        memcpy(&posted, frame->payload, sizeof(posted));
        posted.text[sizeof(posted.text) - 1] = 0;
        link->link.state = EXPORT_STATE_IDLE;
        link->callbacks->on_posted(&posted, link->userdata);
        return 0;
}

static const LinkPermit permits[] = {
        {EGRESS_POSTED, EXPORT_STATE_POSTING, sizeof(EgressPosted), sizeof(EgressPosted), 0, 0,
         on_posted},
};

static int on_link(sd_event_source *source _unused_, int fd _unused_, uint32_t events _unused_,
                   void *userdata) {
        ExportLink *link = userdata;
        int r;

        r = link_dispatch(&link->link, MSG_DONTWAIT);
        if (r == 0 || r == LINK_E_AGAIN)
                return 0;
        if (r == LINK_E_DENIED)
                log_warning("agentcrate-egress broke the protocol; it is ended");
        export_link_close(link);
        link->callbacks->on_lost(link->userdata);
        return 0;
}

void export_link_close(ExportLink *link) {
        link->source = sd_event_source_disable_unref(link->source);
        link_done(&link->link);
        egress_program_end(&link->pid);
}

/* What it is told first, and that it is listened to. */
static int link_begin(ExportLink *link) {
        const EgressCollector message = {.timeout_msec = link->timeout_msec};
        int r;

        r = link_send(&link->link, EGRESS_COLLECTOR, 0, &message, sizeof(message),
                      &link->collector_fd, 1);
        if (r != 0)
                return r < 0 ? error_trace(r) : error_origin(-ECONNRESET);
        r = sd_event_add_io(link->event, &link->source, link->link.fd, EPOLLIN, on_link, link);
        return r < 0 ? error_origin(r) : 0;
}

int export_link_open(ExportLink *link, bool quiet) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        int fd = -EBADF, r;

        link->pid = 0;
        r = egress_program_open(link->path, false, &fd, &link->pid, &error);
        if (r == EGRESS_PROGRAM_E_FAILED) {
                if (!quiet)
                        log_warning("traces cannot be sent: %s; %s", error.text ?: "out of memory",
                                    error.remedy ?: "try again");
                return error_origin(error.error > 0 ? -error.error : -ENOMEM);
        }
        if (r == 0) {
                link->link = (Link){.fd = fd,
                                    .name = EGRESS_NAME,
                                    .permits = permits,
                                    .n_permits = ELEMENTSOF(permits),
                                    .state = EXPORT_STATE_IDLE,
                                    .userdata = link};
                r = link_begin(link);
        }
        if (r == 0)
                return 0;
        if (!quiet)
                (void) log_errno(r, "traces cannot be sent");
        export_link_close(link);
        return r;
}

int export_link_post(ExportLink *link, int body_fd) {
        int r;

        r = link_send(&link->link, EGRESS_POST, 0, NULL, 0, &body_fd, 1);
        if (r != 0)
                return r < 0 ? error_trace(r) : error_origin(-ECONNRESET);
        link->link.state = EXPORT_STATE_POSTING;
        return 0;
}
