/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/resolver.h"

#include <ares.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "basic/error.h"
#include "basic/time-util.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define TRY_MSEC 2000
#define TRIES 3
/* An answer may be used again as long as its server says, and not for longer than this. */
#define KNOWN_SEC_MAX 60
#define KNOWN_MAX 64U

typedef struct ResolverSocket {
        Resolver *resolver;
        LoopFd fd;
        struct ResolverSocket *next;
} ResolverSocket;

typedef struct Found {
        Address addresses[RESOLVER_ADDRESSES_MAX];
        size_t n_addresses;
        char chain[RESOLVER_CHAIN_MAX];
} Found;

/* What was answered, as long as it holds. */
typedef struct Known {
        struct Known *next;
        char *name;
        uint64_t until_usec;
        Found found;
} Known;

struct ResolverQuery {
        Resolver *resolver;
        char *name;
        ResolverQuery *previous, *next;
        ResolverDone done; /* NULL: nobody waits any more */
        void *userdata;
        bool answered;
        LoopTask task;
        const char *error;
        Found found;
};

struct Resolver {
        Loop *loop;
        ares_channel channel;
        char *servers;           /* NULL: the system's */
        struct timespec changed; /* when the system's were */
        ResolverSocket *sockets;
        ResolverQuery *queries;
        Known *known; /* the last one first */
        LoopTimer timer;
};

/* --- what is known --- */

static Known *known_free(Known *known) {
        Known *next = known->next;

        free(known->name);
        free(known);
        return next;
}

static void known_forget_all(Resolver *resolver) {
        while (resolver->known)
                resolver->known = known_free(resolver->known);
}

/* On the way, what holds no longer is forgotten. */
static Known *known_find(Resolver *resolver, const char *name) {
        uint64_t now = loop_now(resolver->loop);
        Known **place = &resolver->known;

        while (*place) {
                if ((*place)->until_usec <= now)
                        *place = known_free(*place);
                else if (string_equal((*place)->name, name))
                        return *place;
                else
                        place = &(*place)->next;
        }
        return NULL;
}

static void known_forget_oldest(Resolver *resolver) {
        Known **place = &resolver->known;
        size_t n = 1;

        while (*place && (*place)->next) {
                place = &(*place)->next;
                n++;
        }
        if (*place && n >= KNOWN_MAX)
                *place = known_free(*place);
}

/* Without memory it is not kept. */
static void known_add(const ResolverQuery *query, int seconds) {
        Resolver *resolver = query->resolver;
        Known *known = seconds > 0 ? calloc(1, sizeof(Known)) : NULL;

        if (!known)
                return;
        known->name = strdup(query->name);
        if (!known->name) {
                (void) known_free(known);
                return;
        }
        known->until_usec = loop_now(resolver->loop) + (uint64_t) seconds * USEC_PER_SEC;
        known->found = query->found;
        known_forget_oldest(resolver);
        known->next = resolver->known;
        resolver->known = known;
}

/* --- the channel --- */

static void set_timer(Resolver *resolver) {
        struct timeval most = {.tv_sec = 60}, wait;

        if (!resolver->queries) {
                loop_timer_stop(&resolver->timer);
                return;
        }
        (void) ares_timeout(resolver->channel, &most, &wait);
        (void) loop_timer_set(resolver->loop, &resolver->timer,
                              now_usec() + (uint64_t) wait.tv_sec * USEC_PER_SEC +
                                      (uint64_t) wait.tv_usec);
}

