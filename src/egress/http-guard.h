/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What passes on a plain HTTP destination: requests of HTTP/1 that can be read in one way only, and
 * of which each one names the destination as its Host. Everything behind a head is followed to its
 * end, so that no other request hides in it.
 *
 * An offer to go on in HTTP/2 (Upgrade: h2c) is taken out, which refuses it as HTTP wants it: the
 * request is answered in HTTP/1. Any other change of protocol is refused, since nobody could look
 * at what follows.
 */

#include "http/head.h"

typedef enum HttpGuardState {
        HTTP_GUARD_HEAD,
        HTTP_GUARD_BODY,       /* left bytes */
        HTTP_GUARD_CHUNK_SIZE, /* the line before a chunk */
        HTTP_GUARD_CHUNK,      /* left bytes, then CR LF */
        HTTP_GUARD_CHUNK_END,
        HTTP_GUARD_LAST, /* CR LF behind the last chunk */
} HttpGuardState;

typedef struct HttpGuard {
        const char *name; /* borrowed; in lower case */
        uint16_t port;
        HttpGuardState state;
        HttpHead head;
        uint64_t left;
        char line[20]; /* of a chunk */
        size_t n_line;
        HttpFault fault;
        bool within; /* a head has begun, and is not whole */
} HttpGuard;

enum {
        _HTTP_GUARD_E_SUCCESS,
        HTTP_GUARD_E_REFUSED, /* fault tells; what is in out was a part of nothing */
};

void http_guard_done(HttpGuard *guard);
/* Appends what may pass to out. 0, HTTP_GUARD_E_REFUSED or -ENOMEM. */
int http_guard_add(HttpGuard *guard, const char *data, size_t size, StrBuf *out);
/* Appends the answer to a request that was refused. */
int http_guard_append_refusal(const HttpGuard *guard, StrBuf *out);
