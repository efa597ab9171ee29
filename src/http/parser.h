/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/1.1, the server's side: bytes, however they were split, into one request after the other.
 * Pure: it knows no socket. The head has to pass the gate of head.h before llhttp sees it, which
 * then reads it and the content. Memory is bounded by the limits.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/string-util.h"
#include "http/head.h"

typedef struct HttpText {
        const char *data; /* not terminated */
        size_t size;
} HttpText;

typedef struct HttpHeader {
        HttpText name, value;
} HttpHeader;

/* Points into the parser, and holds until the next one begins. */
typedef struct HttpRequest {
        HttpText method, target;
        HttpHeader headers[HTTP_HEADERS_MAX];
        size_t n_headers;
        HttpText body;
        bool http10;
        bool keep_alive; /* the peer wants to go on */
} HttpRequest;

typedef struct HttpParser HttpParser;

enum {
        _HTTP_E_SUCCESS,
        HTTP_E_MORE, /* the request is not whole; all bytes were taken */
        HTTP_E_BAD,  /* http_parser_fault() tells; nothing more can be read */
};

/* 0 or -ENOMEM. */
int http_parser_new(const HttpLimits *limits, HttpParser **ret_parser);
HttpParser *http_parser_free(HttpParser *parser);
DEFINE_CLEANUP(HttpParser, http_parser_free);

/*
 * Takes bytes up to the end of the request. 0: it is whole, and the next call begins another;
 * HTTP_E_X; or -ENOMEM. Not to be called again after a failure.
 */
int http_parser_add(HttpParser *parser, const char *data, size_t size, size_t *ret_used);
/* Whether a request has begun and is not whole. */
bool http_parser_is_within(const HttpParser *parser);
/* Its head, if that is whole and its content is not; else NULL. */
const HttpRequest *http_parser_head(const HttpParser *parser);
/* The one that has become whole. */
const HttpRequest *http_parser_request(const HttpParser *parser);
const HttpFault *http_parser_fault(const HttpParser *parser);

/* The value of a field, by its name in any case; the first if there are several. NULL: none. */
const HttpText *http_request_header(const HttpRequest *request, const char *name);
bool http_text_equal(HttpText text, const char *s);
