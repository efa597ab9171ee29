/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is installed of AgentCrate, how it is configured, and whether its broker listens.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "crate/build.h"
#include "crate/egress-program.h"
#include "crate/launcher.h"
#include "crate/subuid.h"
#include "doctor/check.h"
#include "plan/bind-roots.h"
#include "policy/policy.h"

#define SERVICE_SOCKET "/run/agentcrate/launcher.sock"
#define BIND_ROOTS SYSCONFDIR "/bind-roots"

/* --- gathering --- */

/* errno, positive; 0: it can be executed. */
static int look_at_program(const char *path) {
        struct stat st;

        if (stat(path, &st) < 0 || access(path, X_OK) < 0)
                return errno;
        return S_ISREG(st.st_mode) ? 0 : EACCES;
}

static int gather_programs(InstallFacts *install) {
        install->launcher = launcher_program();
        install->egress = egress_program();
        if (!install->launcher || !install->egress)
                return error_origin(-ENOMEM);
        install->launcher_error = look_at_program(install->launcher);
        install->egress_error = look_at_program(install->egress);
        return 0;
}

static int gather_overrides(InstallFacts *install) {
        static const char *const names[] = {"AGENTCRATE_LIBEXEC_DIR", "AGENTCRATE_DATA_DIR",
                                            "AGENTCRATE_CONFIG_DIR", "AGENTCRATE_DELEGATED",
                                            "AGENTCRATE_DEBUG"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const char *value = secure_getenv(names[i]);
                int r;

                if (!value)
                        continue;
                r = strv_appendf(&install->overrides, "%s=%s", names[i], value);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int connect_to(const char *path) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_(fd_closep) int fd = -EBADF;

        if (strlen(path) >= sizeof(address.sun_path))
                return ENAMETOOLONG;
        (void) memcpy(address.sun_path, path, strlen(path));
        /* Not blocking: a socket whose queue is full says EAGAIN. Nothing is sent, and an activated
         * broker ends again by itself. */
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return errno;
        return 0;
}

static int gather_broker(InstallFacts *install) {
        const char *set = secure_getenv("AGENTCRATE_SOCKET");
        const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
        int n;

        if (!string_empty(set))
                n = asprintf(&install->broker_socket, "%s", set);
        else if (geteuid() == 0)
                n = asprintf(&install->broker_socket, "/run/agentcrate/agentcrate.sock");
        else if (string_empty(runtime))
                return 0;
        else
                n = asprintf(&install->broker_socket, "%s/agentcrate/agentcrate.sock", runtime);
        if (n < 0) {
                install->broker_socket = NULL;
                return error_origin(-ENOMEM);
        }
        install->broker_error = connect_to(install->broker_socket);
        return 0;
}

static int take_fault(InstallFacts *install, const DiagList *diags) {
        install->config_fault = diags->n_items > 0 ? diag_format(&diags->items[0])
                                                   : strdup("the configuration is not usable");
        if (install->config_fault && diags->n_items > 0 && diags->items[0].file) {
                install->config_file = strdup(diags->items[0].file);
                if (!install->config_file)
                        return error_origin(-ENOMEM);
        }
        return install->config_fault ? 0 : error_origin(-ENOMEM);
}

/* Not connected to: whoever is first is its broker. */
static int gather_service(InstallFacts *install) {
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        struct stat st;
        int r;

        if (geteuid() != 0)
                return 0;
        if (stat(SERVICE_SOCKET, &st) < 0)
                install->service_error = errno;
        r = bind_roots_read(BIND_ROOTS, &roots, &install->roots_line, &install->roots_fault);
        if (r == -ENOMEM)
                return error_trace(r);
        install->roots_error = r < 0 ? -r : 0;
        install->n_roots = roots.n_roots;
        return 0;
}

/* The limits of jobs by MCP, which all have defaults, with what the template says. */
static int gather_policy(InstallFacts *install) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        const Template *template;
        int r;

        config_init(&install->config);
        limits_init(&install->limits);
        r = policy_default_dirs(&dirs);
        if (r >= 0)
                r = policy_load(&dirs, &diags, &policy);
        if (r < 0)
                return error_trace(r);
        if (r == POLICY_E_INVALID)
                return take_fault(install, &diags);

        install->config.subuid_base = policy->config.subuid_base;
        install->config.subuid_count = policy->config.subuid_count;
        install->config.enforce = policy->config.enforce;
        install->config.enforce_given = policy->config.enforce_given;
        install->config.instance = policy->config.instance;
        template = policy_find_template(policy, "host");
        if (!template)
                return policy_explain_empty(&dirs, &install->config_fault);
        limits_merge(&install->limits, &template->limits);
        return 0;
}

int install_gather(DoctorFacts *facts) {
        InstallFacts *install = &facts->install;
        int r;

        r = gather_programs(install);
        if (r == 0)
                r = gather_overrides(install);
        if (r == 0)
                r = gather_broker(install);
        if (r == 0)
                r = gather_service(install);
        if (r == 0)
                r = gather_policy(install);
        if (r < 0)
                return error_trace(r);
        install->ids_mapped =
                subuid_range_is_mapped(install->config.subuid_base, install->config.subuid_count);
        return 0;
}

/* --- judges --- */

int judge_configuration(DoctorCheck *check, const DoctorFacts *facts) {
        const InstallFacts *install = &facts->install;
        _cleanup_(freep) char *remedy = NULL;

        if (!install->config_fault)
                return 0;
        if (install->config_file &&
            asprintf(&remedy, "mend %s; agentcrate policy check names all faults",
                     install->config_file) < 0) {
                remedy = NULL;
                return error_origin(-ENOMEM);
        }
        return check_answer(check, DOCTOR_NO, remedy ?: "install AgentCrate completely", "%s",
                            install->config_fault);
}

