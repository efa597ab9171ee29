/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "basic/string-util.h"
#include "cli/command.h"

enum {
        _BROKER_SOCKET_E_SUCCESS,
        BROKER_SOCKET_E_COMPLAINED, /* there is none, and the user was told what to do */
};

/* Connects to the broker: 0, BROKER_SOCKET_E_COMPLAINED or a negative errno. The fd blocks. */
int broker_socket_connect(const CommonOptions *options, int *ret_fd);

/* Appends the message, with its newline, by which a connection names its workspace; nothing if none
 * is wanted. 0, BROKER_SOCKET_E_COMPLAINED or -ENOMEM. */
int broker_socket_append_workspace(const CommonOptions *options, StrBuf *out);
