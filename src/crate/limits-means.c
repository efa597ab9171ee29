/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/limits-means.h"

#include <errno.h>

#include "basic/error.h"

/* The means of each limit: that of the controller first, then without it. */
static const struct {
        LimitController controller; /* _LIMIT_CONTROLLER_MAX: none is needed */
        LimitMeans fallback;
} limit_means[_LIMIT_MAX] = {
        [LIMIT_MEMORY] = {LIMIT_CONTROLLER_MEMORY, LIMIT_BY_SAMPLER},
        [LIMIT_PIDS] = {LIMIT_CONTROLLER_PIDS, LIMIT_BY_RLIMIT},
        [LIMIT_CPUS] = {LIMIT_CONTROLLER_CPU, LIMIT_BY_NOTHING},
        [LIMIT_CPU_TIME] = {LIMIT_CONTROLLER_CPU, LIMIT_BY_SAMPLER},
        [LIMIT_WALL_TIME] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_TIMER},
        [LIMIT_DISK] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_MOUNT},
        [LIMIT_INODES] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_MOUNT},
        [LIMIT_OPEN_FILES] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_RLIMIT},
        [LIMIT_FILE_SIZE] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_RLIMIT},
        [LIMIT_OUTPUT] = {_LIMIT_CONTROLLER_MAX, LIMIT_BY_BROKER},
        [LIMIT_IO_READ_BPS] = {LIMIT_CONTROLLER_IO, LIMIT_BY_NOTHING},
        [LIMIT_IO_WRITE_BPS] = {LIMIT_CONTROLLER_IO, LIMIT_BY_NOTHING},
};

static const char *const controller_names[_LIMIT_CONTROLLER_MAX] = {
        [LIMIT_CONTROLLER_MEMORY] = "memory",
        [LIMIT_CONTROLLER_PIDS] = "pids",
        [LIMIT_CONTROLLER_CPU] = "cpu",
        [LIMIT_CONTROLLER_IO] = "io",
};

static const char *const means_names[] = {
        [LIMIT_BY_NOTHING] = NULL,      [LIMIT_BY_CGROUP] = "cgroup", [LIMIT_BY_RLIMIT] = "rlimit",
        [LIMIT_BY_SAMPLER] = "sampler", [LIMIT_BY_MOUNT] = "mount",   [LIMIT_BY_TIMER] = "timer",
        [LIMIT_BY_BROKER] = "broker",
};

const char *limit_means_to_string(LimitMeans means) {
        return means_names[means];
}

void limits_host_init(LimitsHost *host, Enforce enforce) {
        /* A user's crates run under the user's own id, root sees everything. A broker of its own
         * uid whose crates are made by another sees nothing of them; who knows that says so. */
        *host = (LimitsHost){.can_sample = true, .enforce = enforce};
}

static LimitMeans means_of(const LimitsHost *host, LimitName name) {
        LimitController controller = limit_means[name].controller;
        LimitMeans fallback = limit_means[name].fallback;

        /* The time that a cgroup has used is counted without any controller. */
        if (name == LIMIT_CPU_TIME && host->has_cgroup)
                return LIMIT_BY_CGROUP;
        if (controller < _LIMIT_CONTROLLER_MAX && host->has_cgroup && host->controllers[controller])
                return LIMIT_BY_CGROUP;
        if (fallback == LIMIT_BY_SAMPLER && !host->can_sample)
                return LIMIT_BY_NOTHING;
        return fallback;
}

static int refuse(const LimitsHost *host, LimitName name, LimitMeans means, CrateError *ret_error) {
        LimitController controller = limit_means[name].controller;
        const char *reason = host->reasons[controller], *remedy;

        if (means == LIMIT_BY_SAMPLER)
                remedy =
                        "run where crates get that controller (agentcrate doctor tells), or accept "
                        "less with enforce \"sampled\"";
        else
                remedy = "leave the limit out, or run where crates get that controller (agentcrate "
                         "doctor tells)";
        (void) crate_error_set(
                ret_error, "limits", EOPNOTSUPP, NULL, remedy,
                means == LIMIT_BY_SAMPLER
                        ? "limit %s: only sampling could enforce it here, and enforce is strict: "
                          "crates have no cgroup with the controller %s%s%s"
                        : "limit %s cannot be enforced here: crates have no cgroup with the "
                          "controller %s%s%s",
                limit_to_string(name), controller_names[controller], reason ? ", " : "",
                reason ?: "");
        return LIMITS_MEANS_E_REFUSED;
}

int limits_means_decide(const LimitsHost *host, const Limits *limits, LimitsMeans *ret_means,
                        CrateError *ret_error) {
        LimitsMeans means;

        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                means.of[name] = means_of(host, name);
                if (limits->max[name] == LIMIT_UNLIMITED)
                        continue;
                if (means.of[name] == LIMIT_BY_NOTHING ||
                    (means.of[name] == LIMIT_BY_SAMPLER && host->enforce == ENFORCE_STRICT))
                        return refuse(host, name, means.of[name], ret_error);
        }
        *ret_means = means;
        return 0;
}
