/* SPDX-License-Identifier: Apache-2.0 */

#include "http/parser.h"

#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"

/* Chunks of one byte take six. */
#define WIRE_FACTOR 8U

struct HttpParser {
        HttpLimits limits;
        HttpHead head;
        HttpFault fault;
        HttpRequest request;
        StrBuf body;
        llhttp_t llhttp;
        llhttp_settings_t settings;
        bool started;    /* the request under construction has bytes */
        bool in_content; /* its head is whole */
        bool whole;
        bool no_memory;
        size_t wire; /* bytes of the content as they came */
};

/* --- what llhttp finds --- */

static int set_fault(HttpParser *parser, int status, const char *text) {
        if (parser->fault.status == 0)
                parser->fault = (HttpFault){.status = status, .text = text};
        return -1;
}

/* What comes in several parts lies in one piece all the same: the head is handed over at once. */
static void text_extend(HttpText *text, const char *at, size_t size) {
        if (!text->data)
                text->data = at;
        text->size = (size_t) (at + size - text->data);
}

static int on_method(llhttp_t *llhttp, const char *at, size_t size) {
        HttpParser *parser = llhttp->data;

        text_extend(&parser->request.method, at, size);
        return 0;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t size) {
        HttpParser *parser = llhttp->data;

        text_extend(&parser->request.target, at, size);
        return 0;
}

static int on_field(llhttp_t *llhttp, const char *at, size_t size) {
        HttpParser *parser = llhttp->data;
        HttpRequest *request = &parser->request;

        if (parser->in_content)
                return set_fault(parser, 400, "fields behind the content are not taken here");
        if (request->n_headers >= HTTP_HEADERS_MAX)
                return set_fault(parser, 431, "there are more fields than are taken here");
        text_extend(&request->headers[request->n_headers].name, at, size);
        return 0;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t size) {
        HttpParser *parser = llhttp->data;
        HttpRequest *request = &parser->request;

        text_extend(&request->headers[request->n_headers].value, at, size);
        return 0;
}

static int on_value_complete(llhttp_t *llhttp) {
        HttpParser *parser = llhttp->data;
        HttpText *value = &parser->request.headers[parser->request.n_headers++].value;

        while (value->size > 0 &&
               (value->data[value->size - 1] == ' ' || value->data[value->size - 1] == '\t'))
                value->size--;
        return 0;
}

/* No other protocol is spoken on, whatever the peer offers. */
static int on_headers_complete(llhttp_t *llhttp) {
        llhttp->upgrade = 0;
        if (llhttp->method == HTTP_CONNECT)
                return set_fault(llhttp->data, 501, "there are no tunnels here");
        return 0;
}

/* They mean nothing, and readers differ in where they end. */
static int on_extension(llhttp_t *llhttp, const char *at _unused_, size_t size _unused_) {
        return set_fault(llhttp->data, 400, "extensions of chunks are not taken here");
}

static int on_body(llhttp_t *llhttp, const char *at, size_t size) {
        HttpParser *parser = llhttp->data;

        if (parser->body.size + size > parser->limits.body_max)
                return set_fault(parser, 413, "the content is longer than is taken here");
        if (strbuf_append(&parser->body, at, size) < 0) {
                parser->no_memory = true;
                return -1;
        }
        return 0;
}

static int on_message_complete(llhttp_t *llhttp) {
        HttpParser *parser = llhttp->data;

        parser->whole = true;
        parser->request.keep_alive = llhttp_should_keep_alive(llhttp);
        return HPE_PAUSED;
}

/* --- the parser --- */

HttpParser *http_parser_free(HttpParser *parser) {
        if (!parser)
                return NULL;

        http_head_done(&parser->head);
        strbuf_done(&parser->body);
        free(parser);
        return NULL;
}

int http_parser_new(const HttpLimits *limits, HttpParser **ret_parser) {
        HttpParser *parser;

        parser = calloc(1, sizeof(HttpParser));
        if (!parser)
                return error_origin(-ENOMEM);

        parser->limits = *limits;
        parser->limits.headers_max = size_min(limits->headers_max, HTTP_HEADERS_MAX);
        llhttp_settings_init(&parser->settings);
        parser->settings.on_method = on_method;
        parser->settings.on_url = on_url;
        parser->settings.on_header_field = on_field;
        parser->settings.on_header_value = on_value;
        parser->settings.on_header_value_complete = on_value_complete;
        parser->settings.on_headers_complete = on_headers_complete;
        parser->settings.on_chunk_extension_name = on_extension;
        parser->settings.on_body = on_body;
        parser->settings.on_message_complete = on_message_complete;
        *ret_parser = parser;
        return 0;
}

