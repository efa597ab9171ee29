/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrated: the broker. It listens, reads requests, decides, has crates made for them,
 * supervises them and answers. It holds no namespace code: that is the launcher's.
 */

#include <malloc.h>
#include <stdio.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/option-table.h"
#include "basic/parse-util.h"
#include "broker/export-config.h"
#include "broker/listener.h"
#include "broker/log.h"
#include "broker/manager.h"
#include "broker/privileges.h"
#include "broker/reload.h"

typedef struct BrokerOptions {
        bool help, version;
        char *listen;       /* NULL: the socket is passed in */
        char *launcher;     /* NULL: launchers are children of ours */
        char *egress;       /* NULL: what posts traces is a child of ours */
        uint64_t idle_usec; /* 0: not given */
} BrokerOptions;

enum {
        _MAIN_E_SUCCESS,
        MAIN_E_DONE,   /* there is nothing more to do, and all is well */
        MAIN_E_FAILED, /* it was said why */
};

static void broker_options_done(BrokerOptions *options) {
        free(options->listen);
        free(options->launcher);
        free(options->egress);
        *options = (BrokerOptions){};
}

static int take_idle(const Option *option _unused_, const char *value, void *target,
                     char **ret_text) {
        _cleanup_(freep) char *quoted = NULL;
        BrokerOptions *options = target;
        int r;

        r = parse_time_usec(value, &options->idle_usec);
        if (r == 0)
                return 0;
        quoted = diag_quote(value);
        return option_invalid(ret_text, "--idle %s: it %s; give a time such as 30, 500ms or 10m",
                              quoted ?: "", parse_error_to_string(r));
}

static const Option option_rows[] = {
        {"listen", 0, "PATH", option_take_string, offsetof(BrokerOptions, listen),
         "make a UNIX socket at PATH and listen on it"},
        {"launcher", 0, "PATH", option_take_string, offsetof(BrokerOptions, launcher),
         "have crates made by the launcher service that listens at PATH"},
        {"egress", 0, "PATH", option_take_string, offsetof(BrokerOptions, egress),
         "have what jobs reach served, and traces posted, by the egress service that listens at "
         "PATH"},
        {"idle", 0, "TIME", take_idle, 0,
         "end when nobody was connected for TIME (30, 500ms, 10m); default is the configuration's "
         "when the socket was passed in, else never"},
        {"help", 'h', NULL, option_take_stop, offsetof(BrokerOptions, help), "print this text"},
        {"version", 0, NULL, option_take_stop, offsetof(BrokerOptions, version),
         "print the version"},
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

static int print_help(void) {
        fputs("Usage: agentcrated [OPTIONS]\n"
              "Run the tools of agents in crates. Started by its socket unit, or by hand.\n\n",
              stdout);
        option_table_print(&option_table, stdout);
        fputs("\nClients speak MCP, one message a line. See agentcrated(8).\n", stdout);
        return MAIN_E_DONE;
}

static int parse_argv(int argc, char *argv[], BrokerOptions *options) {
        _cleanup_(freep) char *text = NULL, *quoted = NULL;
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r;

        r = option_table_parse(&option_table, argc, argv, options, &words, &text);
        if (r < 0)
                return error_trace(r);
        if (r == OPTION_E_INVALID) {
                log_error("%s", text);
                return MAIN_E_FAILED;
        }
        if (options->help)
                return print_help();
        if (options->version) {
                printf("agentcrated %s\n", PACKAGE_VERSION);
                return MAIN_E_DONE;
        }
        if (words.n_items > 0) {
                quoted = diag_quote(words.items[0]);
                log_error("there is no argument %s; all that is taken are options, see "
                          "agentcrated --help",
                          quoted ?: "");
                return MAIN_E_FAILED;
        }
        return 0;
}

static void fds_done(int (*fds)[_LISTENER_KIND_MAX]) {
        for (size_t i = 0; i < _LISTENER_KIND_MAX; i++)
                (*fds)[i] = fd_close((*fds)[i]);
}

static int open_mcp(const char *path, int *fd, char **ret_text) {
        if (path && *fd >= 0) {
                log_error("a socket was passed in and --listen was given; give only one of them");
                return MAIN_E_FAILED;
        }
        if (!path && *fd < 0) {
                log_error("no socket was passed in: start agentcrated by its socket unit or by "
                          "systemd-socket-activate, or give --listen PATH");
                return MAIN_E_FAILED;
        }
        return path ? listener_bind(path, fd, ret_text) : 0;
}

static int open_metrics(const ListenAddress *address, int *fd, char **ret_text) {
        if (address->port > 0 && *fd >= 0) {
                log_error("a socket named metrics was passed in and agentcrated.json has "
                          "listen.metrics; give only one of them");
                return MAIN_E_FAILED;
        }
        return address->port > 0 ? listener_bind_tcp(address, fd, ret_text) : 0;
}

static int open_listeners(const char *path, const Config *config, int fds[_LISTENER_KIND_MAX]) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = listener_inherit(fds, &text);
        if (r == 0)
                r = open_mcp(path, &fds[LISTENER_MCP], &text);
        if (r == 0)
                r = open_metrics(&config->listen_metrics, &fds[LISTENER_METRICS], &text);
        if (text)
                log_error("%s", text);
        return r > 0 ? MAIN_E_FAILED : error_trace(r);
}

