/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "broker/export-internal.h"
#include "broker/log.h"

#define EGRESS_NAME "agentcrate-egress"
#define EGRESS_LINK_FD 3
/* It ends with its link, and has nothing to lose if it is killed instead. */
#define EGRESS_END_MSEC 20

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
        if (link->pid > 0)
                process_end(link->pid, EGRESS_END_MSEC);
        link->pid = 0;
}

static char *egress_program(void) {
        const char *dir = secure_getenv("AGENTCRATE_LIBEXEC_DIR");
        char *path;

        return asprintf(&path, "%s/" EGRESS_NAME, dir ?: LIBEXECDIR) < 0 ? NULL : path;
}

static int egress_spawn(int *ret_fd, pid_t *ret_pid) {
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        _cleanup_(freep) char *program = egress_program();
        int pair[2], r;

        if (!program)
                return error_origin(-ENOMEM);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_origin(negative_errno());
        ours = pair[0];
        theirs = pair[1];
        r = process_spawn_with_link(program, EGRESS_NAME, theirs, EGRESS_LINK_FD, ret_pid);
        if (r < 0)
                return error_trace(r);
        *ret_fd = TAKE_FD(ours);
        return 0;
}

static int egress_connect(const char *path, int *ret_fd) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;

        if (strlen(path) >= sizeof(address.sun_path))
                return error_origin(-ENAMETOOLONG);
        memcpy(address.sun_path, path, strlen(path) + 1);
        /* Nor may a full queue of the socket hold anybody up. */
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return error_origin(negative_errno());
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* What it is told first, and that it is listened to. */
static int link_begin(ExportLink *link) {
        const EgressCollector message = {.timeout_msec = link->timeout_msec};
        int r;

        if (fcntl(link->link.fd, F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        r = link_send(&link->link, EGRESS_COLLECTOR, 0, &message, sizeof(message),
                      &link->collector_fd, 1);
        if (r != 0)
                return r < 0 ? error_trace(r) : error_origin(-ECONNRESET);
        r = sd_event_add_io(link->event, &link->source, link->link.fd, EPOLLIN, on_link, link);
        return r < 0 ? error_origin(r) : 0;
}

int export_link_open(ExportLink *link, bool quiet) {
        int fd = -EBADF, r;

        link->pid = 0;
        r = link->path ? egress_connect(link->path, &fd) : egress_spawn(&fd, &link->pid);
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
                (void) log_errno(r, "traces cannot be sent: agentcrate-egress cannot be %s",
                                 link->path ? "reached; start agentcrate-egress.socket"
                                            : "started");
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
