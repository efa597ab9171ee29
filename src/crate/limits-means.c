/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/limits-means.h"

#include <errno.h>

#include "basic/error.h"

/* What init and the kernel's own books take of a crate's memory, beside the job and its files. */
#define CRATE_MEMORY_SLACK (16ULL << 20)

/* The controller that can enforce a limit, 0 if none is asked; and what does where there is none.
 */
static const struct {
        unsigned controller;
        LimitMeans otherwise;
} limit_means[_LIMIT_MAX] = {
        [LIMIT_MEMORY] = {CGROUP_MEMORY, LIMIT_BY_SAMPLER},
        [LIMIT_PIDS] = {CGROUP_PIDS, LIMIT_BY_RLIMIT},
        [LIMIT_CPUS] = {CGROUP_CPU, LIMIT_BY_NOTHING},
        [LIMIT_CPU_TIME] = {0, LIMIT_BY_SAMPLER},
        [LIMIT_WALL_TIME] = {0, LIMIT_BY_TIMER},
        [LIMIT_DISK] = {0, LIMIT_BY_MOUNT},
        [LIMIT_INODES] = {0, LIMIT_BY_MOUNT},
        [LIMIT_OPEN_FILES] = {0, LIMIT_BY_RLIMIT},
        [LIMIT_FILE_SIZE] = {0, LIMIT_BY_RLIMIT},
        [LIMIT_OUTPUT] = {0, LIMIT_BY_BROKER},
        [LIMIT_IO_READ_BPS] = {CGROUP_IO, LIMIT_BY_NOTHING},
        [LIMIT_IO_WRITE_BPS] = {CGROUP_IO, LIMIT_BY_NOTHING},
};

static const char *const means_names[] = {
        [LIMIT_BY_NOTHING] = NULL,      [LIMIT_BY_CGROUP] = "cgroup", [LIMIT_BY_RLIMIT] = "rlimit",
        [LIMIT_BY_SAMPLER] = "sampler", [LIMIT_BY_MOUNT] = "mount",   [LIMIT_BY_TIMER] = "timer",
        [LIMIT_BY_BROKER] = "broker",
};

const char *limit_means_to_string(LimitMeans means) {
        return means_names[means];
}

static LimitMeans means_of(const LimitsHost *host, LimitName name) {
        unsigned controller = limit_means[name].controller;
        LimitMeans otherwise = limit_means[name].otherwise;

        /* The time that a cgroup has used is counted without any controller. */
        if (host->cgroups &&
            (name == LIMIT_CPU_TIME ||
             (controller != 0 && (cgroup_tree_controllers(host->cgroups) & controller))))
                return LIMIT_BY_CGROUP;
        if (otherwise == LIMIT_BY_SAMPLER && !host->can_sample)
                return LIMIT_BY_NOTHING;
        return otherwise;
}

/* Why that limit has no cgroup behind it; NULL if nobody knows. */
static const char *reason_of(const LimitsHost *host, LimitName name) {
        unsigned controller = limit_means[name].controller;

        if (!host->cgroups)
                return host->reason;
        return controller != 0 ? cgroup_tree_missing(host->cgroups, (CgroupController) controller)
                               : NULL;
}

/* What is a default cannot be left out. */
static const char *remedy_of(const LimitsHost *host, const Limits *limits, LimitName name,
                             LimitMeans means) {
        if (means == LIMIT_BY_SAMPLER)
                return "run where crates have cgroups (agentcrate doctor tells), or be content "
                       "with enforce sampled";
        if (limits->given & 1U << name)
                return "leave the limit out, or run where crates have cgroups (agentcrate doctor "
                       "tells)";
        return host->can_sample
                       ? "run where crates have cgroups (agentcrate doctor tells)"
                       : "run where crates have cgroups (agentcrate doctor tells), or use a broker "
                         "of your own or agentcrate-run, which can sample";
}

static int refuse(const LimitsHost *host, const Limits *limits, LimitName name, LimitMeans means,
                  CrateError *ret_error) {
        const char *reason = reason_of(host, name);

        (void) crate_error_set(
                ret_error, "limits", EOPNOTSUPP, NULL, remedy_of(host, limits, name, means),
                means == LIMIT_BY_SAMPLER
                        ? "limit %s: only sampling could enforce it here, which enforce strict "
                          "refuses%s%s"
                        : "limit %s: nothing can enforce it here, only a cgroup could%s%s",
                limit_to_string(name), reason ? ": " : "", reason ?: "");
        return LIMITS_MEANS_E_REFUSED;
}

