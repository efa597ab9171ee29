/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the service manager listens that can give this process a scope. Looks at paths only: no
 * bus, no libsystemd. A host without systemd costs one access(2).
 */

#include <stdbool.h>

#include "basic/macros.h"

#define MANAGER_SOCKET_PATH_MAX 108U /* sun_path */

typedef struct ManagerSocket {
        char path[MANAGER_SOCKET_PATH_MAX]; /* absolute */
        bool is_bus; /* of a message bus; else the manager's own, which needs no bus daemon */
} ManagerSocket;

enum {
        _MANAGER_SOCKET_E_SUCCESS,
        MANAGER_SOCKET_E_NO_SYSTEMD, /* no systemd runs here: nobody to ask, and nothing to say */
        MANAGER_SOCKET_E_NONE,       /* systemd runs, but no manager serves us; ret_reason tells */
};

/*
 * For root the system manager, else the user's: its private socket, else the bus, below
 * $XDG_RUNTIME_DIR or /run/user/UID. ret_reason: one clause with the remedy, owned by the caller.
 */
int manager_socket_find(ManagerSocket *ret_socket, char **ret_reason);
