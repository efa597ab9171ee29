/* SPDX-License-Identifier: Apache-2.0 */

/* What passes is the same however it comes in pieces, passes a second time unchanged, and names no
 * other host to a parser that was written by somebody else. The first byte says into what pieces.
 */

#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <strings.h>

#include "egress/http-guard.h"
#include "http/parser.h"

#define NAME "a.example"
#define PORT 80

static int run(const char *data, size_t size, size_t piece, StrBuf *out) {
        HttpGuard guard = {.name = NAME, .port = PORT};
        int r = 0;

        for (size_t done = 0; done < size && r == 0; done += piece)
                r = http_guard_add(&guard, data + done, size_min(piece, size - done), out);
        FUZZ_ASSERT(r >= 0);
        FUZZ_ASSERT(r == 0 || (guard.fault.status >= 400 && guard.fault.text));
        http_guard_done(&guard);
        return r;
}

static void check_hosts(const StrBuf *out) {
        const HttpLimits limits = {.line_max = 1U << 20,
                                   .head_max = 1U << 20,
                                   .headers_max = HTTP_HEADERS_MAX,
                                   .body_max = SIZE_MAX / 16};
        HttpParser *parser;
        size_t done = 0, used;
        int r = 0;

        FUZZ_ASSERT(http_parser_new(&limits, &parser) == 0);
        while (r == 0 && done < out->size) {
                r = http_parser_add(parser, out->data + done, out->size - done, &used);
                if (r == 0) {
                        const HttpText *host =
                                http_request_header(http_parser_request(parser), "host");

                        FUZZ_ASSERT(host && host->size >= strlen(NAME));
                        FUZZ_ASSERT(strncasecmp(host->data, NAME, strlen(NAME)) == 0);
                        done += used;
                }
        }
        http_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(strbuf_done) StrBuf whole = STRBUF_NULL, pieces = STRBUF_NULL,
                                      again = STRBUF_NULL;
        int r;

        if (size == 0)
                return 0;
        r = run((const char *) data + 1, size - 1, size, &whole);
        FUZZ_ASSERT(run((const char *) data + 1, size - 1, (size_t) data[0] + 1, &pieces) == r);
        if (r == 0) {
                FUZZ_ASSERT(whole.size == pieces.size);
                FUZZ_ASSERT(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
        }
        FUZZ_ASSERT(whole.size == 0 || run(whole.data, whole.size, whole.size, &again) == 0);
        FUZZ_ASSERT(again.size == whole.size);
        FUZZ_ASSERT(whole.size == 0 || memcmp(whole.data, again.data, whole.size) == 0);
        check_hosts(&whole);
        return 0;
}
