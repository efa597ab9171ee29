/* SPDX-License-Identifier: Apache-2.0 */

#include <sys/socket.h>

#include "basic/error.h"
#include "egress/destination-name.h"
#include "egress/relay-internal.h"

/* What one relay moves before it is another's turn. */
#define TURN_BYTES (4U << 20)
#define READ_SIZE (64U * 1024U)

typedef enum Moved {
        MOVED_ALL,   /* there is nothing to be done now */
        MOVED_SOME,  /* there may be more */
        MOVED_ENDED, /* the relay is gone */
} Moved;

void relay_flow_done(Relay *relay, RelayFlow *flow) {
        strbuf_done(&flow->pending);
        buffer_pool_give(relay->session->host.buffers, &flow->buffer);
}

static Moved end(Relay *relay, RelayEndReason reason) {
        relay_end(relay, reason);
        return MOVED_ENDED;
}

/* --- what is wanted --- */

/* One that reads it in time is told; nothing waits for it. */
static Moved refuse(Relay *relay, const void *text, size_t size) {
        if (relay->upstream.fd.fd >= 0)
                return end(relay, RELAY_RESET);
        (void) send(relay->client.fd.fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        return end(relay, RELAY_REFUSED);
}

static Moved refuse_tls(Relay *relay, const char *reason) {
        /* A fatal alert: unrecognized_name. */
        static const uint8_t alert[] = {21, 3, 1, 0, 2, 2, 112};
        bool is_tls = relay->hello->name[0] != 0 || !string_equal(reason, "not-tls");

        listener_deny(relay->listener, DENIAL_SNI, reason, relay->hello->name);
        return is_tls ? refuse(relay, alert, sizeof(alert)) : end(relay, RELAY_REFUSED);
}

static Moved look_at_tls(Relay *relay, const char *data, size_t size) {
        int r;

        r = strbuf_append(&relay->out.pending, data, size);
        if (r == 0)
                r = client_hello_add(relay->hello, (const uint8_t *) data, size);
        if (r < 0)
                return end(relay, RELAY_FAILED);
        if (r == CLIENT_HELLO_E_MORE && relay->out.pending.size < 2 * CLIENT_HELLO_MAX)
                return MOVED_SOME;
        if (r != 0)
                return refuse_tls(relay, "not-tls");
        if (relay->hello->name[0] == 0)
                return refuse_tls(relay, "missing");
        if (!destination_name_is(relay->listener->slot->name, relay->hello->name))
                return refuse_tls(relay, "mismatch");
        client_hello_done(relay->hello);
        free(TAKE_PTR(relay->hello));
        return MOVED_ALL;
}

/* Anything that the guard lets through is the head of a request, to begin with. */
static Moved look_at_http(Relay *relay, const char *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf refusal = STRBUF_NULL;
        int r;

        r = http_guard_add(relay->guard, data, size, &relay->out.pending);
        if (r == 0)
                return relay->out.pending.size > 0 ? MOVED_ALL : MOVED_SOME;
        if (r != HTTP_GUARD_E_REFUSED || http_guard_append_refusal(relay->guard, &refusal) < 0)
                return end(relay, RELAY_FAILED);
        listener_deny(relay->listener, DENIAL_HOST, relay->guard->fault.text, NULL);
        return refuse(relay, refusal.data, refusal.size);
}

/* Reads from the client, and has it looked at. MOVED_ALL: nothing has come. */
static Moved read_client(Relay *relay, Moved (*look)(Relay *, const char *, size_t),
                         Moved *ret_looked) {
        _uninitialized_ char data[READ_SIZE];
        ssize_t n;

        n = recv(relay->client.fd.fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
                return MOVED_SOME;
        if (n < 0 && errno == EAGAIN) {
                relay->client.readable = false;
                return MOVED_ALL;
        }
        if (n < 0)
                return end(relay, RELAY_RESET);
        /* The end is something that comes, too: it has to be passed on. */
        if (n == 0) {
                relay->client.ended = true;
                return MOVED_SOME;
        }
        relay->moved_usec = loop_now(relay->session->host.loop);
        *ret_looked = look(relay, data, (size_t) n);
        return *ret_looked == MOVED_ENDED ? MOVED_ENDED : MOVED_SOME;
}

bool relay_read_head(Relay *relay) {
        while (relay->client.readable && !relay->client.ended) {
                Moved looked = MOVED_SOME;

                if (read_client(relay, relay->hello ? look_at_tls : look_at_http, &looked) ==
                    MOVED_ENDED)
                        return false;
                if (looked == MOVED_ALL)
                        return true;
        }
        if (relay->client.ended)
                relay_end(relay, RELAY_DONE);
        return false;
}

/* --- bytes --- */

/* Counts what has reached the other end. */
static Moved count(Relay *relay, RelayFlow *flow, size_t n) {
        Session *session = relay->session;
        bool is_in = flow == &relay->in;

        flow->bytes += n;
        *(is_in ? &session->bytes_in : &session->bytes_out) += n;
        *(is_in ? &relay->listener->use->all.bytes_in : &relay->listener->use->all.bytes_out) += n;
        relay->moved_usec = loop_now(session->host.loop);
        if (session->document->bytes_max == 0 ||
            session->bytes_in + session->bytes_out <= session->document->bytes_max)
                return MOVED_SOME;
        listener_deny(relay->listener, DENIAL_LIMIT, "bytes", NULL);
        return end(relay, RELAY_BYTES);
}

/* What became of a write. */
static Moved wrote(Relay *relay, RelayFlow *flow, RelayEnd *to, ssize_t n) {
        if (n > 0)
                return count(relay, flow, (size_t) n);
        if (n < 0 && errno == EINTR)
                return MOVED_SOME;
        if (n < 0 && errno != EAGAIN)
                return end(relay, RELAY_RESET);
        to->writable = false;
        return MOVED_ALL;
}

static Moved write_pending(Relay *relay, RelayFlow *flow, RelayEnd *to) {
        ssize_t n = send(to->fd.fd, flow->pending.data + flow->n_written,
                         flow->pending.size - flow->n_written, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
                flow->n_written += (size_t) n;
        if (flow->n_written == flow->pending.size) {
                strbuf_done(&flow->pending);
                flow->n_written = 0;
        }
        return wrote(relay, flow, to, n);
}

static Moved write_buffer(Relay *relay, RelayFlow *flow, RelayEnd *to) {
        size_t size = flow->n_held;
        ssize_t n =
                send(to->fd.fd, flow->buffer.data + flow->begin, size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0) {
                flow->begin += (size_t) n;
                flow->n_held -= (size_t) n;
                /* It has taken all that it takes now, and tells when it takes more. */
                if ((size_t) n < size)
                        to->writable = false;
        }
        if (flow->n_held == 0)
                buffer_pool_give(relay->session->host.buffers, &flow->buffer);
        return wrote(relay, flow, to, n);
}

/* The buffer is empty. */
static Moved fill_buffer(Relay *relay, RelayFlow *flow, RelayEnd *from) {
        BufferPool *buffers = relay->session->host.buffers;
        ssize_t n;

        if (!flow->buffer.data && buffer_pool_take(buffers, &flow->buffer) < 0)
                return end(relay, RELAY_FAILED);
        n = recv(from->fd.fd, flow->buffer.data, flow->buffer.size, MSG_DONTWAIT);
        if (n > 0) {
                /* With that the sender has nothing more, unless it tells so later, or has told of
                 * its end already. */
                if ((size_t) n < flow->buffer.size && !from->ending)
                        from->readable = false;
                flow->begin = 0;
                flow->n_held = (size_t) n;
                return MOVED_SOME;
        }
        buffer_pool_give(buffers, &flow->buffer);
        if (n < 0 && errno == EINTR)
                return MOVED_SOME;
        if (n < 0 && errno != EAGAIN)
                return end(relay, RELAY_RESET);
        if (n == 0)
                from->ended = true;
        else
                from->readable = false;
        return n == 0 ? MOVED_SOME : MOVED_ALL;
}

static Moved fill(Relay *relay, RelayFlow *flow, RelayEnd *from) {
        Moved looked;

        if (flow == &relay->out && relay->guard)
                return read_client(relay, look_at_http, &looked);
        return fill_buffer(relay, flow, from);
}

static Moved end_flow(Relay *relay, RelayFlow *flow, RelayEnd *to) {
        flow->ended = true;
        if (relay->in.ended && relay->out.ended)
                return end(relay, RELAY_DONE);
        (void) shutdown(to->fd.fd, SHUT_WR);
        return MOVED_ALL;
}

/* One step in one direction. */
static Moved step(Relay *relay, RelayFlow *flow, RelayEnd *from, RelayEnd *to) {
        if (flow->pending.size > 0)
                return to->writable ? write_pending(relay, flow, to) : MOVED_ALL;
        if (flow->n_held > 0)
                return to->writable ? write_buffer(relay, flow, to) : MOVED_ALL;
        if (from->ended)
                return flow->ended ? MOVED_ALL : end_flow(relay, flow, to);
        return from->readable ? fill(relay, flow, from) : MOVED_ALL;
}

static Moved move_flow(Relay *relay, RelayFlow *flow, RelayEnd *from, RelayEnd *to) {
        uint64_t begin = flow->bytes;
        Moved moved = MOVED_SOME;

        while (moved == MOVED_SOME && flow->bytes - begin < TURN_BYTES)
                moved = step(relay, flow, from, to);
        return moved;
}

void relay_move(Relay *relay) {
        Moved out, in;

        out = move_flow(relay, &relay->out, &relay->client, &relay->upstream);
        if (out == MOVED_ENDED)
                return;
        in = move_flow(relay, &relay->in, &relay->upstream, &relay->client);
        if (in != MOVED_ENDED && (out == MOVED_SOME || in == MOVED_SOME))
                loop_defer(relay->session->host.loop, &relay->turn);
}
