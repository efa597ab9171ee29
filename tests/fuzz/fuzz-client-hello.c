/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes come to the same end however they are split, and within bounds. The first byte says
 * into what pieces. */

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egress/client-hello.h"

static int run(const uint8_t *data, size_t size, size_t piece, ClientHello *hello) {
        int r = CLIENT_HELLO_E_MORE;

        for (size_t done = 0; done < size && r == CLIENT_HELLO_E_MORE; done += piece)
                r = client_hello_add(hello, data + done, size_min(piece, size - done));
        FUZZ_ASSERT(r >= 0);
        FUZZ_ASSERT(hello->handshake.size <= CLIENT_HELLO_MAX + 16384);
        if (r == 0)
                for (const char *c = hello->name; *c; c++)
                        FUZZ_ASSERT(*c > ' ' && *c < 0x7f);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ClientHello whole = {}, pieces = {};
        int r;

        if (size == 0)
                return 0;
        r = run(data + 1, size - 1, size, &whole);
        FUZZ_ASSERT(run(data + 1, size - 1, (size_t) data[0] + 1, &pieces) == r);
        FUZZ_ASSERT(r != 0 || strcmp(whole.name, pieces.name) == 0);
        client_hello_done(&whole);
        client_hello_done(&pieces);
        return 0;
}
