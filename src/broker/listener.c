/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "broker/authorize.h"
#include "broker/client.h"
#include "broker/http-client.h"
#include "broker/log.h"
#include "broker/metering.h"
#include "mcp/jsonrpc.h"

#define LISTENER_BACKLOG SOMAXCONN
/* Connections taken at one go, before others get their turn. */
#define LISTENER_ACCEPT_MAX 16
/* No new look at the queue for so long when there is nothing to take a connection with. */
#define LISTENER_PAUSE_USEC (200 * USEC_PER_MSEC)

struct Listener {
        Manager *manager;
        ListenerKind kind;
        int fd;
        char *path;
        dev_t device; /* of the socket file, so that only ours is removed */
        ino_t inode;
        sd_event_source *io;
        sd_event_source *timer;
        bool complained;
};

#define invalid(ret_text, ...) outcome_text(LISTENER_E_INVALID, (ret_text), __VA_ARGS__)

static int set_nonblocking(int fd) {
        int flags;

        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        return 0;
}

static void names_freep(char ***names) {
        if (*names)
                for (char **name = *names; *name; name++)
                        free(*name);
        free(*names);
}

/* A socket without a name of its own is called "unknown" or by its unit. */
static ListenerKind kind_of(const char *name) {
        return string_equal(name, "metrics") ? LISTENER_METRICS : LISTENER_MCP;
}

