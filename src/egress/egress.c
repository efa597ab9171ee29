/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/egress.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "egress/answers.h"
#include "egress/post.h"
#include "ipc/link.h"

/* Of one host. */
#define SESSIONS_MAX 4096U
/* Frames that are read before it is somebody else's turn. */
#define FRAMES_AT_ONCE 32

/* What the host may say of traces when: first to whom, then what. Sessions are opened at any time.
 */
enum {
        EGRESS_STATE_NEW = 1U << 0,
        EGRESS_STATE_READY = 1U << 1,
        EGRESS_STATE_POSTING = 1U << 2,
        EGRESS_STATE_ANY = EGRESS_STATE_NEW | EGRESS_STATE_READY | EGRESS_STATE_POSTING,
};

/* A session, or what has come of one. */
typedef struct Opening {
        uint32_t id;
        Egress *egress;
        struct Opening *next;
        Session *session;     /* NULL: sockets are still to come */
        const void *document; /* mapped */
        size_t document_size;
        size_t n_sockets, n_expected;
        int sockets[EGRESS_SESSION_SOCKETS_MAX];
} Opening;

struct Egress {
        SessionHost host;
        Link link;
        LoopFd fd;
        Answers answers;
        void (*told)(void *userdata, Egress *egress, int result);
        void *userdata;
        Poster *poster;
        const void *body; /* of the post under way, mapped */
        size_t body_size;
        uint32_t post_id;
        Opening *openings;
        size_t n_openings;
        Counts counts;
};

/* Room for what waits is told of by the link. */
static int answer(Egress *egress, uint16_t type, uint32_t id, const void *payload, size_t size,
                  const int *fd) {
        size_t before = egress->answers.n;
        int r = answers_send(&egress->answers, &egress->link, type, id, payload, size, fd);

        if (r == 0 && before == 0 && egress->answers.n > 0)
                r = loop_change(&egress->fd, EPOLLIN | EPOLLOUT);
        return error_trace(r);
}

/* --- traces --- */

static void body_unmap(Egress *egress) {
        if (egress->body)
                (void) munmap((void *) egress->body, egress->body_size);
        egress->body = NULL;
}

static void on_posted(void *userdata, const EgressPosted *posted) {
        Egress *egress = userdata;

        body_unmap(egress);
        egress->link.state = EGRESS_STATE_READY;
        /* A host that takes no answer does not get on by itself. */
        if (answer(egress, EGRESS_POSTED, egress->post_id, posted, sizeof(*posted), NULL) < 0)
                (void) shutdown(egress->link.fd, SHUT_RDWR);
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
                r = poster_new(egress->host.loop, &collector, on_posted, egress, &egress->poster);
        if (r < 0)
                return error_trace(r);
        egress->link.state = EGRESS_STATE_READY;
        return 0;
}

static int on_post(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        int r;

        r = memfd_map_sealed(frame->fds[0], EGRESS_BODY_MAX, &egress->body, &egress->body_size);
        if (r < 0)
                return error_trace(r);
        egress->post_id = frame->header.id;
        egress->link.state = EGRESS_STATE_POSTING;
        poster_post(egress->poster, egress->body, egress->body_size);
        return 0;
}

/* --- sessions --- */

static Opening *find_opening(Egress *egress, uint32_t id) {
        Opening *opening = egress->openings;

        while (opening && opening->id != id)
                opening = opening->next;
        return opening;
}

static void document_unmap(Opening *opening) {
        if (opening->document)
                (void) munmap((void *) opening->document, opening->document_size);
        opening->document = NULL;
}

static void opening_free(Egress *egress, Opening *opening) {
        Opening **place = &egress->openings;

        while (*place != opening)
                place = &(*place)->next;
        *place = opening->next;
        egress->n_openings--;
        session_free(opening->session);
        document_unmap(opening);
        for (size_t i = 0; i < opening->n_sockets; i++)
                fd_close(opening->sockets[i]);
        free(opening);
}

static int opening_fail(Egress *egress, Opening *opening, const char *text) {
        EgressFailed failed = {};
        uint32_t id = opening->id;

        (void) snprintf(failed.text, sizeof(failed.text), "%s", text);
        opening_free(egress, opening);
        return answer(egress, EGRESS_FAILED, id, &failed, sizeof(failed), NULL);
}