/* One sentence for all limits that could be a cgroup's and are not. */
static int note_weaker(const LimitsHost *host, const Limits *limits, const LimitsMeans *means,
                       StrV *notes) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        const char *reason = NULL;
        int r = 0;

        for (LimitName name = 0; r == 0 && name < _LIMIT_MAX; name++) {
                if (limit_means[name].controller == 0 || means->of[name] == LIMIT_BY_CGROUP ||
                    limits->max[name] == LIMIT_UNLIMITED)
                        continue;
                reason = reason ?: reason_of(host, name);
                r = strbuf_appendf(&text, "%s%s by %s", text.size > 0 ? ", " : "",
                                   limit_to_string(name), limit_means_to_string(means->of[name]));
        }
        if (r == 0 && text.size > 0)
                r = strv_appendf(notes, "not by a cgroup: %s%s%s", text.data, reason ? "; " : "",
                                 reason ?: "");
        return r < 0 ? error_trace(r) : 0;
}

int limits_means_decide(const LimitsHost *host, const Limits *limits, LimitsMeans *ret_means,
                        StrV *notes, CrateError *ret_error) {
        LimitsMeans means;
        int r;

        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                means.of[name] = means_of(host, name);
                if (limits->max[name] == LIMIT_UNLIMITED)
                        continue;
                if (means.of[name] == LIMIT_BY_NOTHING ||
                    (means.of[name] == LIMIT_BY_SAMPLER && host->enforce == ENFORCE_STRICT))
                        return refuse(host, limits, name, means.of[name], ret_error);
        }
        if (notes) {
                r = note_weaker(host, limits, &means, notes);
                if (r < 0)
                        return error_trace(r);
        }
        *ret_means = means;
        return 0;
}

int limits_means_check_ceilings(const LimitsHost *host, const LimitsMeans *means,
                                const Limits *ceilings, const char *where, CrateError *ret_error) {
        const char *reason = reason_of(host, LIMIT_PIDS);

        if (ceilings->max[LIMIT_PIDS] == LIMIT_UNLIMITED ||
            means->of[LIMIT_PIDS] == LIMIT_BY_CGROUP ||
            (host->can_sample && host->enforce != ENFORCE_STRICT))
                return 0;
        (void) crate_error_set(ret_error, "limits", EOPNOTSUPP, NULL,
                               "leave that ceiling out, or run where crates have cgroups "
                               "(agentcrate doctor tells)",
                               "limit pids: the ceiling %s.pids of all jobs together cannot be "
                               "enforced here, only a cgroup could%s%s",
                               where, reason ? ": " : "", reason ?: "");
        return LIMITS_MEANS_E_REFUSED;
}

/* --- what the cgroups are given --- */

static uint64_t by_cgroup(const Limits *limits, const LimitsMeans *means, LimitName name) {
        return means->of[name] == LIMIT_BY_CGROUP ? limits->max[name] : CGROUP_UNLIMITED;
}

CgroupLimits limits_of_job(const Limits *limits, const LimitsMeans *means) {
        return (CgroupLimits){
                .memory = by_cgroup(limits, means, LIMIT_MEMORY),
                .pids = by_cgroup(limits, means, LIMIT_PIDS),
                .cpus = by_cgroup(limits, means, LIMIT_CPUS),
                .io_read_bps = by_cgroup(limits, means, LIMIT_IO_READ_BPS),
                .io_write_bps = by_cgroup(limits, means, LIMIT_IO_WRITE_BPS),
        };
}

CgroupLimits limits_of_crate(const Limits *limits, const LimitsMeans *means) {
        CgroupLimits crate = CGROUP_LIMITS_NONE;
        uint64_t memory = by_cgroup(limits, means, LIMIT_MEMORY), disk = limits->max[LIMIT_DISK];

        if (__builtin_add_overflow(memory, disk, &memory) ||
            __builtin_add_overflow(memory, CRATE_MEMORY_SLACK, &memory))
                memory = CGROUP_UNLIMITED;
        crate.memory = memory;
        crate.pids = by_cgroup(limits, means, LIMIT_PIDS);
        return crate;
}

CgroupLimits limits_of_ceilings(const Limits *ceilings, unsigned controllers) {
        LimitsMeans means = {};

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (limit_means[name].controller & controllers)
                        means.of[name] = LIMIT_BY_CGROUP;
        return limits_of_job(ceilings, &means);
}
