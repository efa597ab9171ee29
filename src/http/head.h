/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate in front of the parser: what a request's head may look like at all. It knows nothing but
 * lines, and lets through only what can be read in one way. All the shapes by which two readers of
 * one stream come to different requests end here: line ends other than CR LF, folded lines, space
 * around names, a second Host, Content-Length or Transfer-Encoding, both of the latter at once, and
 * lengths and codings that are anything but digits or "chunked".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"

typedef struct HttpLimits {
        size_t line_max;    /* bytes of the request line with its end */
        size_t head_max;    /* bytes of request line and fields */
        size_t headers_max; /* fields, at most HTTP_HEADERS_MAX */
        size_t body_max;    /* bytes of the content; 0: there may be none */
} HttpLimits;

#define HTTP_HEADERS_MAX 64U
#define HTTP_LIMITS_DEFAULT                                                                        \
        ((HttpLimits){.line_max = 8192, .head_max = 16384, .headers_max = HTTP_HEADERS_MAX})

/* What the peer is told of a request that is not taken. Behind it nothing on the connection can be
 * trusted. */
typedef struct HttpFault {
        int status;       /* 4xx or 5xx; 0: none */
        const char *text; /* static; one sentence */
} HttpFault;

typedef struct HttpHead {
        StrBuf bytes;       /* as they came */
        size_t line;        /* where the line under construction begins */
        size_t n_lines;     /* request line and fields so far */
        bool skipped_empty; /* one empty line before the request was left out */
        bool http10, has_host, has_length, chunked;
        uint64_t length;
} HttpHead;

enum {
        _HTTP_HEAD_E_SUCCESS,
        HTTP_HEAD_E_MORE, /* it is not whole; all bytes were taken */
        HTTP_HEAD_E_BAD,  /* ret_fault tells */
};

void http_head_done(HttpHead *head);
/* Takes bytes up to the end of the head. 0: it is whole; HTTP_HEAD_E_X; or -ENOMEM. */
int http_head_add(HttpHead *head, const HttpLimits *limits, const char *data, size_t size,
                  size_t *ret_used, HttpFault *ret_fault);