static void put_word(char *to, size_t size, const char *word) {
        (void) snprintf(to, size, "%s", word ?: "");
}

static bool on_operation(void *userdata, const SessionOperation *operation) {
        Opening *opening = userdata;
        EgressOperation message;

        if (!operation)
                return opening->egress->answers.n < ANSWERS_ROOM;
        message = (EgressOperation){
                .status = (uint32_t) operation->status,
                .denied = operation->denied,
                .bytes_out = operation->bytes_out,
                .bytes_in = operation->bytes_in,
                .usec = operation->usec,
                .n_dropped = operation->n_dropped,
                .tokens_in =
                        operation->has_tokens_in ? operation->tokens_in : PROTO_EGRESS_TOKENS_NONE,
                .tokens_out = operation->has_tokens_out ? operation->tokens_out
                                                        : PROTO_EGRESS_TOKENS_NONE};

        put_word(message.credential, sizeof(message.credential), operation->credential);
        put_word(message.operation, sizeof(message.operation),
                 operation->operation ? operation->operation->name : NULL);
        put_word(message.reason, sizeof(message.reason), operation->reason);
        put_word(message.digest, sizeof(message.digest), operation->digest);
        put_word(message.text, sizeof(message.text), operation->text);
        put_word(message.parameters, sizeof(message.parameters), operation->parameters);
        /* What cannot be accounted for does not go on. */
        if (answer(opening->egress, EGRESS_OPERATION, opening->id, &message,
                   offsetof(EgressOperation, parameters) + strlen(message.parameters) + 1,
                   NULL) < 0)
                (void) shutdown(opening->egress->link.fd, SHUT_RDWR);
        return true;
}

/* Once all sockets have come. */
static int opening_serve(Egress *egress, Opening *opening) {
        SessionDocument *document = NULL;
        SessionReason reason = {};
        int r;

        r = session_document_parse(opening->document, opening->document_size, opening->n_sockets,
                                   &document, &reason);
        document_unmap(opening);
        if (r == 0) {
                r = session_new(&egress->host, document, opening->sockets, opening->n_sockets,
                                &opening->session, &reason);
                opening->n_sockets = 0;
        }
        if (r == 0)
                session_set_tell(opening->session, on_operation, opening);
        if (r < 0)
                return opening_fail(egress, opening, strerrordesc_np(-r) ?: "something broke");
        if (r > 0)
                return opening_fail(egress, opening, reason.text);
        return answer(egress, EGRESS_READY, opening->id, NULL, 0, NULL);
}

static int on_open(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        EgressOpen message;
        Opening *opening;
        int r;

        memcpy(&message, frame->payload, sizeof(message));
        if (frame->header.id == 0 || message.n_sockets > EGRESS_SESSION_SOCKETS_MAX ||
            find_opening(egress, frame->header.id) || egress->n_openings >= SESSIONS_MAX)
                return error_origin(-EBADMSG);
        opening = calloc(1, sizeof(*opening));
        if (!opening)
                return error_origin(-ENOMEM);
        opening->id = frame->header.id;
        opening->egress = egress;
        opening->n_expected = message.n_sockets;
        opening->next = egress->openings;
        egress->openings = opening;
        egress->n_openings++;
        r = memfd_map_sealed(frame->fds[0], EGRESS_SESSION_MAX, &opening->document,
                             &opening->document_size);
        if (r < 0)
                return error_trace(r);
        return opening->n_expected == 0 ? opening_serve(egress, opening) : 0;
}

static int on_sockets(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        Opening *opening = find_opening(egress, frame->header.id);
        EgressSockets message;

        /* It may have failed while these were on their way. */
        if (!opening)
                return 0;
        memcpy(&message, frame->payload, sizeof(message));
        if (opening->session || message.n != frame->n_fds || message.first != opening->n_sockets ||
            message.n > opening->n_expected - opening->n_sockets)
                return error_origin(-EBADMSG);
        for (size_t i = 0; i < frame->n_fds; i++)
                opening->sockets[opening->n_sockets++] = TAKE_FD(frame->fds[i]);
        return opening->n_sockets == opening->n_expected ? opening_serve(egress, opening) : 0;
}

