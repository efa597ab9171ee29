/* SPDX-License-Identifier: Apache-2.0 */

/* A stream of any bytes is the same requests, and ends in the same fault, however it is split; and
 * what is taken keeps the limits. The first byte says into what pieces. */

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "http/host.h"
#include "http/parser.h"
#include "http/reply.h"

#define BODY_MAX 4096U
#define REQUESTS_MAX 64U

static void append_text(StrBuf *out, HttpText text) {
        FUZZ_ASSERT(text.size == 0 || text.data);
        FUZZ_ASSERT(strbuf_append(out, text.data ?: "", text.size) == 0);
        FUZZ_ASSERT(strbuf_append_byte(out, '\0') == 0);
}

static void check_request(const HttpRequest *request, const HttpLimits *limits, StrBuf *out) {
        const HttpText *host = http_request_header(request, "host");

        FUZZ_ASSERT(request->n_headers <= limits->headers_max);
        FUZZ_ASSERT(request->body.size <= limits->body_max);
        FUZZ_ASSERT(request->method.size > 0);
        FUZZ_ASSERT(request->target.size > 0 && request->target.data[0] == '/');
        FUZZ_ASSERT(request->http10 || host);
        append_text(out, request->method);
        append_text(out, request->target);
        for (size_t i = 0; i < request->n_headers; i++) {
                append_text(out, request->headers[i].name);
                append_text(out, request->headers[i].value);
        }
        append_text(out, request->body);
        FUZZ_ASSERT(strbuf_append_byte(out, request->keep_alive ? 'k' : 'c') == 0);
        if (host)
                (void) http_host_is_loopback(host->data, host->size);
}

/* Appends what comes out. */
static void run(const char *data, size_t size, size_t piece, StrBuf *out) {
        HttpLimits limits = HTTP_LIMITS_DEFAULT;
        HttpParser *parser;
        size_t done = 0, n_requests = 0;
        int r = 0;

        limits.body_max = BODY_MAX;
        FUZZ_ASSERT(http_parser_new(&limits, &parser) == 0);
        while (done < size && n_requests < REQUESTS_MAX && r != HTTP_E_BAD) {
                size_t used = 0, n = size_min(piece, size - done);

                r = http_parser_add(parser, data + done, n, &used);
                FUZZ_ASSERT(r == 0 || r == HTTP_E_MORE || r == HTTP_E_BAD);
                FUZZ_ASSERT(r == HTTP_E_BAD || (used <= n && (r == 0 || used == n)));
                FUZZ_ASSERT(r != HTTP_E_MORE || http_parser_is_within(parser));
                done += used;
                if (r == 0) {
                        check_request(http_parser_request(parser), &limits, out);
                        n_requests++;
                }
        }
        if (r == HTTP_E_BAD) {
                int status = http_parser_fault(parser)->status;

                FUZZ_ASSERT(status >= 400 && status < 600 && http_parser_fault(parser)->text);
                /* Where there are several faults, the pieces decide which one is met first. */
                FUZZ_ASSERT(strbuf_append_string(out, "fault") == 0);
        }
        http_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf whole = STRBUF_NULL, pieces = STRBUF_NULL;

        if (size == 0)
                return 0;
        run((const char *) data + 1, size - 1, size, &whole);
        run((const char *) data + 1, size - 1, (size_t) data[0] + 1, &pieces);
        FUZZ_ASSERT(whole.size == pieces.size);
        FUZZ_ASSERT(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
        return 0;
}
