/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/outbox.h"

#include <sys/socket.h>

#include "basic/error.h"

/* An empty buffer larger than this is given back. */
#define OUTBOX_KEEP (64U << 10)

void outbox_done(Outbox *outbox) {
        strbuf_done(&outbox->buffer);
        *outbox = (Outbox){};
}

size_t outbox_pending(const Outbox *outbox) {
        return outbox->buffer.size - outbox->sent;
}

/* Moves the rest to the front only when more was sent than is left: that keeps it linear. */
static void outbox_compact(Outbox *outbox) {
        size_t left = outbox_pending(outbox);

        if (left == 0 && outbox->buffer.capacity > OUTBOX_KEEP)
                strbuf_done(&outbox->buffer);
        else if (outbox->sent < left)
                return;
        else
                strbuf_consume(&outbox->buffer, outbox->sent);
        outbox->sent = 0;
}

int outbox_add_bytes(Outbox *outbox, const char *data, size_t size) {
        outbox_compact(outbox);
        return error_trace(strbuf_append(&outbox->buffer, data, size));
}

int outbox_add(Outbox *outbox, const char *frame, size_t size) {
        int r;

        outbox_compact(outbox);
        r = strbuf_reserve(&outbox->buffer, size + 1);
        if (r == 0)
                r = strbuf_append(&outbox->buffer, frame, size);
        if (r == 0)
                r = strbuf_append_byte(&outbox->buffer, '\n');
        return error_trace(r);
}

int outbox_flush(Outbox *outbox, int fd) {
        while (outbox_pending(outbox) > 0) {
                ssize_t n;

                n = send(fd, outbox->buffer.data + outbox->sent, outbox_pending(outbox),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return OUTBOX_E_AGAIN;
                if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
                        return OUTBOX_E_GONE;
                if (n < 0)
                        return error_origin(negative_errno());
                outbox->sent += (size_t) n;
        }

        outbox_compact(outbox);
        return 0;
}
