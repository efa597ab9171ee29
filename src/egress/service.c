/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/service.h"

#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "egress/harden.h"
#include "egress/serve.h"

#define SERVICE_LISTEN_FD 3

typedef struct Service {
        const char *user;
        bool help, version;
        uid_t uid;
} Service;

static _printf_(1, 2) int complain(const char *format, ...) {
        va_list args;

        fputs("agentcrate-egress: ", stderr);
        va_start(args, format);
        (void) vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        return -EINVAL;
}

static void print_help(void) {
        fputs("Usage: agentcrate-egress --user NAME\n"
              "Serve the names that crates may reach, and post traces to a collector, for "
              "agentcrated.\nStarted by its socket unit, or by agentcrated itself.\n\n"
              "  --user NAME           who may connect beside root\n"
              "  -h, --help            print this text\n"
              "      --version         print the version\n",
              stdout);
}

static int parse_options(Service *service, int argc, char *argv[]) {
        enum {
                OPT_USER = 256,
                OPT_VERSION
        };
        static const struct option options[] = {
                {"user", required_argument, NULL, OPT_USER},
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
        if (!service->user)
                return complain("--user must be given; see --help");
        return 0;
}

static int find_user(Service *service) {
        const struct passwd *entry = getpwnam(service->user);

        if (!entry)
                return complain("there is no user %s; systemd-sysusers makes it", service->user);
        service->uid = entry->pw_uid;
        return 0;
}

static bool fd_listens(int fd) {
        int type = 0, listens = 0;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
               getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
               fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static bool may_connect(const Service *service, int fd) {
        struct ucred peer = {};
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
               (peer.uid == 0 || peer.uid == service->uid);
}

static bool admit(void *userdata, int fd) {
        const Service *service = userdata;

        if (may_connect(service, fd))
                return true;
        (void) complain("somebody who is neither root nor %s has connected and is not served",
                        service->user);
        return false;
}

/* A broker that broke the protocol is heard no more; the next one, which may be well, is. */
static void told(void *userdata _unused_, int result) {
        if (result < 0)
                (void) complain("the broker broke the protocol; its link is closed");
}

int service_main(int argc, char *argv[], const SeccompProfile *profile) {
        _cleanup_(secret_folders_done) SecretFolders secrets = SECRET_FOLDERS_NULL;
        Service service = {};
        int r;

        r = parse_options(&service, argc, argv);
        if (r < 0)
                return EXIT_FAILURE;
        if (service.help || service.version) {
                if (service.help)
                        print_help();
                else
                        puts("agentcrate-egress " PACKAGE_VERSION);
                return EXIT_SUCCESS;
        }
        if (!fd_listens(SERVICE_LISTEN_FD)) {
                (void) complain("no listening socket was passed in as file descriptor 3: start "
                                "agentcrate-egress.socket");
                return EXIT_FAILURE;
        }
        if (find_user(&service) < 0)
                return EXIT_FAILURE;
        r = secret_folders_find(true, &secrets);
        if (r == 0)
                r = harden(&secrets, profile->filter, profile->n_filter);
        if (r < 0) {
                (void) complain("its rights cannot be given away: %s", strerror(-r));
                return EXIT_FAILURE;
        }
        r = serve_hosts(SERVICE_LISTEN_FD, &secrets, admit, told, &service);
        (void) complain("nobody can connect: %s", strerror(-r));
        return EXIT_FAILURE;
}