static bool is_loopback(int fd) {
        union {
                struct sockaddr any;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        } address;
        socklen_t size = sizeof(address);

        if (getsockname(fd, &address.any, &size) < 0)
                return false;
        if (address.any.sa_family == AF_INET6)
                return IN6_IS_ADDR_LOOPBACK(&address.in6.sin6_addr);
        return address.any.sa_family == AF_INET &&
               ntohl(address.in.sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static int check_inherited(int fd, ListenerKind kind, char **ret_text) {
        if (kind == LISTENER_MCP && sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0)
                return invalid(ret_text,
                               "what was passed in as descriptor %d is no listening UNIX stream "
                               "socket",
                               fd);
        if (kind == LISTENER_METRICS &&
            (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0 || !is_loopback(fd)))
                return invalid(ret_text,
                               "the socket named metrics that was passed in as descriptor %d does "
                               "not listen for TCP on a loopback address; let it listen on "
                               "127.0.0.1 or [::1]",
                               fd);
        return 0;
}

static int take_inherited(int fd, const char *name, int fds[static _LISTENER_KIND_MAX],
                          char **ret_text) {
        ListenerKind kind = kind_of(name);
        int r;

        if (string_equal(name, "http"))
                return invalid(ret_text, "the socket that was passed in is named http, and only "
                                         "mcp and metrics are served in this version");
        if (fds[kind] >= 0)
                return invalid(ret_text,
                               "two sockets for %s were passed in, and one is wanted of each",
                               kind == LISTENER_MCP ? "mcp" : "metrics");
        r = check_inherited(fd, kind, ret_text);
        if (r == 0)
                r = set_nonblocking(fd);
        if (r == 0)
                fds[kind] = fd;
        return r;
}

int listener_inherit(int ret_fds[static _LISTENER_KIND_MAX], char **ret_text) {
        _cleanup_(names_freep) char **names = NULL;
        int fds[_LISTENER_KIND_MAX] = {-EBADF, -EBADF};
        int n, r;

        n = sd_listen_fds_with_names(1, &names);
        if (n < 0)
                return invalid(ret_text, "the environment of socket activation is wrong: %s",
                               strerrordesc_np(-n));
        for (int i = 0; i < n; i++) {
                r = take_inherited(SD_LISTEN_FDS_START + i, names ? names[i] : NULL, fds, ret_text);
                if (r != 0)
                        return r;
        }
        memcpy(ret_fds, fds, sizeof(fds));
        return 0;
}

/* Whether somebody listens at the address. */
static bool address_is_served(const struct sockaddr_un *address) {
        _cleanup_(fd_closep) int fd = -EBADF;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return true;
        return connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 ||
               errno == EAGAIN;
}

static int remove_stale(const struct sockaddr_un *address, char **ret_text) {
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return 0;
        if (!S_ISSOCK(st.st_mode))
                return invalid(ret_text,
                               "%s exists and is no socket; remove it or give another path",
                               address->sun_path);
        if (address_is_served(address))
                return invalid(ret_text,
                               "%s is served by another process; end it or give another path",
                               address->sun_path);
        if (unlink(address->sun_path) < 0)
                return invalid(ret_text, "%s cannot be replaced: %s", address->sun_path,
                               strerrordesc_np(errno));
        return 0;
}

int listener_bind(const char *path, int *ret_fd, char **ret_text) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;
        mode_t mask;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return invalid(
                        ret_text,
                        "the path of the socket is longer than %zu bytes; give a shorter one: %s",
                        sizeof(address.sun_path) - 1, path);
        memcpy(address.sun_path, path, strlen(path));

        r = remove_stale(&address, ret_text);
        if (r != 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_origin(negative_errno());

        mask = umask(0177);
        r = bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ? errno : 0;
        (void) umask(mask);
        if (r > 0)
                return invalid(ret_text,
                               "no socket can be made at %s: %s; give a path in a folder that "
                               "exists and that you may write",
                               path, strerrordesc_np(r));
        if (listen(fd, LISTENER_BACKLOG) < 0)
                return error_origin(negative_errno());

        *ret_fd = TAKE_FD(fd);
        return 0;
}

int listener_bind_tcp(const ListenAddress *address, int *ret_fd, char **ret_text) {
        const struct sockaddr_in in = {.sin_family = AF_INET,
                                       .sin_port = htons(address->port),
                                       .sin_addr = {htonl(INADDR_LOOPBACK)}};
        const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                                         .sin6_port = htons(address->port),
                                         .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        _cleanup_(fd_closep) int fd = -EBADF;
        char text[LISTEN_ADDRESS_SIZE];
        int yes = 1, r;

        fd = socket(address->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);
        /* Connections of the broker before may still be in their last state. */
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0)
                r = -1;
        else if (address->ipv6)
                r = bind(fd, (const struct sockaddr *) &in6, sizeof(in6));
        else
                r = bind(fd, (const struct sockaddr *) &in, sizeof(in));
        if (r == 0)
                r = listen(fd, LISTENER_BACKLOG);
        if (r < 0) {
                r = errno;
                listen_address_format(address, text);
                return invalid(ret_text,
                               "metrics cannot be served at %s (listen.metrics): %s; give another "
                               "address, or a socket unit with FileDescriptorName=metrics",
                               text, strerrordesc_np(r));
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* One line that says why, and the end. The peer may be anybody: nothing waits for it. */
static void refuse(int fd, const char *text) {
        _cleanup_(strbuf_done) StrBuf frame = STRBUF_NULL;

        if (rpc_append_error(&frame, NULL, 0, RPC_INVALID_REQUEST, text, NULL) < 0 ||
            strbuf_append_byte(&frame, '\n') < 0)
                return;
        (void) !send(fd, frame.data, frame.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void refuse_full(Manager *manager, int fd) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        if (strbuf_appendf(&text,
                           "the broker has %zu connections and its limit of %zu open files allows "
                           "you no more: close some, try again later, or raise the limit",
                           manager->n_clients, manager->budget.max) == 0)
                refuse(fd, text.data);
}

/* A decision like that on a call, but of no call: it has no end. */
static void record_refusal(Manager *manager, const Peer *peer, const char *text) {
        const AuditCall connection = {.uid = peer->uid, .pid = peer->pid};
        const AuditDecision decision = {.rule = METERING_DENIED_PEER,
                                        .reason = text,
                                        .policy_digest = manager->policy->digest};
        _cleanup_(freep) char *ignored = NULL;
        uint64_t missed;
        int r;

        metrics_count_denial(manager->metrics, METERING_DENIED_PEER);
        if (!refusals_admit(&manager->refusals, now_usec(), &missed))
                return;
        if (missed > 0)
                log_warning("%llu more connections were refused than there is a record of",
                            (unsigned long long) missed);
        log_warning("a connection of user %u (pid %d) was refused", (unsigned) peer->uid,
                    (int) peer->pid);
        r = audit_decision(manager->audit, &connection, &decision, &ignored);
        if (r < 0)
                (void) log_errno(r, "a refused connection was not recorded");
}

/* Consumes connection. */
static void listener_admit(Manager *manager, int connection) {
        _cleanup_(fd_closep) int fd = connection;
        _cleanup_(freep) char *text = NULL;
        _cleanup_(peer_done) Peer peer = {};
        int r;

        if (peer_read(fd, &peer) < 0)
                return;

        r = authorize_peer(fd, manager->policy, &peer, &text);
        if (r == AUTHORIZE_E_DENIED) {
                record_refusal(manager, &peer, text);
                refuse(fd, text);
                return;
        }
        if (r != 0) {
                (void) log_errno(r, "a connection could not be judged and was closed");
                return;
        }

        if (budget_charge_client(&manager->budget, peer.uid) != 0) {
                refuse_full(manager, fd);
                return;
        }
        r = client_new(manager, TAKE_FD(fd), &peer);
        if (r < 0)
                (void) log_errno(r, "a connection could not be served");
}

static int on_timer(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Listener *listener = userdata;

        (void) sd_event_source_set_enabled(listener->io, SD_EVENT_ON);
        return 0;
}

/* The queue stays readable while no connection can be taken: looking again at once would spin. */
static void listener_pause(Listener *listener, int error) {
        if (!listener->complained)
                (void) log_errno(error, "no connection can be taken for now");
        listener->complained = true;

        if (sd_event_source_set_time_relative(listener->timer, LISTENER_PAUSE_USEC) >= 0 &&
            sd_event_source_set_enabled(listener->timer, SD_EVENT_ONESHOT) >= 0)
                (void) sd_event_source_set_enabled(listener->io, SD_EVENT_OFF);
}

static int on_listener(sd_event_source *source _unused_, int fd, uint32_t events _unused_,
                       void *userdata) {
        Listener *listener = userdata;

        for (size_t i = 0; i < LISTENER_ACCEPT_MAX; i++) {
                int connection;

                connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (connection < 0) {
                        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                            errno == ENOMEM)
                                listener_pause(listener, -errno);
                        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                                listener_pause(listener, negative_errno());
                        return 0;
                }

                listener->complained = false;
                if (listener->kind == LISTENER_METRICS)
                        http_client_admit(listener->manager, connection);
                else
                        listener_admit(listener->manager, connection);
        }
        return 0;
}

Listener *listener_free(Listener *listener) {
        struct stat st;

        if (!listener)
                return NULL;

        sd_event_source_disable_unref(listener->io);
        sd_event_source_disable_unref(listener->timer);
        if (listener->path && lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
            st.st_ino == listener->inode)
                (void) unlink(listener->path);
        fd_close(listener->fd);
        free(listener->path);
        free(listener);
        return NULL;
}

static int listener_keep_path(Listener *listener, const char *path) {
        struct stat st;

        if (!path)
                return 0;
        if (lstat(path, &st) < 0)
                return error_origin(negative_errno());

        listener->path = strdup(path);
        listener->device = st.st_dev;
        listener->inode = st.st_ino;
        return listener->path ? 0 : error_origin(-ENOMEM);
}

int listener_new(Manager *manager, ListenerKind kind, int fd, const char *path,
                 Listener **ret_listener) {
        _cleanup_(listener_freep) Listener *listener = NULL;
        int r;

        listener = calloc(1, sizeof(Listener));
        if (!listener) {
                fd_close(fd);
                return error_origin(-ENOMEM);
        }

        listener->manager = manager;
        listener->kind = kind;
        listener->fd = fd;
        r = listener_keep_path(listener, path);
        if (r < 0)
                return error_trace(r);

        r = sd_event_add_io(manager->event, &listener->io, fd, EPOLLIN, on_listener, listener);
        if (r >= 0)
                r = sd_event_add_time(manager->event, &listener->timer, CLOCK_MONOTONIC, 0, 0,
                                      on_timer, listener);
        if (r >= 0)
                r = sd_event_source_set_enabled(listener->timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);

        *ret_listener = TAKE_PTR(listener);
        return 0;
}