static int judge_program(DoctorCheck *check, const char *step, const char *path, int error,
                         const char *lacks) {
        if (error == 0)
                return check_found(check, "%s", path);
        (void) snprintf(check->step, sizeof(check->step), "%s", step);
        check->error = error;
        return check_answer(check, DOCTOR_NO,
                            "install AgentCrate completely, or set AGENTCRATE_LIBEXEC_DIR",
                            "%s cannot be executed%s: %s (%s)", path, lacks, strerror(error),
                            strerrorname_np(error) ?: "?");
}

int judge_launcher(DoctorCheck *check, const DoctorFacts *facts) {
        const InstallFacts *install = &facts->install;

        return judge_program(check, "launcher", install->launcher, install->launcher_error, "");
}

int judge_egress(DoctorCheck *check, const DoctorFacts *facts) {
        const InstallFacts *install = &facts->install;

        return judge_program(check, "egress", install->egress, install->egress_error,
                             ", so that no job can reach a name");
}

int judge_overrides(DoctorCheck *check, const DoctorFacts *facts) {
        const StrV *overrides = &facts->install.overrides;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        if (overrides->n_items == 0)
                return 0;
        for (size_t i = 0; i < overrides->n_items; i++) {
                r = strbuf_appendf(&text, "%s%s", i > 0 ? ", " : "", overrides->items[i]);
                if (r < 0)
                        return error_trace(r);
        }
        return check_answer(check, DOCTOR_LIMITED, "unset them unless they are meant",
                            "the environment sets %s", text.data);
}

int judge_broker(DoctorCheck *check, const DoctorFacts *facts) {
        const InstallFacts *install = &facts->install;
        bool root = host_is_root(&facts->host);
        int e = install->broker_error;

        if (!install->broker_socket)
                return check_answer(check, DOCTOR_NO,
                                    "log in by way of systemd-logind, or set AGENTCRATE_SOCKET; "
                                    "agentcrate-run needs no broker",
                                    "XDG_RUNTIME_DIR is not set, so there is no place for the "
                                    "broker's socket");
        if (e == 0)
                return check_found(check, "listens at %s", install->broker_socket);
        (void) snprintf(check->step, sizeof(check->step), "connect");
        check->error = e;
        if (e == EACCES || e == EPERM)
                return check_answer(check, DOCTOR_NO, "run a broker of your own",
                                    "the socket %s may not be used (%s)", install->broker_socket,
                                    strerrorname_np(e) ?: "?");
        return check_answer(check, DOCTOR_NO,
                            root ? "systemctl enable --now agentcrated.socket; agentcrate-run "
                                   "needs no broker"
                                 : "systemctl --user enable --now agentcrated.socket; "
                                   "agentcrate-run needs no broker",
                            "no broker listens at %s (%s)", install->broker_socket,
                            strerrorname_np(e) ?: "?");
}

int judge_service(DoctorCheck *check, const DoctorFacts *facts) {
        int e = facts->install.service_error;

        if (!host_is_root(&facts->host))
                return check_found(check, "root's to see");
        if (e == 0)
                return check_found(check, "its socket is %s", SERVICE_SOCKET);
        (void) snprintf(check->step, sizeof(check->step), "stat");
        check->error = e;
        return check_answer(
                check, DOCTOR_NO,
                "systemctl enable --now agentcrate-launcher.socket, if the machine is "
                "to have a broker; others need it not",
                "there is no socket %s (%s), so the machine's broker cannot make crates",
                SERVICE_SOCKET, strerrorname_np(e) ?: "?");
}

int judge_bind_roots(DoctorCheck *check, const DoctorFacts *facts) {
        const InstallFacts *install = &facts->install;

        if (!host_is_root(&facts->host))
                return check_found(check, "root's to see");
        if (install->roots_error == 0 && !install->roots_fault)
                return check_found(check, "%zu paths in %s", install->n_roots, BIND_ROOTS);
        check->error = install->roots_error;
        if (install->roots_fault)
                return check_answer(check, DOCTOR_NO,
                                    "mend the file; agentcrate-launcher(8) has "
                                    "its form",
                                    "%s:%zu: %s", BIND_ROOTS, install->roots_line,
                                    install->roots_fault);
        return check_answer(check, DOCTOR_NO,
                            "if the machine is to have a broker: systemd-tmpfiles --create, or "
                            "install -D -m 0644 " DATADIR "/bind-roots " BIND_ROOTS,
                            "%s cannot be read: %s", BIND_ROOTS, strerror(install->roots_error));
}

int judge_ids(DoctorCheck *check, const DoctorFacts *facts) {
        const Config *config = &facts->install.config;

        if (!host_is_root(&facts->host))
                return check_found(check, "the user's own");
        if (facts->install.ids_mapped)
                return check_found(check, "%" PRIu64 " from %" PRIu64, config->subuid_count,
                                   config->subuid_base);
        (void) snprintf(check->step, sizeof(check->step), "sub-uid");
        check->error = EINVAL;
        return check_answer(check, DOCTOR_NO,
                            "set subuid_range in agentcrated.json to ids that exist here, or map "
                            "more ids into this container",
                            "the range of %" PRIu64 " ids from %" PRIu64
                            " is not mapped in this user namespace",
                            config->subuid_count, config->subuid_base);
}
