/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a step that failed to the reasons: which sysctl, security module or filter of which layer.
 * Several may stand in the way one behind the other, so all that the facts show are told.
 */

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "doctor/check.h"

#define FILTER_REMEDY                                                                              \
        "let the filter around this program allow it: in Docker or Podman --security-opt "         \
        "seccomp=unconfined, in Kubernetes seccompProfile type Unconfined, in a systemd unit no "  \
        "SystemCallFilter="
#define APPARMOR_REMEDY                                                                            \
        "install AgentCrate's AppArmor profile, or set sysctl "                                    \
        "kernel.apparmor_restrict_unprivileged_userns=0"

typedef struct Layers {
        StrBuf causes, remedies;
        int r; /* the first failure of adding to them */
} Layers;

static void layers_done(Layers *layers) {
        strbuf_done(&layers->causes);
        strbuf_done(&layers->remedies);
}

static void add_layer(Layers *layers, const char *cause, const char *remedy) {
        if (layers->r == 0)
                layers->r = strbuf_appendf(&layers->causes, "%s%s",
                                           layers->causes.size > 0 ? "; then " : "", cause);
        if (layers->r == 0 && remedy)
                layers->r = strbuf_appendf(&layers->remedies, "%s%s",
                                           layers->remedies.size > 0 ? "; then " : "", remedy);
}

static bool kernel_is_new(const HostFacts *host) {
        return host->kernel_major > 6 || (host->kernel_major == 6 && host->kernel_minor >= 1);
}

/* Which of the sysctls user.max_…_namespaces the failed step counts against. */
static DoctorNamespace step_namespace(const char *step) {
        static const struct {
                const char *step;
                DoctorNamespace which;
        } steps[] = {
                {"user-namespace", DOCTOR_NS_USER},   {"clone", DOCTOR_NS_USER},
                {"mount-namespace", DOCTOR_NS_MOUNT}, {"pid-namespace", DOCTOR_NS_PID},
                {"ipc-namespace", DOCTOR_NS_IPC},     {"uts-namespace", DOCTOR_NS_UTS},
                {"net-namespace", DOCTOR_NS_NET},     {"cgroup-namespace", DOCTOR_NS_CGROUP},
        };

        for (size_t i = 0; i < ELEMENTSOF(steps); i++)
                if (string_equal(steps[i].step, step))
                        return steps[i].which;
        return _DOCTOR_NS_MAX;
}

static void explain_missing_call(Layers *layers, const HostFacts *host) {
        if (!kernel_is_new(host))
                add_layer(layers, "this kernel is too old for it",
                          "run a kernel of Linux 6.1 or newer");
        else if (host->seccomp_mode > 0)
                add_layer(layers,
                          "this kernel has the call, but a system call filter around this program "
                          "hides it",
                          FILTER_REMEDY);
        else
                add_layer(layers, "this kernel was built without it",
                          "run a kernel that has the feature, such as a distribution's own");
}

static void explain_maximum(Layers *layers, const HostFacts *host, const char *step) {
        DoctorNamespace which = step_namespace(step);

        if (which < _DOCTOR_NS_MAX && host->max_namespaces[which] == 0)
                add_layer(layers, "the sysctl that limits such namespaces is 0 here",
                          "set sysctl user.max_user_namespaces and the other user.max_*_namespaces "
                          "above 0");
        else
                add_layer(layers,
                          "the maximum of such namespaces is used up, here or in a user namespace "
                          "around this one, or they are nested too deeply",
                          "raise the sysctls user.max_*_namespaces, in outer user namespaces too");
}

static void explain_refusal(Layers *layers, const HostFacts *host, int error) {
        bool root = host_is_root(host);

        if (!root && host->userns_clone == 0)
                add_layer(layers, "sysctl kernel.unprivileged_userns_clone is 0",
                          "set sysctl kernel.unprivileged_userns_clone=1");
        if (!root && host->apparmor_restrict == 1)
                add_layer(layers, "AppArmor restricts user namespaces of plain users",
                          APPARMOR_REMEDY);
        if (root && !(host->capabilities & 1ULL << CAP_SYS_ADMIN))
                add_layer(layers, "this root has no CAP_SYS_ADMIN",
                          "give it the capability SYS_ADMIN, or run as a plain user");
        if (host->seccomp_mode > 0)
                add_layer(layers, "a system call filter is around this program", FILTER_REMEDY);
        if (!string_empty(host->apparmor_label))
                add_layer(layers, "an AppArmor profile confines this program",
                          "run it unconfined (in Docker --security-opt apparmor=unconfined)");
        if (host->selinux_enforcing == 1 && error == EACCES)
                add_layer(layers, "SELinux is enforcing",
                          "see ausearch -m avc for the rule and allow it (in containers "
                          "--security-opt label=disable)");
        if (host->chrooted && error == EPERM)
                add_layer(layers, "this program is in a chroot, where user namespaces are refused",
                          "run it outside of the chroot, or enter the folder by pivot_root");
        if (layers->causes.size == 0)
                add_layer(layers, "the kernel or a security module refuses it", NULL);
}

static void explain_error(Layers *layers, const HostFacts *host, const Probe *probe) {
        if (probe->signal == SIGSYS) {
                add_layer(layers, "a system call filter kills what calls this", FILTER_REMEDY);
                return;
        }
        switch (probe->error) {
        case ENOSYS:
                explain_missing_call(layers, host);
                break;
        case ENOSPC:
        case EUSERS:
                explain_maximum(layers, host, probe->step);
                break;
        case EPERM:
        case EACCES:
                explain_refusal(layers, host, probe->error);
                break;
        default:
                break;
        }
}

/* "step X failed at PATH: TEXT (ENAME)" */
static int describe_failure(const Probe *probe, char **ret_text) {
        const char *name = strerrorname_np(probe->error);
        const char *at = probe->path[0] ? " at " : "";
        int n;

        if (probe->signal > 0)
                n = asprintf(ret_text, "step %s%s%s was ended by signal %s", probe->step, at,
                             probe->path, sigabbrev_np(probe->signal) ?: "?");
        else if (probe->error == ETIMEDOUT)
                n = asprintf(ret_text, "step %s%s%s did not end within %d s", probe->step, at,
                             probe->path, PROBE_TIMEOUT_MSEC / 1000);
        else
                n = asprintf(ret_text, "step %s failed%s%s: %s (%s)", probe->step, at, probe->path,
                             strerror(probe->error), name ?: "?");
        return n < 0 ? error_origin(-ENOMEM) : 0;
}

int check_probe(DoctorCheck *check, const DoctorFacts *facts, const Probe *probe,
                DoctorAnswer not_ok) {
        _cleanup_(layers_done) Layers layers = {};
        _cleanup_(freep) char *text = NULL;
        int r;

        if (!probe->done)
                return check_answer(check, not_ok, NULL, "it could not be tried");
        if (probe->error == 0)
                return 0;
        memcpy(check->step, probe->step, sizeof(check->step));
        check->error = probe->error;
        r = describe_failure(probe, &text);
        if (r < 0)
                return error_trace(r);
        explain_error(&layers, &facts->host, probe);
        if (layers.r < 0)
                return error_trace(layers.r);
        return check_answer(check, not_ok, layers.remedies.data, "%s%s%s", text,
                            layers.causes.size > 0 ? "; " : "", layers.causes.data ?: "");
}
