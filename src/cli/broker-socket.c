/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/broker-socket.h"

#include <jansson.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "basic/error.h"
#include "mcp/protocol.h"

#define SYSTEM_SOCKET "/run/agentcrate/agentcrate.sock"
#define USER_SOCKET "agentcrate/agentcrate.sock"

static int socket_path(const CommonOptions *options, char **ret_path) {
        const char *set = options->socket ?: secure_getenv("AGENTCRATE_SOCKET");
        const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
        int n;

        if (!string_empty(set))
                n = asprintf(ret_path, "%s", set);
        else if (geteuid() == 0)
                n = asprintf(ret_path, SYSTEM_SOCKET);
        else if (string_empty(runtime)) {
                complain("XDG_RUNTIME_DIR is not set, so there is no place for the broker's "
                         "socket; log in by way of systemd-logind, or set AGENTCRATE_SOCKET");
                return BROKER_SOCKET_E_COMPLAINED;
        } else
                n = asprintf(ret_path, "%s/" USER_SOCKET, runtime);
        return n < 0 ? error_origin(-ENOMEM) : 0;
}

static int connect_failure(const char *path, int error) {
        const char *name = strerrorname_np(error) ?: "?";
        struct stat st;

        /* The kernel says ECONNREFUSED of these, too. */
        if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
                complain("%s is no socket; give the path of the broker's socket by --socket or "
                         "AGENTCRATE_SOCKET",
                         path);
                return BROKER_SOCKET_E_COMPLAINED;
        }
        switch (error) {
        case ENOENT:
        case ENOTDIR:
        case ECONNREFUSED:
                complain("no broker listens at %s (%s); start it: systemctl%s start "
                         "agentcrated.socket, or " LIBEXECDIR "/agentcrated --listen %s",
                         path, name, geteuid() == 0 ? "" : " --user", path);
                break;
        case EACCES:
        case EPERM:
                complain("the socket %s may not be used (%s): only the broker's own user and root "
                         "may connect; run a broker of your own",
                         path, name);
                break;
        default:
                complain("cannot connect to %s: %s (%s); check that it is the socket of a broker",
                         path, strerror(error), name);
        }
        return BROKER_SOCKET_E_COMPLAINED;
}

int broker_socket_connect(const CommonOptions *options, int *ret_fd) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(freep) char *path = NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = socket_path(options, &path);
        if (r != 0)
                return r;
        if (strlen(path) >= sizeof(address.sun_path)) {
                complain("the socket path %s is longer than %zu bytes; give a shorter one", path,
                         sizeof(address.sun_path) - 1);
                return BROKER_SOCKET_E_COMPLAINED;
        }
        memcpy(address.sun_path, path, strlen(path));
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_origin(negative_errno());
        if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return connect_failure(path, errno);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int broker_socket_append_workspace(const CommonOptions *options, StrBuf *out) {
        json_t *path, *message;
        char *text;
        int r;

        if (!options->workspace)
                return 0;
        path = json_string(options->workspace);
        if (!path) {
                complain("the path of --workspace is not UTF-8, and so cannot be named in JSON; "
                         "rename the folder");
                return BROKER_SOCKET_E_COMPLAINED;
        }
        message = json_pack("{s:s, s:s, s:{s:{s:o, s:s}}}", "jsonrpc", "2.0", "method",
                            MCP_CONNECTION_METHOD, "params", "workspace", "path", path, "mode",
                            options->workspace_ro ? "ro" : "rw");
        if (!message)
                return error_origin(-ENOMEM);
        text = json_dumps(message, JSON_COMPACT);
        json_decref(message);
        if (!text)
                return error_origin(-ENOMEM);
        r = strbuf_append_string(out, text);
        free(text);
        if (r >= 0)
                r = strbuf_append_byte(out, '\n');
        return error_trace(r);
}
