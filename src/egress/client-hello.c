/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/client-hello.h"

#include <string.h>

#include "basic/error.h"

#define RECORD_HANDSHAKE 22
#define RECORD_MAX 16384U
#define HANDSHAKE_CLIENT_HELLO 1
#define HANDSHAKE_HEADER 4U
#define EXTENSION_SERVER_NAME 0
#define NAME_TYPE_HOST 0

typedef struct Slice {
        const uint8_t *data;
        size_t size;
} Slice;

void client_hello_done(ClientHello *hello) {
        strbuf_done(&hello->handshake);
}

static bool take(Slice *slice, size_t n, Slice *ret_taken) {
        if (slice->size < n)
                return false;
        *ret_taken = (Slice){slice->data, n};
        slice->data += n;
        slice->size -= n;
        return true;
}

static bool take_number(Slice *slice, size_t n_bytes, size_t *ret_number) {
        Slice bytes;

        if (!take(slice, n_bytes, &bytes))
                return false;
        *ret_number = 0;
        for (size_t i = 0; i < n_bytes; i++)
                *ret_number = *ret_number << 8 | bytes.data[i];
        return true;
}

/* A vector: its length in so many bytes, then itself. */
static bool take_vector(Slice *slice, size_t n_bytes, Slice *ret_vector) {
        size_t size;

        return take_number(slice, n_bytes, &size) && take(slice, size, ret_vector);
}

/* One name of a host and nothing else: all that the specification leaves. */
static bool read_server_name(ClientHello *hello, Slice extension) {
        Slice list, name;
        size_t type;

        if (!take_vector(&extension, 2, &list) || extension.size > 0 ||
            !take_number(&list, 1, &type) || type != NAME_TYPE_HOST ||
            !take_vector(&list, 2, &name) || list.size > 0)
                return false;
        if (name.size == 0 || name.size > SERVER_NAME_MAX)
                return false;
        for (size_t i = 0; i < name.size; i++) {
                if (name.data[i] <= ' ' || name.data[i] >= 0x7f)
                        return false;
                hello->name[i] = (char) name.data[i];
        }
        hello->name[name.size] = 0;
        return true;
}

static bool read_extensions(ClientHello *hello, Slice extensions) {
        bool seen = false;

        while (extensions.size > 0) {
                Slice extension;
                size_t type;

                if (!take_number(&extensions, 2, &type) || !take_vector(&extensions, 2, &extension))
                        return false;
                if (type != EXTENSION_SERVER_NAME)
                        continue;
                if (seen || !read_server_name(hello, extension))
                        return false;
                seen = true;
        }
        return true;
}

static bool read_hello(ClientHello *hello, Slice body) {
        Slice skipped, extensions;

        if (!take(&body, 2 + 32, &skipped) ||   /* version, random */
            !take_vector(&body, 1, &skipped) || /* session */
            !take_vector(&body, 2, &skipped) || /* cipher suites */
            !take_vector(&body, 1, &skipped))   /* compression methods */
                return false;
        if (body.size == 0)
                return true;
        return take_vector(&body, 2, &extensions) && body.size == 0 &&
               read_extensions(hello, extensions);
}

/* The handshake so far: its own header says how long it will be. */
static int read_handshake(ClientHello *hello) {
        Slice slice = {(const uint8_t *) hello->handshake.data, hello->handshake.size};
        size_t type, size;

        if (slice.size > 0 && slice.data[0] != HANDSHAKE_CLIENT_HELLO)
                return CLIENT_HELLO_E_BAD;
        if (!take_number(&slice, 1, &type) || !take_number(&slice, 3, &size))
                return CLIENT_HELLO_E_MORE;
        if (size > CLIENT_HELLO_MAX - HANDSHAKE_HEADER)
                return CLIENT_HELLO_E_BAD;
        if (slice.size < size)
                return CLIENT_HELLO_E_MORE;
        slice.size = size;
        return read_hello(hello, slice) ? 0 : CLIENT_HELLO_E_BAD;
}

/* An empty record would let a client go on for ever, and TLS forbids it. */
static int read_record_header(ClientHello *hello, uint8_t byte) {
        static const uint8_t begin[] = {RECORD_HANDSHAKE, 3};

        hello->header[hello->n_header++] = byte;
        if (hello->n_header <= sizeof(begin) && byte != begin[hello->n_header - 1])
                return CLIENT_HELLO_E_BAD;
        if (hello->n_header < sizeof(hello->header))
                return 0;
        hello->record_left = (size_t) hello->header[3] << 8 | hello->header[4];
        hello->n_header = 0;
        return hello->record_left == 0 || hello->record_left > RECORD_MAX ? CLIENT_HELLO_E_BAD : 0;
}

int client_hello_add(ClientHello *hello, const uint8_t *data, size_t size) {
        int r;

        while (size > 0) {
                size_t n;

                if (hello->record_left == 0) {
                        r = read_record_header(hello, *data);
                        if (r != 0)
                                return r;
                        data++;
                        size--;
                        continue;
                }
                n = size_min(size, hello->record_left);
                r = strbuf_append(&hello->handshake, data, n);
                if (r < 0)
                        return error_trace(r);
                data += n;
                size -= n;
                hello->record_left -= n;
                r = read_handshake(hello);
                if (r != CLIENT_HELLO_E_MORE)
                        return r;
        }
        return CLIENT_HELLO_E_MORE;
}
