/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/manager-socket.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "cgroup/cgroup.h"

/* The folder is the user's own or it says nothing about the user's manager. */
static bool is_own_folder(const char *path) {
        struct stat st;

        return stat(path, &st) >= 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* In order of preference. False: nothing listens there. */
static bool find_below(const char *folder, const char *bus, ManagerSocket *socket) {
        const struct {
                const char *name;
                bool is_bus;
        } candidates[] = {{"systemd/private", false}, {bus, true}};

        for (size_t i = 0; i < ELEMENTSOF(candidates); i++) {
                int n = snprintf(socket->path, sizeof(socket->path), "%s/%s", folder,
                                 candidates[i].name);

                if (n < 0 || (size_t) n >= sizeof(socket->path) || access(socket->path, W_OK) < 0)
                        continue;
                socket->is_bus = candidates[i].is_bus;
                return true;
        }
        return false;
}

static int find_user(ManagerSocket *socket, char **ret_reason) {
        const char *given = secure_getenv("XDG_RUNTIME_DIR");
        char usual[64];

        if (given && *given == '/' && is_own_folder(given) && find_below(given, "bus", socket))
                return 0;
        (void) snprintf(usual, sizeof(usual), "/run/user/%u", geteuid());
        if (is_own_folder(usual) && find_below(usual, "bus", socket))
                return 0;
        return outcome_text(MANAGER_SOCKET_E_NONE, ret_reason,
                            "no service manager of this user listens in %s; try loginctl "
                            "enable-linger",
                            given && *given == '/' ? given : usual);
}

int manager_socket_find(ManagerSocket *ret_socket, char **ret_reason) {
        ManagerSocket socket;
        int r;

        if (!cgroup_host_has_systemd())
                return MANAGER_SOCKET_E_NO_SYSTEMD;
        if (geteuid() != 0) {
                r = find_user(&socket, ret_reason);
                if (r != 0)
                        return r;
        } else if (!find_below("/run", "dbus/system_bus_socket", &socket))
                return outcome_text(MANAGER_SOCKET_E_NONE, ret_reason,
                                    "neither the service manager's socket nor the system bus can "
                                    "be reached in /run");
        *ret_socket = socket;
        return 0;
}
