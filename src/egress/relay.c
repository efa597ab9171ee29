/* SPDX-License-Identifier: Apache-2.0 */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "egress/relay-internal.h"

/* How the job's side is paced: not at all. Between it and the job there is only this machine, which
 * loses nothing, and every kernel has this one. */
#define WITHIN "reno"
#define WATCHED (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static const char *const reasons[_RELAY_END_REASON_MAX] = {
        [RELAY_DONE] = "done",
        [RELAY_RESET] = "reset",
        [RELAY_IDLE] = "idle",
        [RELAY_BYTES] = "bytes",
        [RELAY_REFUSED] = "refused",
        [RELAY_SLOW] = "slow",
        [RELAY_UNRESOLVED] = "unresolved",
        [RELAY_UNREACHABLE] = "unreachable",
        [RELAY_DENIED] = "denied",
        [RELAY_CLOSED] = "closed",
        [RELAY_FAILED] = "failed",
};

/* --- its end --- */

static void write_log(Relay *relay, RelayEndReason reason) {
        Session *session = relay->session;
        LogEntry *entry = &session->log[session->n_log];
        UseCount *unlogged = &relay->listener->use->unlogged;

        /* What was not dialled is among the denials, but for the names that led there; it leaves
         * room for what was. */
        if (!relay->address.family && (!relay->chain || session->n_log >= SESSION_LOG_MAX / 2))
                return;
        if (session->n_log == SESSION_LOG_MAX) {
                unlogged->connections++;
                unlogged->bytes_in += relay->in.bytes;
                unlogged->bytes_out += relay->out.bytes;
                return;
        }
        *entry = (LogEntry){.name = strdup(relay->listener->slot->name),
                            .port = relay->listener->port->port,
                            .address = relay->address,
                            .chain = relay->chain,
                            .end = reasons[reason],
                            .bytes_in = relay->in.bytes,
                            .bytes_out = relay->out.bytes,
                            .begun_usec = relay->started_usec,
                            .usec = now_usec() - relay->started_usec};
        relay->chain = NULL;
        if (entry->name)
                session->n_log++;
        else
                free(entry->chain);
}

