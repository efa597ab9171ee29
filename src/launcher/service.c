/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/service.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/parse-util.h"
#include "launcher/parent.h"

#define SERVICE_LISTEN_FD 3
/* Ids that a host gives to nobody lie above these. */
#define SUBUID_BASE_MIN 65536U

typedef struct Service {
        const char *user, *subuids, *bind_roots;
        bool help, version;
        BindRoots roots;
        ParentConfig config;
} Service;

static _printf_(1, 2) int complain(const char *format, ...) {
        va_list args;

        fputs("agentcrate-launcher: ", stderr);
        va_start(args, format);
        (void) vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        return -EINVAL;
}

static void print_help(void) {
        fputs("Usage: agentcrate-launcher --user NAME --subuids BASE:COUNT --bind-roots FILE\n"
              "Make crates for agentcrated. Started by its socket unit, or by agentcrated "
              "itself.\n\n"
              "  --user NAME           who may connect beside root, and gets the jobs' cgroup\n"
              "  --subuids BASE:COUNT  the host's ids that crates may be given\n"
              "  --bind-roots FILE     what of the host crates may be shown\n"
              "  -h, --help            print this text\n"
              "      --version         print the version\n",
              stdout);
}

static int parse_options(Service *service, int argc, char *argv[]) {
        enum {
                OPT_USER = 256,
                OPT_SUBUIDS,
                OPT_BIND_ROOTS,
                OPT_VERSION
        };
        static const struct option options[] = {
                {"user", required_argument, NULL, OPT_USER},
                {"subuids", required_argument, NULL, OPT_SUBUIDS},
                {"bind-roots", required_argument, NULL, OPT_BIND_ROOTS},
                {"help", no_argument, NULL, 'h'},
                {"version", no_argument, NULL, OPT_VERSION},
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case OPT_USER:
                        service->user = optarg;
                        break;
                case OPT_SUBUIDS:
                        service->subuids = optarg;
                        break;
                case OPT_BIND_ROOTS:
                        service->bind_roots = optarg;
                        break;
                case 'h':
                        service->help = true;
                        return 0;
                case OPT_VERSION:
                        service->version = true;
                        return 0;
                default:
                        return -EINVAL; /* getopt has said it */
                }
        if (optind < argc)
                return complain("there is no argument \"%s\"; see --help", argv[optind]);
        if (!service->user || !service->subuids || !service->bind_roots)
                return complain("--user, --subuids and --bind-roots must all be given; see --help");
        return 0;
}

/* From the file itself: a static program has no other name service. */
static int find_user(Service *service) {
        struct passwd *entry;
        FILE *file;

        file = fopen("/etc/passwd", "re");
        if (!file)
                return complain("/etc/passwd cannot be read: %s", strerror(errno));
        while ((entry = fgetpwent(file)) && strcmp(entry->pw_name, service->user) != 0)
                ;
        if (entry) {
                service->config.uid = entry->pw_uid;
                service->config.gid = entry->pw_gid;
        }
        (void) fclose(file);
        return entry ? 0
                     : complain("there is no user %s in /etc/passwd; systemd-sysusers makes it",
                                service->user);
}

static int take_subuids(Service *service) {
        uint64_t base, count = 0;
        char *end;

        errno = 0;
        base = strtoull(service->subuids, &end, 10);
        if (errno == 0 && end != service->subuids && *end == ':')
                count = strtoull(end + 1, &end, 10);
        if (errno != 0 || *end ||
            strspn(service->subuids, "0123456789:") != strlen(service->subuids))
                return complain("--subuids %s is not BASE:COUNT", service->subuids);
        if (base < SUBUID_BASE_MIN || count == 0 || base >= UINT32_MAX || count > UINT32_MAX - base)
                return complain("--subuids %s: ids lie from %u to %u", service->subuids,
                                SUBUID_BASE_MIN, UINT32_MAX - 1);
        service->config.context.subuid_base = (uint32_t) base;
        service->config.context.subuid_count = (uint32_t) count;
        return 0;
}

static int read_roots(Service *service) {
        const char *fault;
        size_t line;
        int r;

        r = bind_roots_read(service->bind_roots, &service->roots, &line, &fault);
        if (r < 0)
                return complain("%s cannot be read: %s", service->bind_roots, strerror(-r));
        if (r == BIND_ROOTS_E_INVALID && line == 0)
                return complain("%s: %s", service->bind_roots, fault);
        if (r == BIND_ROOTS_E_INVALID)
                return complain("%s:%zu: %s", service->bind_roots, line, fault);
        service->config.context.roots = &service->roots;
        return 0;
}

/* The one socket of the socket unit, by the service manager's convention. */
static int take_socket(Service *service) {
        const char *pid = secure_getenv("LISTEN_PID"), *n_fds = secure_getenv("LISTEN_FDS");
        char own[16];
        int value;
        socklen_t size = sizeof(value);

        (void) snprintf(own, sizeof(own), "%d", getpid());
        if (!pid || strcmp(pid, own) != 0 || !n_fds || strcmp(n_fds, "1") != 0)
                return complain("no socket was passed in: start it by agentcrate-launcher.socket");
        if (getsockopt(SERVICE_LISTEN_FD, SOL_SOCKET, SO_TYPE, &value, &size) < 0 ||
            value != SOCK_SEQPACKET ||
            getsockopt(SERVICE_LISTEN_FD, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) < 0 || !value ||
            fcntl(SERVICE_LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0 ||
            fcntl(SERVICE_LISTEN_FD, F_SETFL, O_NONBLOCK) < 0)
                return complain("what was passed in is no listening socket of sequential packets");
        service->config.listen_fd = SERVICE_LISTEN_FD;
        return 0;
}

static bool peer_is_allowed(const Service *service, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
               (peer.uid == 0 || peer.uid == service->config.uid);
}

/* Waits for the broker. Whoever else may have got through to the socket is turned away. */
static int accept_broker(const Service *service) {
        for (;;) {
                struct pollfd poll_fd = {.fd = service->config.listen_fd, .events = POLLIN};
                int fd;

                if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
                        return complain("cannot wait for a connection: %s", strerror(errno));
                fd = accept4(service->config.listen_fd, NULL, NULL, SOCK_CLOEXEC);
                if (fd < 0)
                        continue;
                if (peer_is_allowed(service, fd))
                        return fd;
                (void) complain("a connection of another user was refused");
                (void) close(fd);
        }
}

static int service_run(Service *service) {
        int fd, r;

        r = find_user(service);
        if (r == 0)
                r = take_subuids(service);
        if (r == 0)
                r = read_roots(service);
        if (r == 0)
                r = take_socket(service);
        if (r < 0)
                return r;
        fd = accept_broker(service);
        if (fd < 0)
                return fd;
        r = parent_run(&service->config, fd);
        return r < 0 ? complain("the link to the broker ended: %s", strerror(-r)) : 0;
}

int service_main(int argc, char *argv[]) {
        Service service = {.config = {.is_service = true, .listen_fd = -EBADF}};
        int r;

        r = parse_options(&service, argc, argv);
        if (r == 0 && service.help)
                print_help();
        else if (r == 0 && service.version)
                printf("agentcrate-launcher %s\n", PACKAGE_VERSION);
        else if (r == 0)
                r = service_run(&service);
        bind_roots_done(&service.roots);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
