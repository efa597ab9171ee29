/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "basic/string-util.h"
#include "crate/egress-program.h"
#include "ipc/link.h"

/* We never wait in a send: what many sessions that begin at once are told must go in. */
#define EGRESS_BUFFER (1 << 20)

enum {
        EGRESS_STATE_OPEN = 1U << 0,
};

typedef struct EgressSession EgressSession;

struct EgressSession {
        uint32_t id;
        const EgressUser *user; /* NULL: nobody wants to hear of it any more */
        void *userdata;
        bool ready;
        bool closing; /* it was asked to end */
        EgressSession *next;
};

struct Egress {
        const char *path;
        int epoll_fd;
        Link link;
        pid_t pid;
        uint32_t last_id;
        EgressSession *sessions;
};

static EgressSession **session_place(Egress *egress, uint32_t id) {
        EgressSession **p = &egress->sessions;

        while (*p && (*p)->id != id)
                p = &(*p)->next;
        return p;
}

/* Takes it out, and tells whose it was. */
static EgressSession session_remove(Egress *egress, uint32_t id) {
        EgressSession **p = session_place(egress, id), *session = *p;
        EgressSession copy = {};

        if (session) {
                copy = *session;
                *p = session->next;
                free(session);
        }
        return copy;
}

/* --- what it says --- */

static int on_ready(void *userdata, Frame *frame) {
        EgressSession *session = *session_place(userdata, frame->header.id);

        if (!session || session->ready)
                return error_origin(-EBADMSG);
        session->ready = true;
        if (session->user)
                session->user->on_ready(session->userdata);
        return 0;
}

static int on_failed(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        EgressSession *session = *session_place(egress, frame->header.id), gone;
        EgressFailed failed;

        if (!session || session->ready)
                return error_origin(-EBADMSG);
        memcpy(&failed, frame->payload, sizeof(failed));
        failed.text[sizeof(failed.text) - 1] = 0;
        gone = session_remove(egress, frame->header.id);
        if (gone.user)
                gone.user->on_failed(gone.userdata, failed.text);
        return 0;
}

static int on_ended(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        const EgressSession *session = *session_place(egress, frame->header.id);
        EgressSession gone;
        EgressEnded ended;

        if (!session || !session->closing)
                return error_origin(-EBADMSG);
        memcpy(&ended, frame->payload, sizeof(ended));
        gone = session_remove(egress, frame->header.id);
        if (gone.user)
                gone.user->on_ended(gone.userdata, &ended, frame->fds[0]);
        return 0;
}

/* Requests with a credential that are over. */
static int on_operation(void *userdata, Frame *frame) {
        const EgressSession *session = *session_place(userdata, frame->header.id);
        EgressOperation operation = {};

        memcpy(&operation, frame->payload, frame->header.length);
        if (!session || operation.credential[sizeof(operation.credential) - 1] ||
            operation.operation[sizeof(operation.operation) - 1] ||
            operation.reason[sizeof(operation.reason) - 1] ||
            operation.digest[sizeof(operation.digest) - 1] ||
            operation.text[sizeof(operation.text) - 1] ||
            operation.parameters[sizeof(operation.parameters) - 1])
                return error_origin(-EBADMSG);
        if (session->user)
                session->user->on_operation(session->userdata, &operation);
        return 0;
}

_Static_assert(sizeof(EgressOperation) <= FRAME_PAYLOAD_MAX, "it is told in one frame");

static const LinkPermit permits[] = {
        {EGRESS_OPERATION, EGRESS_STATE_OPEN, offsetof(EgressOperation, parameters) + 1,
         sizeof(EgressOperation), 0, 0, on_operation},
        {EGRESS_READY, EGRESS_STATE_OPEN, 0, 0, 0, 0, on_ready},
        {EGRESS_FAILED, EGRESS_STATE_OPEN, sizeof(EgressFailed), sizeof(EgressFailed), 0, 0,
         on_failed},
        {EGRESS_ENDED, EGRESS_STATE_OPEN, sizeof(EgressEnded), sizeof(EgressEnded), 1, 1, on_ended},
};

/* --- its life --- */

int egress_new(const char *path, Egress **ret_egress) {
        _cleanup_(egress_freep) Egress *egress = calloc(1, sizeof(*egress));

        if (!egress)
                return error_origin(-ENOMEM);
        egress->path = path;
        egress->link = LINK_NULL;
        egress->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (egress->epoll_fd < 0)
                return error_origin(negative_errno());
        *ret_egress = TAKE_PTR(egress);
        return 0;
}

