/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "http/host.h"
#include "http/parser.h"
#include "http/reply.h"
#include "tests/unit/suite.h"

#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST
#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static const HttpLimits limits = {
        .line_max = 64, .head_max = 512, .headers_max = 8, .body_max = 16};

static int append_text(StrBuf *out, HttpText text) {
        return strbuf_append(out, text.data, text.size);
}

/* Feeds text in pieces of n bytes; "METHOD TARGET [body]|" for each request, then "+" if one has
 * begun and is not whole, or the status of the fault. */
static void run(const char *text, size_t size, size_t n, StrBuf *out) {
        HttpParser *parser;
        size_t done = 0;
        int r = 0;

        ck_assert_int_eq(http_parser_new(&limits, &parser), 0);
        while (done < size && r != HTTP_E_BAD) {
                const HttpRequest *request = http_parser_request(parser);
                size_t used;

                r = http_parser_add(parser, text + done, size_min(n, size - done), &used);
                if (r == HTTP_E_BAD)
                        break;
                ck_assert(r == 0 || r == HTTP_E_MORE);
                done += used;
                if (r == 0) {
                        ck_assert_int_eq(append_text(out, request->method), 0);
                        ck_assert_int_eq(strbuf_append_byte(out, ' '), 0);
                        ck_assert_int_eq(append_text(out, request->target), 0);
                        if (request->body.size > 0) {
                                ck_assert_int_eq(strbuf_append_byte(out, ' '), 0);
                                ck_assert_int_eq(append_text(out, request->body), 0);
                        }
                        ck_assert_int_eq(
                                strbuf_append_string(out, request->keep_alive ? "|" : " close|"),
                                0);
                }
        }
        if (r == HTTP_E_BAD)
                ck_assert_int_eq(strbuf_appendf(out, "%d", http_parser_fault(parser)->status), 0);
        else if (http_parser_is_within(parser))
                ck_assert_int_eq(strbuf_append_byte(out, '+'), 0);
        http_parser_free(parser);
}

typedef struct Case {
        const char *text, *expected;
        size_t size; /* 0: up to the NUL */
} Case;

