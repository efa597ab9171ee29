/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The first message of TLS, read as it comes, for one thing only: the name of the server that the
 * client asks for in the clear. What a client hides (ECH) has an outer name as well, and that is
 * the one that is read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"

#define CLIENT_HELLO_MAX (32U * 1024U)
#define SERVER_NAME_MAX 255U

typedef struct ClientHello {
        uint8_t header[5]; /* of the record under construction */
        size_t n_header;
        size_t record_left;
        StrBuf handshake;
        char name[SERVER_NAME_MAX + 1]; /* "" if there is none */
} ClientHello;

enum {
        _CLIENT_HELLO_E_SUCCESS,
        CLIENT_HELLO_E_MORE,
        CLIENT_HELLO_E_BAD, /* this is not TLS, or not as TLS has it */
};

void client_hello_done(ClientHello *hello);
/* 0: name holds; CLIENT_HELLO_E_X; or -ENOMEM. Not to be called again after anything but MORE. What
 * follows the message in data is not looked at. */
int client_hello_add(ClientHello *hello, const uint8_t *data, size_t size);