static void on_socket(void *userdata, uint32_t events) {
        ResolverSocket *socket = userdata;
        Resolver *resolver = socket->resolver;
        int fd = socket->fd.fd;

        ares_process_fd(resolver->channel,
                        events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd : ARES_SOCKET_BAD,
                        events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
        set_timer(resolver);
}

static void on_time(void *userdata) {
        Resolver *resolver = userdata;

        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        set_timer(resolver);
}

static void socket_forget(Resolver *resolver, int fd) {
        for (ResolverSocket **place = &resolver->sockets; *place; place = &(*place)->next) {
                ResolverSocket *socket = *place;

                if (socket->fd.fd != fd)
                        continue;
                loop_remove(&socket->fd);
                *place = socket->next;
                free(socket);
                return;
        }
}

/* What cannot be watched runs into the time limit of its question. */
static void on_socket_state(void *userdata, ares_socket_t fd, int readable, int writable) {
        uint32_t events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
        Resolver *resolver = userdata;
        ResolverSocket *socket = resolver->sockets;

        while (socket && socket->fd.fd != fd)
                socket = socket->next;
        if (!events) {
                socket_forget(resolver, fd);
                return;
        }
        if (socket) {
                (void) loop_change(&socket->fd, events);
                return;
        }
        socket = calloc(1, sizeof(*socket));
        if (!socket)
                return;
        *socket = (ResolverSocket){.resolver = resolver,
                                   .fd = {.fd = fd, .on_ready = on_socket, .userdata = socket},
                                   .next = resolver->sockets};
        if (loop_add(resolver->loop, &socket->fd, events) < 0) {
                free(socket);
                return;
        }
        resolver->sockets = socket;
}

static struct timespec configuration_changed(void) {
        struct stat st;

        if (stat(RESOLV_CONF, &st) < 0)
                return (struct timespec){};
        return st.st_mtim;
}

static int channel_open(Resolver *resolver) {
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH,
                .timeout = TRY_MSEC,
                .tries = TRIES,
                .lookups = resolver->servers ? (char *) "b" : (char *) "fb",
                .sock_state_cb = on_socket_state,
                .sock_state_cb_data = resolver,
        };
        int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                   ARES_OPT_SOCK_STATE_CB;

        if (ares_init_options(&resolver->channel, &options, mask) != ARES_SUCCESS)
                return error_origin(-ENOMEM);
        if (resolver->servers &&
            ares_set_servers_ports_csv(resolver->channel, resolver->servers) != ARES_SUCCESS) {
                ares_destroy(resolver->channel);
                resolver->channel = NULL;
                return error_origin(-EINVAL);
        }
        return 0;
}

/* Answers to what was asked of the old servers are waited for first. */
static int channel_refresh(Resolver *resolver) {
        struct timespec changed;

        if (resolver->servers || resolver->queries)
                return 0;
        changed = configuration_changed();
        if (changed.tv_sec == resolver->changed.tv_sec &&
            changed.tv_nsec == resolver->changed.tv_nsec)
                return 0;
        known_forget_all(resolver);
        ares_destroy(resolver->channel);
        resolver->channel = NULL;
        resolver->changed = changed;
        return channel_open(resolver);
}

int resolver_new(Loop *loop, const StrV *servers, Resolver **ret_resolver) {
        _cleanup_(strbuf_done) StrBuf list = STRBUF_NULL;
        _cleanup_(resolver_freep) Resolver *resolver = calloc(1, sizeof(Resolver));
        int r = 0;

        if (!resolver)
                return error_origin(-ENOMEM);
        resolver->loop = loop;
        resolver->timer = (LoopTimer){.on_time = on_time, .userdata = resolver};
        for (size_t i = 0; r == 0 && servers && i < servers->n_items; i++)
                r = strbuf_appendf(&list, "%s%s", i > 0 ? "," : "", servers->items[i]);
        if (r < 0)
                return error_trace(r);
        if (list.size > 0)
                resolver->servers = strbuf_steal(&list);
        resolver->changed = configuration_changed();
        r = channel_open(resolver);
        if (r < 0)
                return error_trace(r);
        *ret_resolver = TAKE_PTR(resolver);
        return 0;
}

/* --- questions --- */

static void query_free(ResolverQuery *query) {
        if (query->previous)
                query->previous->next = query->next;
        else
                query->resolver->queries = query->next;
        if (query->next)
                query->next->previous = query->previous;
        loop_task_cancel(&query->task);
        free(query->name);
        free(query);
}

/* c-ares answers some questions before they were asked to the end, and everything when it is torn
 * down; whoever asks here is told from the loop, and no more than it wants. */
static void query_end(void *userdata) {
        ResolverQuery *query = userdata;
        ResolverDone done = query->done;
        void *to = query->userdata;
        ResolverAnswer answer = {.error = query->error,
                                 .addresses = query->found.addresses,
                                 .n_addresses = query->found.n_addresses,
                                 .chain = query->found.chain};

        query->done = NULL;
        if (done)
                done(to, &answer);
        query_free(query);
}

