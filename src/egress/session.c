/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/session.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "egress/session-internal.h"

#define ACCEPTS_BURST 1000U
#define ACCEPTS_PER_SECOND 2000U
#define ACCEPTS_AT_ONCE 16
#define PAUSE_USEC (50 * USEC_PER_MSEC)

/* --- listeners --- */

static void on_pause_end(void *userdata) {
        Listener *listener = userdata;

        (void) loop_change(&listener->fd, EPOLLIN);
}

static void listener_pause(Listener *listener) {
        Loop *loop = listener->session->host.loop;

        if (loop_timer_set(loop, &listener->pause, loop_now(loop) + PAUSE_USEC) == 0)
                (void) loop_change(&listener->fd, 0);
}

void listener_deny(Listener *listener, DenialKind kind, const char *reason, const char *seen) {
        denials_add(&listener->session->denials, kind, listener->slot->name, listener->port->port,
                    reason, seen);
}

/* What is over the ceiling is refused at once and counted: waiting would look like a network that
 * hangs. */
static void listener_serve(Listener *listener, int fd) {
        const struct linger at_once = {.l_onoff = 1};
        Session *session = listener->session;
        const char *limit = NULL;

        if (!listener->slot->name) {
                (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
                fd_close(fd);
                return;
        }
        if (session->n_relays >= session->document->connections_max)
                limit = "connections";
        else if (session->document->bytes_max > 0 &&
                 session->bytes_in + session->bytes_out > session->document->bytes_max)
                limit = "bytes";
        if (!limit && listener->endpoint) {
                caller_start(listener, fd);
                return;
        }
        if (!limit) {
                relay_start(listener, fd);
                return;
        }
        listener_deny(listener, DENIAL_LIMIT, limit, NULL);
        (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        fd_close(fd);
}

static void on_connection(void *userdata, uint32_t events _unused_) {
        Listener *listener = userdata;
        Session *session = listener->session;

        for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
                int fd;

                if (!rate_take(&session->accepts, loop_now(session->host.loop))) {
                        listener_pause(listener);
                        return;
                }
                fd = accept4(listener->fd.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0) {
                        rate_give_back(&session->accepts);
                        /* Files or memory are short: it is tried again, but not at once. */
                        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                                listener_pause(listener);
                        return;
                }
                listener_serve(listener, fd);
        }
}

/* --- sockets --- */

static int socket_option(int fd, int option) {
        socklen_t size = sizeof(int);
        int value = -1;

        return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

static bool socket_is(int fd, int family, int type) {
        if (socket_option(fd, SO_DOMAIN) != family || socket_option(fd, SO_TYPE) != type ||
            socket_option(fd, SO_PROTOCOL) != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
                return false;
        return type != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) == 1;
}

/* Takes the one of that number. */
static int take_socket(int *sockets, int number, int family, int type, int *ret_fd,
                       SessionReason *ret_reason) {
        *ret_fd = -EBADF;
        if (number < 0)
                return 0;
        if (!socket_is(sockets[number], family, type)) {
                (void) snprintf(ret_reason->text, sizeof(ret_reason->text),
                                "its socket %d is not what the document says", number);
                return SESSION_DOCUMENT_E_INVALID;
        }
        /* A client may be gone before it is accepted. */
        if (fcntl(sockets[number], F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        *ret_fd = TAKE_FD(sockets[number]);
        return 0;
}

static int begin_stub(Session *session, int *sockets, SessionReason *ret_reason) {
        static const int families[_SESSION_DNS_MAX] = {AF_INET, AF_INET, AF_INET6, AF_INET6};
        static const int types[_SESSION_DNS_MAX] = {SOCK_DGRAM, SOCK_STREAM, SOCK_DGRAM,
                                                    SOCK_STREAM};
        int fds[_SESSION_DNS_MAX], r = 0;

        for (size_t i = 0; i < _SESSION_DNS_MAX; i++)
                fds[i] = -EBADF;
        for (size_t i = 0; r == 0 && i < _SESSION_DNS_MAX; i++)
                r = take_socket(sockets, session->document->dns[i], families[i], types[i], &fds[i],
                                ret_reason);
        if (r == 0)
                return stub_new(session, fds, &session->stub);
        for (size_t i = 0; i < _SESSION_DNS_MAX; i++)
                fd_close(fds[i]);
        return r;
}

static int begin_listener(Session *session, int *sockets, int number, bool is_v6,
                          const Listener *like, SessionReason *ret_reason) {
        Listener *listener = &session->listeners[session->n_listeners];
        int fd, r;

        r = take_socket(sockets, number, is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, &fd, ret_reason);
        if (r != 0 || fd < 0)
                return r;
        session->n_listeners++;
        *listener = *like;
        listener->fd = (LoopFd){.fd = fd, .on_ready = on_connection, .userdata = listener};
        listener->pause = (LoopTimer){.on_time = on_pause_end, .userdata = listener};
        return loop_add(session->host.loop, &listener->fd, EPOLLIN);
}

static int begin_port(Session *session, int *sockets, Destination *name, DestinationPort *port,
                      PortUse *use, Endpoint *endpoint, SessionReason *ret_reason) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < name->n_slots; i++) {
                const Listener like = {.session = session,
                                       .name = name,
                                       .slot = &name->slots[i],
                                       .port = port,
                                       .use = use,
                                       .endpoint = endpoint};

                r = begin_listener(session, sockets, port->sockets[i][0], false, &like, ret_reason);
                if (r == 0)
                        r = begin_listener(session, sockets, port->sockets[i][1], true, &like,
                                           ret_reason);
        }
        return r;
}

/* The other end is ours to read one request from, and belongs to nobody's crate. */
static int begin_connection(Session *session, int *sockets, SessionCredential *credential,
                            PortUse *use, Endpoint *endpoint, SessionReason *ret_reason) {
        Listener *listener = &session->listeners[session->n_listeners];
        int *fd = &sockets[credential->connection];

        if (socket_option(*fd, SO_DOMAIN) != AF_UNIX ||
            socket_option(*fd, SO_TYPE) != SOCK_STREAM || socket_option(*fd, SO_ACCEPTCONN) != 0) {
                (void) snprintf(ret_reason->text, sizeof(ret_reason->text),
                                "its socket %d is no connection", credential->connection);
                return SESSION_DOCUMENT_E_INVALID;
        }
        if (fcntl(*fd, F_SETFL, O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        session->n_listeners++;
        *listener = (Listener){.session = session,
                               .name = &credential->host,
                               .slot = credential->host.slots,
                               .port = credential->host.ports,
                               .use = use,
                               .endpoint = endpoint};
        listener->fd.fd = -EBADF;
        caller_start(listener, TAKE_FD(*fd));
        return 0;
}

static size_t count_ports(const SessionDocument *document) {
        size_t n = 0;

        for (size_t i = 0; i < document->n_names; i++)
                n += document->names[i].n_ports;
        return n + document->n_credentials;
}

static int begin_listeners(Session *session, int *sockets, size_t n_sockets,
                           SessionReason *ret_reason) {
        SessionDocument *document = session->document;
        PortUse *use;
        int r = 0;

        session->listeners = calloc(n_sockets + 1, sizeof(Listener));
        session->uses = calloc(count_ports(document) + 1, sizeof(PortUse));
        if (!session->listeners || !session->uses)
                return error_origin(-ENOMEM);
        use = session->uses;
        for (size_t i = 0; i < document->n_names; i++)
                for (size_t j = 0; r == 0 && j < document->names[i].n_ports; j++)
                        r = begin_port(session, sockets, &document->names[i],
                                       &document->names[i].ports[j], use++, NULL, ret_reason);
        for (size_t i = 0; r == 0 && i < document->n_credentials; i++) {
                SessionCredential *credential = &document->credentials[i];
                Endpoint *endpoint = session_get_endpoint(session, i);

                if (credential->connection >= 0)
                        r = begin_connection(session, sockets, credential, use++, endpoint,
                                             ret_reason);
                else
                        r = begin_port(session, sockets, &credential->host, credential->host.ports,
                                       use++, endpoint, ret_reason);
        }
        return r;
}

/* --- the session --- */

int session_new(const SessionHost *host, SessionDocument *document, int *sockets, size_t n_sockets,
                Session **ret_session, SessionReason *ret_reason) {
        _cleanup_(session_freep) Session *session = calloc(1, sizeof(Session));
        int r;

        if (session) {
                session->host = *host;
                session->document = document;
                turns_init(&session->turns, host->loop);
                session->accepts = (Rate){.burst = ACCEPTS_BURST, .per_second = ACCEPTS_PER_SECOND};
                r = begin_stub(session, sockets, ret_reason);
                if (r == 0)
                        r = session_begin_endpoints(session, ret_reason);
                if (r == 0)
                        r = begin_listeners(session, sockets, n_sockets, ret_reason);
        } else {
                session_document_free(document);
                r = error_origin(-ENOMEM);
        }
        /* What the document does not mention serves nothing. */
        for (size_t i = 0; i < n_sockets; i++)
                sockets[i] = fd_close(sockets[i]);
        if (r != 0)
                return r;
        *ret_session = TAKE_PTR(session);
        return 0;
}

void session_set_tell(Session *session, SessionTell tell, void *userdata) {
        session->tell = tell;
        session->tell_userdata = userdata;
}

int session_get_resolver(Session *session, Resolver **ret_resolver) {
        int r = 0;

        if (!session->resolver)
                r = resolver_new(session->host.loop, &session->document->servers,
                                 &session->resolver);
        if (r < 0)
                return error_trace(r);
        *ret_resolver = session->resolver;
        return 0;
}

void session_stop(Session *session) {
        session_end_relays(session);
        session_end_callers(session);
        turns_done(&session->turns);
        session->stub = stub_free(session->stub);
        for (; session->n_listeners > 0; session->n_listeners--) {
                Listener *listener = &session->listeners[session->n_listeners - 1];

                loop_remove(&listener->fd);
                loop_timer_stop(&listener->pause);
                fd_close(listener->fd.fd);
        }
        session->resolver = resolver_free(session->resolver);
}

Session *session_free(Session *session) {
        if (!session)
                return NULL;

        session_stop(session);
        for (size_t i = 0; i < session->n_log; i++) {
                free(session->log[i].name);
                free(session->log[i].chain);
        }
        session_end_endpoints(session);
        free(session->listeners);
        free(session->uses);
        denials_done(&session->denials);
        session_document_free(session->document);
        free(session);
        return NULL;
}