static const Case cases[] = {
        /* What is taken. */
        {GET "\r\n", "GET /|", 0},
        {"GET /metrics?x=%20y HTTP/1.1\r\n" HOST "\r\n", "GET /metrics?x=%20y|", 0},
        {"HEAD / HTTP/1.1\r\nhOsT:localhost\r\n\r\n", "HEAD /|", 0},
        {"GET / HTTP/1.0\r\n\r\n", "GET / close|", 0},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /|", 0},
        {GET "Connection: close\r\n\r\n", "GET / close|", 0},
        {GET "X: \r\nY:\t a b \t\r\nZ: \xc3\xa4\r\n\r\n", "GET /|", 0},
        {GET "\r\n" GET "\r\n", "GET /|GET /|", 0},
        {"\r\n" GET "\r\n\r\n" GET "\r\n", "GET /|GET /|", 0},
        {POST "Content-Length: 5\r\n\r\nhello" GET "\r\n", "POST / hello|GET /|", 0},
        {POST "Content-Length: 0\r\n\r\n", "POST /|", 0},
        {POST "Content-Length: 005\r\n\r\nhello", "POST / hello|", 0},
        {POST "Content-Length: 16\r\n\r\n0123456789abcdef", "POST / 0123456789abcdef|", 0},
        {GET "Content-Length: 5\r\n\r\nhello", "GET / hello|", 0},
        {CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n" GET "\r\n", "POST / hello!|GET /|", 0},
        {POST "Transfer-Encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
         "POST / 0123456789|", 0},
        /* An offer of another protocol is not taken up, and what follows is the next request. */
        {GET "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" GET "\r\n", "GET /|GET /|", 0},
        {GET "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
         "GET /|", 0},
        /* What is not whole. */
        {"", "", 0},
        {"GE", "+", 0},
        {GET, "+", 0},
        {GET "\r", "+", 0},
        {POST "Content-Length: 5\r\n\r\nhell", "+", 0},
        {CHUNKED, "+", 0},
        {CHUNKED "5\r\nhello\r\n0\r\n", "+", 0},
        /* Two readers would find different ends. */
        {POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5, 5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400",
         0},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "400",
         0},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: identity\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding:\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        {POST "X: y\r\r\nContent-Length: 5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5\n\nhello", "400", 0},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", 0},
        /* Lengths that are none. */
        {POST "Content-Length: +5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: -5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 0x5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5 5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 5.0\r\n\r\nhello", "400", 0},
        {POST "Content-Length: \"5\"\r\n\r\nhello", "400", 0},
        {POST "Content-Length:\r\n\r\n", "400", 0},
        {POST "Content-Length : 5\r\n\r\nhello", "400", 0},
        {POST "Content-Length: 18446744073709551621\r\n\r\nhello", "413", 0},
        {POST "Content-Length: 17\r\n\r\n", "413", 0},
        /* Chunks that are none. */
        {CHUNKED "5\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "5\r\nhello\n0\r\n\r\n", "400", 0},
        {CHUNKED "5\r\nhello0\r\n\r\n", "400", 0},
        {CHUNKED "5\r\nhelloXX0\r\n\r\n", "400", 0},
        {CHUNKED "5\r\nhello\r\n0\n\n", "400", 0},
        {CHUNKED "5\rXhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "-5\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED " 5\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "5 \r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "5;a\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "5;\nxx\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "0\r\nX: y\r\n\r\n", "400", 0},
        {CHUNKED "0\r\nContent-Length: 5\r\n\r\nhello", "400", 0},
        {CHUNKED "FFFFFFFFFFFFFFFF5\r\nhello\r\n0\r\n\r\n", "400", 0},
        {CHUNKED "11\r\n0123456789abcdefX\r\n0\r\n\r\n", "413", 0},
        {CHUNKED "9\r\n012345678\r\n9\r\n012345678\r\n0\r\n\r\n", "413", 0},
        /* Hosts. */
        {"GET / HTTP/1.1\r\n\r\n", "400", 0},
        {GET HOST "\r\n", "400", 0},
        {GET "Host: example.com\r\n\r\n", "400", 0},
        {GET "host : example.com\r\n\r\n", "400", 0},
        /* Request lines. */
        {"GET /\r\n\r\n", "400", 0},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET /  HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET\t/ HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {" GET / HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", "400", 0},
        {"GET /a b HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET /#a HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET http://localhost/ HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET metrics HTTP/1.1\r\n" HOST "\r\n", "400", 0},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "405", 0},
        {"CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", "405", 0},
        {"CONNECT / HTTP/1.1\r\n" HOST "\r\n", "501", 0},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", 0},
        {"get / HTTP/1.1\r\n" HOST "\r\n", "501", 0},
        {"BREW / HTTP/1.1\r\n" HOST "\r\n", "501", 0},
        {"AVERYLONGNAMEOFAMETHOD / HTTP/1.1\r\n" HOST "\r\n", "501", 0},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "505", 0},
        {"GET / HTTP/0.9\r\n" HOST "\r\n", "505", 0},
        {"GET / HTTP/1.2\r\n" HOST "\r\n", "505", 0},
        {"GET / http/1.1\r\n" HOST "\r\n", "400", 0},
        {"GET / HTTP/11\r\n" HOST "\r\n", "400", 0},
        {"GET / RTSP/1.0\r\n" HOST "\r\n", "400", 0},
        {"GET / HTTP/1.1\n" HOST "\r\n", "400", 0},
        {"\r\n\r\n" GET "\r\n", "400", 0},
        {"\n" GET "\r\n", "400", 0},
        {"{\"jsonrpc\":\"2.0\"}\n", "400", 0},
        {"\x16\x03\x01\x02", "400", 0},
        /* Fields. */
        {GET ": x\r\n\r\n", "400", 0},
        {GET "X\r\n\r\n", "400", 0},
        {GET "X y: z\r\n\r\n", "400", 0},
        {GET "X(: z\r\n\r\n", "400", 0},
        {GET "X: a\x01\r\n\r\n", "400", 0},
        {GET "X: a\x7f\r\n\r\n", "400", 0},
        {GET "X: a\0b\r\n\r\n", "400", sizeof(GET "X: a\0b\r\n\r\n") - 1},
        {GET "\0", "400", sizeof(GET "\0") - 1},
        /* Limits: 64 bytes of the request line, 512 of all, 8 fields. */
        {"GET /012345678901234567890123456789012345678901234567 HTTP/1.1\r\n" HOST "\r\n",
         "GET /012345678901234567890123456789012345678901234567|", 0},
        {"GET /0123456789012345678901234567890123456789012345679 HTTP/1.1\r\n" HOST "\r\n", "414",
         0},
        {GET "1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n\r\n", "GET /|", 0},
        {GET "1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n\r\n", "431", 0},
};

START_TEST(test_cases) {
        const Case *c = &cases[_i];
        size_t size = c->size > 0 ? c->size : strlen(c->text);

        for (size_t n = 1; n <= size_max(size, 1); n++) {
                _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

                run(c->text, size, n, &out);
                ck_assert_msg(string_equal(out.data ?: "", c->expected),
                              "%s\nin pieces of %zu: %s instead of %s", c->text, n, out.data ?: "",
                              c->expected);
        }
}
END_TEST