static int send_report(Egress *egress, uint32_t id, Session *session) {
        _cleanup_(strbuf_done) StrBuf report = STRBUF_NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        EgressEnded ended = {};
        int r = 0;

        if (session)
                r = session_report(session, &ended, &report);
        else
                r = strbuf_append_string(&report,
                                         "{\"denied\":[],\"n_dropped\":0,\"connections\":0,"
                                         "\"bytes_in\":0,\"bytes_out\":0,\"names\":[],"
                                         "\"log\":[]}");
        if (r == 0)
                r = memfd_new_sealed("egress-report", report.data, report.size, &fd);
        return r < 0 ? error_trace(r)
                     : answer(egress, EGRESS_ENDED, id, &ended, sizeof(ended), &fd);
}

/* The answer says that everything is closed, so it comes after that. */
static int on_close(void *userdata, Frame *frame) {
        Egress *egress = userdata;
        Opening *opening = find_opening(egress, frame->header.id);
        _cleanup_(session_freep) Session *session = NULL;
        uint32_t id = frame->header.id;

        if (!opening)
                return 0;
        if (opening->session)
                session_stop(opening->session);
        session = TAKE_PTR(opening->session);
        opening_free(egress, opening);
        return send_report(egress, id, session);
}

/* --- the link --- */

static const LinkPermit permits[] = {
        {EGRESS_COLLECTOR, EGRESS_STATE_NEW, sizeof(EgressCollector), sizeof(EgressCollector), 1, 1,
         on_collector},
        {EGRESS_POST, EGRESS_STATE_READY, 0, 0, 1, 1, on_post},
        {EGRESS_OPEN, EGRESS_STATE_ANY, sizeof(EgressOpen), sizeof(EgressOpen), 1, 1, on_open},
        {EGRESS_SOCKETS, EGRESS_STATE_ANY, sizeof(EgressSockets), sizeof(EgressSockets), 1,
         FRAME_FDS_MAX, on_sockets},
        {EGRESS_CLOSE, EGRESS_STATE_ANY, 0, 0, 0, 0, on_close},
};

static void on_frames(void *userdata, uint32_t events) {
        Egress *egress = userdata;
        void (*told)(void *, Egress *, int) = egress->told;
        int r = 0;

        if (events & EPOLLOUT && egress->answers.n > 0) {
                r = answers_flush(&egress->answers, &egress->link);
                if (r == 0 && egress->answers.n == 0)
                        r = loop_change(&egress->fd, EPOLLIN);
        }
        for (int i = 0; r == 0 && i < FRAMES_AT_ONCE; i++)
                r = link_dispatch(&egress->link, MSG_DONTWAIT);
        if (r == 0 || r == LINK_E_AGAIN)
                return;
        r = r == LINK_E_DENIED ? error_origin(-EPROTO) : r == LINK_E_EOF ? 0 : error_trace(r);
        told(egress->userdata, egress, r);
}

Egress *egress_free(Egress *egress) {
        if (!egress)
                return NULL;

        while (egress->openings)
                opening_free(egress, egress->openings);
        poster_free(egress->poster);
        body_unmap(egress);
        loop_remove(&egress->fd);
        answers_done(&egress->answers);
        counts_done(&egress->counts);
        link_done(&egress->link);
        free(egress);
        return NULL;
}

int egress_new(const SessionHost *host, int link_fd,
               void (*told)(void *userdata, Egress *egress, int result), void *userdata,
               Egress **ret_egress) {
        Egress *egress = calloc(1, sizeof(*egress));
        int r;

        if (!egress) {
                fd_close(link_fd);
                return error_origin(-ENOMEM);
        }
        *egress = (Egress){.host = *host,
                           .link = {.fd = link_fd,
                                    .name = "host",
                                    .permits = permits,
                                    .n_permits = ELEMENTSOF(permits),
                                    .state = EGRESS_STATE_NEW,
                                    .userdata = egress},
                           .fd = {.fd = link_fd, .on_ready = on_frames, .userdata = egress},
                           .told = told,
                           .userdata = userdata};
        egress->host.counts = &egress->counts;
        r = fcntl(link_fd, F_SETFL, O_NONBLOCK) < 0 ? error_origin(negative_errno())
                                                    : loop_add(host->loop, &egress->fd, EPOLLIN);
        if (r < 0) {
                egress_free(egress);
                return error_trace(r);
        }
        *ret_egress = egress;
        return 0;
}