static void parser_begin(HttpParser *parser) {
        http_head_done(&parser->head);
        strbuf_done(&parser->body);
        parser->request = (HttpRequest){};
        parser->in_content = parser->whole = false;
        parser->wire = 0;
        parser->started = true;
        llhttp_init(&parser->llhttp, HTTP_REQUEST, &parser->settings);
        parser->llhttp.data = parser;
}

/* What the gate has let through may still be no request to llhttp: a method that it does not know,
 * a path with characters that are none. */
static int parser_execute(HttpParser *parser, const char *data, size_t size, size_t *ret_used) {
        llhttp_errno_t error = llhttp_execute(&parser->llhttp, data, size);

        if (parser->no_memory)
                return error_origin(-ENOMEM);
        if (error == HPE_PAUSED && parser->whole) {
                *ret_used = (size_t) (llhttp_get_error_pos(&parser->llhttp) - data);
                return 0;
        }
        if (error == HPE_OK) {
                *ret_used = size;
                return HTTP_E_MORE;
        }
        if (error == HPE_INVALID_METHOD)
                (void) set_fault(parser, 501, "there is no method of that name");
        (void) set_fault(parser, 400,
                         parser->in_content ? "the content is not chunked as it should be"
                                            : "the head of the request is malformed");
        return HTTP_E_BAD;
}

static int parser_read_head(HttpParser *parser) {
        size_t used;
        int r;

        r = parser_execute(parser, parser->head.bytes.data, parser->head.bytes.size, &used);
        if (r == HTTP_E_BAD || r < 0)
                return r;
        /* Both readers must agree on where the head ends and what it says of the content. */
        if (used != parser->head.bytes.size ||
            (r == 0) != (!parser->head.chunked && parser->head.length == 0)) {
                (void) set_fault(parser, 400, "the head of the request is malformed");
                return HTTP_E_BAD;
        }
        parser->request.http10 = parser->head.http10;
        parser->in_content = true;
        return r;
}

static int parser_read_content(HttpParser *parser, const char *data, size_t size,
                               size_t *ret_used) {
        int r;

        r = parser_execute(parser, data, size, ret_used);
        if (r == HTTP_E_BAD || r < 0)
                return r;
        parser->wire += *ret_used;
        if (parser->wire / WIRE_FACTOR > parser->limits.body_max) {
                (void) set_fault(parser, 413, "the content is longer than is taken here");
                return HTTP_E_BAD;
        }
        return r;
}

static int parser_finish(HttpParser *parser, int r) {
        if (r == 0) {
                parser->started = false;
                parser->request.body = (HttpText){parser->body.data, parser->body.size};
        }
        return r;
}

int http_parser_add(HttpParser *parser, const char *data, size_t size, size_t *ret_used) {
        size_t head = 0, content = 0;
        int r;

        if (!parser->started)
                parser_begin(parser);
        if (!parser->in_content) {
                r = http_head_add(&parser->head, &parser->limits, data, size, &head,
                                  &parser->fault);
                if (r < 0)
                        return error_trace(r);
                *ret_used = head;
                if (r == HTTP_HEAD_E_MORE)
                        return HTTP_E_MORE;
                if (r == HTTP_HEAD_E_BAD)
                        return HTTP_E_BAD;
                r = parser_read_head(parser);
                if (r != HTTP_E_MORE || head == size)
                        return parser_finish(parser, r);
        }
        r = parser_read_content(parser, data + head, size - head, &content);
        *ret_used = head + content;
        return parser_finish(parser, r);
}

bool http_parser_is_within(const HttpParser *parser) {
        return parser->started;
}

const HttpRequest *http_parser_head(const HttpParser *parser) {
        return parser->started && parser->in_content ? &parser->request : NULL;
}

const HttpRequest *http_parser_request(const HttpParser *parser) {
        return &parser->request;
}

const HttpFault *http_parser_fault(const HttpParser *parser) {
        return &parser->fault;
}

/* --- requests --- */

bool http_text_equal(HttpText text, const char *s) {
        return text.size == strlen(s) && memcmp(text.data, s, text.size) == 0;
}

const HttpText *http_request_header(const HttpRequest *request, const char *name) {
        size_t size = strlen(name);

        for (size_t i = 0; i < request->n_headers; i++)
                if (request->headers[i].name.size == size &&
                    strncasecmp(request->headers[i].name.data, name, size) == 0)
                        return &request->headers[i].value;
        return NULL;
}