static void warn_of_audit(const char *text) {
        log_warning("%s", text);
}

/* Before anything is promised to anybody by listening. */
static int open_audit(const Config *config, Audit **ret_audit) {
        _cleanup_(freep) char *path = NULL, *text = NULL;
        AuditConfig audit = {
                .path = config->audit_path,
                .fail_open = config->audit_fail_open,
                .payloads = config->audit_payloads,
                .to_journal = true,
                .warn = warn_of_audit,
        };
        int r = 0;

        if (!audit.path) {
                r = audit_default_path(&path, &text);
                audit.path = path;
        }
        if (r == 0)
                r = audit_open(&audit, ret_audit, &text);
        if (r == AUDIT_E_UNUSABLE)
                log_error("%s", text);
        return r > 0 ? MAIN_E_FAILED : error_trace(r);
}

static const char *find_variable(const char *name) {
        return secure_getenv(name);
}

/* The variables may be meant for other programs: what cannot be served is no reason not to run. */
static int read_export(const Config *config, ExportConfig *ret_export) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = export_config_read(find_variable, config->otlp, ret_export, &text);
        if (r != EXPORT_CONFIG_E_INVALID)
                return error_trace(r);
        log_warning("no traces are sent: %s", text);
        return 0;
}

static int run(const BrokerOptions *options) {
        _cleanup_(export_config_done) ExportConfig export = {};
        _cleanup_(manager_freep) Manager *manager = NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(audit_freep) Audit *audit = NULL;
        _cleanup_(fds_done) int fds[_LISTENER_KIND_MAX] = {-EBADF, -EBADF};
        ManagerConfig config = {.launcher_path = options->launcher,
                                .listen_path = options->listen,
                                .egress_path = options->egress,
                                .export = &export};
        int r;

        /* The user of the machine's broker has nothing else to do with it. */
        r = privileges_close(options->launcher);
        if (r < 0)
                return error_trace(r);
        /* Whom a launcher service serves is the machine's. */
        r = reload_read(options->launcher ? POLICY_SYSTEM : POLICY_USER, &policy);
        if (r != 0)
                return r > 0 ? MAIN_E_FAILED : error_trace(r);
        r = read_export(&policy->config, &export);
        if (r == 0)
                r = open_audit(&policy->config, &audit);
        if (r == 0)
                r = open_listeners(options->listen, &policy->config, fds);
        if (r != 0)
                return r;
        r = privileges_reduce();
        if (r < 0)
                return error_trace(r);

        config.listen_fd = TAKE_FD(fds[LISTENER_MCP]);
        config.metrics_fd = TAKE_FD(fds[LISTENER_METRICS]);
        config.audit = TAKE_PTR(audit);
        config.idle_usec = options->idle_usec > 0 ? options->idle_usec
                           : options->listen      ? 0
                                                  : policy->config.idle_usec;
        r = manager_new(&config, TAKE_PTR(policy), &manager);
        if (r < 0)
                return error_trace(r);
        r = manager_run(manager);
        return r > 0 ? MAIN_E_FAILED : error_trace(r);
}

/* A job that ends without reading its input, a log that nobody reads or that has met a limit of
 * size, is no reason to die. What is started from here gets its dispositions reset by init. */
static void ignore_signals(void) {
        const struct sigaction action = {.sa_handler = SIG_IGN};

        (void) sigaction(SIGPIPE, &action, NULL);
        (void) sigaction(SIGXFSZ, &action, NULL);
}

/* A policy is made by a thread and freed by the event loop: with a heap for each thread, one of a
 * thousand tenants would leave its room unused in one heap after the other. */
static void share_heap(void) {
        (void) mallopt(M_ARENA_MAX, 1);
}

int main(int argc, char *argv[]) {
        _cleanup_(broker_options_done) BrokerOptions options = {};
        int r;

        share_heap();
        ignore_signals();
        r = parse_argv(argc, argv, &options);
        if (r == 0)
                r = run(&options);
        if (r < 0)
                (void) log_errno(r, "it cannot go on");
        return r == 0 || r == MAIN_E_DONE ? EXIT_SUCCESS : EXIT_FAILURE;
}