/* What never ends is refused when it is too long, not kept. */
START_TEST(test_endless) {
        static const char *const beginnings[] = {"GET /", GET "X: ", CHUNKED "0"};
        static const char *const expected[] = {"414", "431", "413"};
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL, out = STRBUF_NULL;

        ck_assert_int_eq(strbuf_append_string(&text, beginnings[_i]), 0);
        for (size_t i = 0; i < 4096; i++)
                ck_assert_int_eq(strbuf_append_byte(&text, '0'), 0);
        run(text.data, text.size, 7, &out);
        ck_assert_str_eq(out.data, expected[_i]);
}
END_TEST

START_TEST(test_headers) {
        static const char text[] = GET "Accept:  a, b \r\nX:\r\naccept: c\r\n\r\n";
        HttpParser *parser;
        const HttpRequest *request;
        size_t used;

        ck_assert_int_eq(http_parser_new(&limits, &parser), 0);
        ck_assert_int_eq(http_parser_add(parser, text, sizeof(text) - 1, &used), 0);
        ck_assert_uint_eq(used, sizeof(text) - 1);
        request = http_parser_request(parser);
        ck_assert_uint_eq(request->n_headers, 4);
        ck_assert(http_text_equal(*http_request_header(request, "ACCEPT"), "a, b"));
        ck_assert(http_text_equal(*http_request_header(request, "x"), ""));
        ck_assert_ptr_null(http_request_header(request, "y"));
        http_parser_free(parser);
}
END_TEST

/* A server that takes no content says so before it comes. */
START_TEST(test_no_content) {
        static const char *const texts[] = {POST "Content-Length: 1\r\n\r\n", CHUNKED};
        const HttpLimits none = HTTP_LIMITS_DEFAULT;
        HttpParser *parser;
        size_t used;

        ck_assert_int_eq(http_parser_new(&none, &parser), 0);
        ck_assert_int_eq(http_parser_add(parser, texts[_i], strlen(texts[_i]), &used), HTTP_E_BAD);
        ck_assert_int_eq(http_parser_fault(parser)->status, 413);
        http_parser_free(parser);
}
END_TEST

static const struct {
        const char *host;
        bool loopback;
} hosts[] = {
        {"localhost", true},
        {"LocalHost:80", true},
        {"127.0.0.1", true},
        {"127.255.0.9:65535", true},
        {"[::1]", true},
        {"[::1]:9090", true},
        {"[0:0:0:0:0:0:0:1]", true},
        {"127.0.0.1:", true},
        {"", false},
        {"localhost.", false},
        {"localhost.example.com", false},
        {"example.com", false},
        {"127.0.0.1.example.com", false},
        {"127.1", false},
        {"0177.0.0.1", false},
        {"2130706433", false},
        {"0.0.0.0", false},
        {"128.0.0.1", false},
        {"[::2]", false},
        {"[::]", false},
        {"[::ffff:8.8.8.8]", false},
        {"[::1", false},
        {"[::1]x", false},
        {"[::1]:x", false},
        {"::1", false},
        {"localhost:x", false},
        {"localhost:80:80", false},
        {"localhost:123456", false},
        {"localhost@example.com", false},
        {"a@localhost", false},
        {"localhost ", false},
        {"0123456789012345678901234567890123456789012345678901234567890123456789", false},
};

START_TEST(test_hosts) {
        ck_assert_msg(http_host_is_loopback(hosts[_i].host, strlen(hosts[_i].host)) ==
                              hosts[_i].loopback,
                      "%s", hosts[_i].host);
}
END_TEST

START_TEST(test_reply) {
        HttpReply reply = {.status = 405, .body = "no\n", .body_size = 3, .allow = "GET, HEAD"};
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL, head = STRBUF_NULL;
        static const char expected[] = "HTTP/1.1 405 Method Not Allowed\r\n"
                                       "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                                       "Content-Type: text/plain; charset=utf-8\r\n"
                                       "Content-Length: 3\r\n"
                                       "Cache-Control: no-store\r\n"
                                       "X-Content-Type-Options: nosniff\r\n"
                                       "Connection: close\r\n"
                                       "Allow: GET, HEAD\r\n"
                                       "\r\n"
                                       "no\n";

        ck_assert_int_eq(http_append_reply(&out, &reply, 0), 0);
        ck_assert_str_eq(out.data, expected);
        reply.head = true;
        ck_assert_int_eq(http_append_reply(&head, &reply, 0), 0);
        ck_assert_uint_eq(head.size, out.size - 3);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("http");

        tcase_add_loop_test(tcase, test_cases, 0, ELEMENTSOF(cases));
        tcase_add_loop_test(tcase, test_endless, 0, 3);
        tcase_add_test(tcase, test_headers);
        tcase_add_loop_test(tcase, test_no_content, 0, 2);
        tcase_add_loop_test(tcase, test_hosts, 0, ELEMENTSOF(hosts));
        tcase_add_test(tcase, test_reply);
        return suite_run("http", tcase);
}