static void end_close(RelayEnd *end, bool reset) {
        const struct linger at_once = {.l_onoff = 1};

        if (end->fd.fd < 0)
                return;
        loop_remove(&end->fd);
        if (reset)
                (void) setsockopt(end->fd.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        end->fd.fd = fd_close(end->fd.fd);
}

Relay *relay_free(Relay *relay) {
        if (!relay)
                return NULL;

        if (relay->previous)
                relay->previous->next = relay->next;
        else
                relay->session->relays = relay->next;
        if (relay->next)
                relay->next->previous = relay->previous;
        relay->session->n_relays--;
        resolver_query_cancel(relay->query);
        dial_free(relay->dial);
        loop_timer_stop(&relay->timer);
        loop_task_cancel(&relay->turn);
        end_close(&relay->client, false);
        end_close(&relay->upstream, false);
        relay_flow_done(relay, &relay->out);
        relay_flow_done(relay, &relay->in);
        if (relay->hello)
                client_hello_done(relay->hello);
        if (relay->guard)
                http_guard_done(relay->guard);
        free(relay->hello);
        free(relay->guard);
        free(relay->chain);
        free(relay);
        return NULL;
}

void relay_end(Relay *relay, RelayEndReason reason) {
        bool reset = reason != RELAY_DONE && reason != RELAY_REFUSED;

        /* A refusal would be lost with whatever the client sent that nobody has read. */
        if (reason == RELAY_REFUSED) {
                char rest[4096];

                (void) shutdown(relay->client.fd.fd, SHUT_WR);
                for (int i = 0;
                     i < 16 && recv(relay->client.fd.fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
                        ;
        }
        write_log(relay, reason);
        end_close(&relay->client, reset);
        end_close(&relay->upstream, reset);
        relay_free(relay);
}

void session_end_relays(Session *session) {
        while (session->relays)
                relay_end(session->relays, RELAY_CLOSED);
}

/* --- time --- */

static void on_time(void *userdata) {
        Relay *relay = userdata;
        Loop *loop = relay->session->host.loop;
        uint64_t until = relay->moved_usec + relay->session->document->idle_msec * USEC_PER_MSEC;

        if (relay->state == RELAY_HEAD) {
                listener_deny(relay->listener, DENIAL_LIMIT, "head", NULL);
                relay_end(relay, RELAY_SLOW);
                return;
        }
        /* Most of the time something has moved since: the timer is not set anew for every byte. */
        if (until <= loop_now(loop)) {
                listener_deny(relay->listener, DENIAL_LIMIT, "idle", NULL);
                relay_end(relay, RELAY_IDLE);
        } else if (loop_timer_set(loop, &relay->timer, until) < 0)
                relay_end(relay, RELAY_FAILED);
}

/* --- outside --- */

static void end_note(RelayEnd *end, uint32_t events) {
        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                end->readable = true;
        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                end->ending = true;
        if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
                end->writable = true;
}

static void on_upstream(void *userdata, uint32_t events) {
        Relay *relay = userdata;

        end_note(&relay->upstream, events);
        relay_move(relay);
}

static void on_dialled(void *userdata, int fd, const Address *address) {
        Relay *relay = userdata;
        Session *session = relay->session;

        relay->dial = NULL;
        if (fd < 0) {
                char text[ADDRESS_TEXT_MAX];

                listener_deny(relay->listener, DENIAL_UNREACHABLE, "not-connected",
                              address_format(address, text));
                relay_end(relay, RELAY_UNREACHABLE);
                return;
        }
        relay->address = *address;
        /* The next one does not wait for what has not answered this one. */
        resolver_prefer(session->resolver, relay->listener->slot->name, address);
        relay->upstream.fd = (LoopFd){.fd = fd, .on_ready = on_upstream, .userdata = relay};
        relay->upstream.writable = true;
        relay->state = RELAY_OPEN;
        relay->moved_usec = loop_now(session->host.loop);
        session->connections++;
        relay->listener->use->all.connections++;
        if (loop_add(session->host.loop, &relay->upstream.fd, WATCHED) < 0 ||
            loop_timer_set(session->host.loop, &relay->timer,
                           relay->moved_usec + session->document->idle_msec * USEC_PER_MSEC) < 0)
                relay_end(relay, RELAY_FAILED);
        else
                relay_move(relay);
}

/* Those that may be dialled; the others are told of. */
static size_t judge(Relay *relay, const ResolverAnswer *answer, Address *addresses) {
        Session *session = relay->session;
        const CidrList *open = &relay->listener->port->open, *deny = &session->document->deny;
        const AddressRules rules = {.deny = deny->items,
                                    .n_deny = deny->n_items,
                                    .open = open->items,
                                    .n_open = open->n_items,
                                    .is_own = host_addresses_contain,
                                    .userdata = session->host.addresses};
        char text[ADDRESS_TEXT_MAX];
        size_t n = 0;

        for (size_t i = 0; i < answer->n_addresses && n < DIAL_ADDRESSES_MAX; i++) {
                AddressClass class = address_judge(&answer->addresses[i], &rules);

                if (class == ADDRESS_PUBLIC)
                        addresses[n++] = answer->addresses[i];
                else
                        listener_deny(relay->listener, DENIAL_ADDRESS,
                                      address_class_to_string(class),
                                      address_format(&answer->addresses[i], text));
        }
        return n;
}

static void on_resolved(void *userdata, const ResolverAnswer *answer) {
        Relay *relay = userdata;
        Address addresses[DIAL_ADDRESSES_MAX];
        size_t n;

        relay->query = NULL;
        if (answer->chain[0])
                relay->chain = strdup(answer->chain);
        if (answer->error || answer->n_addresses == 0) {
                listener_deny(relay->listener, DENIAL_UNREACHABLE, "not-resolved", NULL);
                relay_end(relay, RELAY_UNRESOLVED);
                return;
        }
        n = judge(relay, answer, addresses);
        if (n == 0) {
                relay_end(relay, RELAY_DENIED);
                return;
        }
        relay->state = RELAY_DIAL;
        if (dial_new(relay->session->host.loop, addresses, n, relay->listener->port->port,
                     on_dialled, relay, &relay->dial) < 0)
                relay_end(relay, RELAY_FAILED);
}

static void relay_resolve(Relay *relay) {
        Resolver *resolver;
        int r;

        loop_timer_stop(&relay->timer);
        relay->state = RELAY_RESOLVE;
        r = session_get_resolver(relay->session, &resolver);
        if (r == 0)
                r = resolver_ask(resolver, relay->listener->slot->name, on_resolved, relay,
                                 &relay->query);
        if (r < 0)
                relay_end(relay, RELAY_FAILED);
}

/* --- its begin --- */

static void on_client(void *userdata, uint32_t events) {
        Relay *relay = userdata;

        if (relay->state != RELAY_OPEN && events & (EPOLLHUP | EPOLLERR)) {
                relay_end(relay, RELAY_RESET);
                return;
        }
        end_note(&relay->client, events);
        if (relay->state == RELAY_OPEN)
                relay_move(relay);
        else if (relay->state == RELAY_HEAD && relay_read_head(relay))
                relay_resolve(relay);
}

static void on_turn(void *userdata) {
        relay_move(userdata);
}

static int relay_prepare(Relay *relay) {
        switch (relay->listener->port->type) {
        case DESTINATION_TLS:
                relay->hello = calloc(1, sizeof(ClientHello));
                return relay->hello ? 0 : error_origin(-ENOMEM);
        case DESTINATION_HTTP:
                relay->guard = calloc(1, sizeof(HttpGuard));
                if (!relay->guard)
                        return error_origin(-ENOMEM);
                relay->guard->name = relay->listener->slot->name;
                relay->guard->port = relay->listener->port->port;
                return 0;
        default:
                return 0;
        }
}

static Relay *relay_new(Listener *listener, int fd) {
        Session *session = listener->session;
        Relay *relay = calloc(1, sizeof(Relay));

        if (!relay) {
                fd_close(fd);
                return NULL;
        }
        *relay = (Relay){.session = session,
                         .next = session->relays,
                         .listener = listener,
                         .client.fd = {.fd = fd, .on_ready = on_client, .userdata = relay},
                         .upstream.fd.fd = -EBADF,
                         .timer = {.on_time = on_time, .userdata = relay},
                         .turn = {.run = on_turn, .userdata = relay},
                         .started_usec = now_usec()};
        relay->moved_usec = relay->started_usec;
        if (relay->next)
                relay->next->previous = relay;
        session->relays = relay;
        session->n_relays++;
        return relay;
}

void relay_start(Listener *listener, int fd) {
        Relay *relay = relay_new(listener, fd);
        const int one = 1;

        if (!relay)
                return;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, WITHIN, strlen(WITHIN));
        if (relay_prepare(relay) < 0 ||
            loop_add(listener->session->host.loop, &relay->client.fd, WATCHED) < 0 ||
            loop_timer_set(listener->session->host.loop, &relay->timer,
                           relay->started_usec +
                                   listener->session->document->head_msec * USEC_PER_MSEC) < 0)
                relay_end(relay, RELAY_FAILED);
        else if (!relay->hello && !relay->guard)
                relay_resolve(relay);
}