static void egress_close(Egress *egress) {
        if (egress->link.fd >= 0)
                (void) epoll_ctl(egress->epoll_fd, EPOLL_CTL_DEL, egress->link.fd, NULL);
        link_done(&egress->link);
        egress->link = LINK_NULL;
        egress_program_end(&egress->pid);
}

Egress *egress_free(Egress *egress) {
        if (!egress)
                return NULL;
        egress_close(egress);
        while (egress->sessions)
                (void) session_remove(egress, egress->sessions->id);
        egress->epoll_fd = fd_close(egress->epoll_fd);
        free(egress);
        return NULL;
}

int egress_start(Egress *egress, CrateError *ret_error) {
        struct epoll_event event = {.events = EPOLLIN};
        const int buffer = EGRESS_BUFFER;
        int fd = -EBADF, r;

        if (egress->link.fd >= 0)
                return 0;
        r = egress_program_open(egress->path, true, &fd, &egress->pid, ret_error);
        if (r != 0)
                return r == EGRESS_PROGRAM_E_FAILED ? EGRESS_E_FAILED : error_trace(r);
        egress->link = (Link){.fd = fd,
                              .name = EGRESS_NAME,
                              .permits = permits,
                              .n_permits = ELEMENTSOF(permits),
                              .state = EGRESS_STATE_OPEN,
                              .userdata = egress};
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
        if (epoll_ctl(egress->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                r = error_origin(negative_errno());
                egress_close(egress);
                return r;
        }
        return 0;
}

int egress_get_fd(const Egress *egress) {
        return egress->epoll_fd;
}

pid_t egress_get_pid(const Egress *egress) {
        return egress->pid;
}

/* Its jobs cannot go on: what they are connected to is closed. */
static void egress_lose(Egress *egress) {
        egress_close(egress);
        while (egress->sessions) {
                EgressSession gone = session_remove(egress, egress->sessions->id);

                if (gone.user)
                        gone.user->on_lost(gone.userdata);
        }
}

void egress_dispatch(Egress *egress) {
        int r = LINK_E_AGAIN;

        do
                r = egress->link.fd >= 0 ? link_dispatch(&egress->link, MSG_DONTWAIT)
                                         : LINK_E_AGAIN;
        while (r == 0);
        if (r != LINK_E_AGAIN)
                egress_lose(egress);
}

/* --- sessions --- */

static int send_sockets(Egress *egress, uint32_t id, const int *fds, size_t n_fds) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n_fds; i += FRAME_FDS_MAX) {
                size_t n = size_min(n_fds - i, FRAME_FDS_MAX);
                const EgressSockets message = {.first = (uint32_t) i, .n = (uint32_t) n};

                r = link_send(&egress->link, EGRESS_SOCKETS, id, &message, sizeof(message), fds + i,
                              n);
        }
        return r;
}

int egress_open(Egress *egress, const EgressUser *user, void *userdata, int document_fd,
                const int *fds, size_t n_fds, uint32_t *ret_id, CrateError *ret_error) {
        const EgressOpen message = {.n_sockets = (uint32_t) n_fds};
        EgressSession *session;
        int r;

        r = egress_start(egress, ret_error);
        if (r != 0)
                return r;
        session = calloc(1, sizeof(*session));
        if (!session)
                return error_origin(-ENOMEM);
        session->id = ++egress->last_id ?: ++egress->last_id;
        session->user = user;
        session->userdata = userdata;
        session->next = egress->sessions;
        egress->sessions = session;

        r = link_send(&egress->link, EGRESS_OPEN, session->id, &message, sizeof(message),
                      &document_fd, 1);
        if (r != 0)
                (void) session_remove(egress, session->id);
        else {
                r = send_sockets(egress, session->id, fds, n_fds);
                if (r != 0)
                        egress_forget(egress, session->id);
        }
        if (r == 0) {
                *ret_id = session->id;
                return 0;
        }
        (void) crate_error_set(ret_error, "egress", r < 0 ? -r : EPIPE, NULL, "try again",
                               r == -ENOBUFS ? "agentcrate-egress is busy"
                                             : "agentcrate-egress has ended");
        return EGRESS_E_FAILED;
}

void egress_end(Egress *egress, uint32_t id) {
        EgressSession *session = *session_place(egress, id);

        if (!session || session->closing)
                return;
        session->closing = true;
        if (link_send(&egress->link, EGRESS_CLOSE, id, NULL, 0, NULL, 0) != 0)
                (void) shutdown(egress->link.fd, SHUT_RDWR);
}

void egress_forget(Egress *egress, uint32_t id) {
        EgressSession *session = *session_place(egress, id);

        if (!session || !session->user)
                return;
        session->user = NULL;
        egress_end(egress, id);
}