static bool chain_has(const char *chain, const char *name) {
        size_t size = strlen(name), n;

        for (const char *p = chain; *p; p += n) {
                n = strcspn(p, " >");
                if (n == size && memcmp(p, name, n) == 0)
                        return true;
                n += strspn(p + n, " >");
        }
        return false;
}

/* Each name once: the answers of both families tell of the same ones. */
static void add_chain(ResolverQuery *query, const char *name) {
        char *chain = query->found.chain;
        size_t size = strlen(chain);

        if (!chain_has(chain, name))
                (void) snprintf(chain + size, sizeof(query->found.chain) - size, "%s%.255s",
                                size > 0 ? " > " : "", name);
}

static void on_answer(void *userdata, int status, int timeouts _unused_,
                      struct ares_addrinfo *info) {
        ResolverQuery *query = userdata;
        int seconds = KNOWN_SEC_MAX;

        query->answered = true;
        if (status != ARES_SUCCESS)
                query->error = ares_strerror(status);
        else if (info) {
                for (struct ares_addrinfo_cname *cname = info->cnames; cname; cname = cname->next) {
                        seconds = cname->ttl < seconds ? cname->ttl : seconds;
                        if (cname->name)
                                add_chain(query, cname->name);
                }
                for (struct ares_addrinfo_node *node = info->nodes;
                     node && query->found.n_addresses < RESOLVER_ADDRESSES_MAX;
                     node = node->ai_next) {
                        seconds = node->ai_ttl < seconds ? node->ai_ttl : seconds;
                        if (address_from_sockaddr(
                                    node->ai_addr,
                                    &query->found.addresses[query->found.n_addresses]))
                                query->found.n_addresses++;
                }
        }
        if (query->found.n_addresses > 0)
                known_add(query, seconds);
        ares_freeaddrinfo(info);
        loop_defer(query->resolver->loop, &query->task);
}

int resolver_ask(Resolver *resolver, const char *name, ResolverDone done, void *userdata,
                 ResolverQuery **ret_query) {
        const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC,
                                                  .ai_socktype = SOCK_STREAM};
        const Known *known;
        ResolverQuery *query;
        int r;

        r = channel_refresh(resolver);
        if (r < 0)
                return error_trace(r);
        query = calloc(1, sizeof(*query));
        if (!query)
                return error_origin(-ENOMEM);
        *query = (ResolverQuery){.resolver = resolver,
                                 .next = resolver->queries,
                                 .done = done,
                                 .userdata = userdata,
                                 .task = {.run = query_end, .userdata = query}};
        if (query->next)
                query->next->previous = query;
        resolver->queries = query;
        *ret_query = query;
        known = known_find(resolver, name);
        if (known) {
                query->found = known->found;
                loop_defer(resolver->loop, &query->task);
                return 0;
        }
        query->name = strdup(name);
        if (!query->name) {
                *ret_query = NULL;
                query_free(query);
                return error_origin(-ENOMEM);
        }
        ares_getaddrinfo(resolver->channel, name, NULL, &hints, on_answer, query);
        set_timer(resolver);
        return 0;
}

void resolver_prefer(Resolver *resolver, const char *name, const Address *address) {
        Known *known = known_find(resolver, name);
        Address *addresses = known ? known->found.addresses : NULL;
        size_t i = 0;

        while (known && i < known->found.n_addresses && !address_equal(&addresses[i], address))
                i++;
        if (!known || i == known->found.n_addresses)
                return;
        memmove(&addresses[1], addresses, i * sizeof(*addresses));
        addresses[0] = *address;
}

void resolver_query_cancel(ResolverQuery *query) {
        if (query)
                query->done = NULL;
}

Resolver *resolver_free(Resolver *resolver) {
        if (!resolver)
                return NULL;

        loop_timer_stop(&resolver->timer);
        /* Answers all questions, which go then. */
        if (resolver->channel)
                ares_destroy(resolver->channel);
        while (resolver->queries)
                query_free(resolver->queries);
        while (resolver->sockets)
                socket_forget(resolver, resolver->sockets->fd.fd);
        known_forget_all(resolver);
        free(resolver->servers);
        free(resolver);
        return NULL;
}
