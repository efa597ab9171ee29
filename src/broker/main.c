/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrated: the broker. It listens, reads requests, decides, has crates made for them,
 * supervises them and answers. It holds no namespace code: that is the launcher's.
 */

#include <getopt.h>
#include <stdio.h>

#include "basic/error.h"
#include "basic/parse-util.h"
#include "broker/listener.h"
#include "broker/log.h"
#include "broker/manager.h"
#include "broker/privileges.h"

static const char *arg_listen;
static uint64_t arg_idle_usec;

enum {
        _MAIN_E_SUCCESS,
        MAIN_E_DONE,   /* there is nothing more to do, and all is well */
        MAIN_E_FAILED, /* it was said why */
};

static void help(void) {
        printf("agentcrated [OPTIONS]\n\n"
               "Runs tools of agents in crates. Started by its socket unit, or by hand:\n\n"
               "      --listen PATH   make a UNIX socket at PATH and listen on it\n"
               "      --idle TIME     end when nobody was connected for TIME (30, 500ms, 10m);\n"
               "                      default: the configuration's when started by a socket, else\n"
               "                      never\n"
               "  -h, --help          show this\n"
               "      --version       show the version\n\n"
               "Sockets of clients are newline-framed MCP. See agentcrated(8).\n");
}

static int parse_argv(int argc, char *argv[]) {
        enum {
                ARG_LISTEN = 256,
                ARG_IDLE,
                ARG_VERSION
        };
        static const struct option options[] = {
                {"listen", required_argument, NULL, ARG_LISTEN},
                {"idle", required_argument, NULL, ARG_IDLE},
                {"help", no_argument, NULL, 'h'},
                {"version", no_argument, NULL, ARG_VERSION},
                {},
        };
        int c, r;

        while ((c = getopt_long(argc, argv, "+h", options, NULL)) >= 0)
                switch (c) {
                case ARG_LISTEN:
                        arg_listen = optarg;
                        break;
                case ARG_IDLE:
                        r = parse_time_usec(optarg, &arg_idle_usec);
                        if (r == 0)
                                break;
                        log_error("--idle %s: it %s", optarg, parse_error_to_string(r));
                        return MAIN_E_FAILED;
                case 'h':
                        help();
                        return MAIN_E_DONE;
                case ARG_VERSION:
                        printf("agentcrated %s\n", PACKAGE_VERSION);
                        return MAIN_E_DONE;
                default:
                        return MAIN_E_FAILED;
                }

        if (optind < argc) {
                log_error("there is an argument that is not known: %s", argv[optind]);
                return MAIN_E_FAILED;
        }
        return 0;
}

static int open_listener(int *ret_fd) {
        _cleanup_(fd_closep) int inherited = -EBADF;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = listener_inherit(&inherited, &text);
        if (r == 0 && arg_listen && inherited >= 0) {
                log_error("a socket was passed in and --listen was given: only one of them is "
                          "possible");
                return MAIN_E_FAILED;
        }
        if (r == 0 && arg_listen)
                r = listener_bind(arg_listen, ret_fd, &text);
        else if (r == 0 && inherited < 0) {
                log_error("no socket was passed in: start agentcrated by its socket unit or by "
                          "systemd-socket-activate, or give --listen PATH");
                return MAIN_E_FAILED;
        } else if (r == 0)
                *ret_fd = TAKE_FD(inherited);

        if (r == LISTENER_E_INVALID)
                log_error("%s", text);
        return r > 0 ? MAIN_E_FAILED : error_trace(r);
}

static int load_policy(Policy **ret_policy) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = policy_default_dirs(&dirs);
        if (r < 0)
                return error_trace(r);

        r = policy_load(&dirs, &diags, ret_policy);
        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *text = diag_format(&diags.items[i]);

                log_error("%s", text ?: diags.items[i].text);
        }
        if (diags.n_dropped > 0)
                log_error("and %zu more faults", diags.n_dropped);
        return r > 0 ? MAIN_E_FAILED : error_trace(r);
}

static int run(void) {
        _cleanup_(manager_freep) Manager *manager = NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        ManagerConfig config = {.listen_path = arg_listen};
        int r;

        r = load_policy(&policy);
        if (r != 0)
                return r;
        r = open_listener(&fd);
        if (r != 0)
                return r;
        r = privileges_reduce();
        if (r < 0)
                return error_trace(r);

        config.listen_fd = TAKE_FD(fd);
        config.idle_usec = arg_idle_usec > 0 ? arg_idle_usec
                           : arg_listen      ? 0
                                             : policy->config.idle_usec;
        r = manager_new(&config, TAKE_PTR(policy), &manager);
        if (r < 0)
                return error_trace(r);
        return error_trace(manager_run(manager));
}

/* A job that ends without reading its input, or a log that nobody reads, is no reason to die. What
 * is started from here gets its dispositions reset by init. */
static void ignore_sigpipe(void) {
        const struct sigaction action = {.sa_handler = SIG_IGN};

        (void) sigaction(SIGPIPE, &action, NULL);
}

int main(int argc, char *argv[]) {
        int r;

        ignore_sigpipe();
        r = parse_argv(argc, argv);
        if (r == 0)
                r = run();
        if (r < 0)
                (void) log_errno(r, "it cannot go on");
        return r == 0 || r == MAIN_E_DONE ? EXIT_SUCCESS : EXIT_FAILURE;
}
