/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the cgroup2 hierarchy that is ours, and the leaves that crates live in:
 *
 *   (root)/              a delegated unit, a transient scope, or a child that we have made
 *     broker/            this process, only where it sits in the subtree
 *     launcher/          its launchers
 *     jobs/              the instance's ceiling
 *       t-<tenant>/      the tenant's ceiling
 *         <crate id>/    the crate's ceiling
 *           init/        pid 1 of the crate
 *           exec-1/      its job, and the job's limits
 *
 * A tree comes about in two steps, since a launcher can only make its cgroup namespace while it
 * sits in the root, and nothing may sit there once controllers are enabled below it:
 *
 *   1. cgroup_tree_new_…() makes launcher/ and jobs/. Then the launcher enters (or was born into)
 *      the root, unshares its cgroup namespace, and moves to launcher/.
 *   2. cgroup_tree_enable() enables controllers down to jobs/ and writes the instance's ceiling.
 *
 * After that cgroup_crate_make() makes crates. Every limit that is written is read back; one that
 * did not take is a failure that names the file, never a run with less than was asked for. Nothing
 * is ever written to a cgroup that was not made here, the given root and its enabled controllers
 * excepted. Names are ids of ours, since a job can read its own path.
 *
 * No event loop, no threads, no blocking but where it says so. All objects of a tree belong to one
 * thread. Paths of failures are relative to the root.
 */

#include "basic/macros.h"

typedef struct CgroupTree CgroupTree;
typedef struct CgroupCrate CgroupCrate;

#define CGROUP_UNLIMITED UINT64_MAX /* equals LIMIT_UNLIMITED */

enum {
        _CGROUP_E_SUCCESS,
        CGROUP_E_UNAVAILABLE, /* ret_reason: one clause, for those who ask why; owned by caller */
        CGROUP_E_FAILED,      /* ret_failure tells */
};

typedef enum CgroupController {
        CGROUP_CPU = 1U << 0,
        CGROUP_MEMORY = 1U << 1,
        CGROUP_PIDS = 1U << 2,
        CGROUP_IO = 1U << 3,
        _CGROUP_ALL = (1U << 4) - 1,
} CgroupController;

/* Where the root has come from. */
typedef enum CgroupSource {
        CGROUP_SOURCE_OWN,     /* the delegated cgroup of this process's own unit */
        CGROUP_SOURCE_SCOPE,   /* a transient scope of a service manager */
        CGROUP_SOURCE_PLAIN,   /* a child of the own cgroup, where there is no service manager */
        CGROUP_SOURCE_SERVICE, /* jobs/ alone, from the launcher service (system mode) */
} CgroupSource;

/* From the inside out: where a limit was met. The names are those of records. */
typedef enum CgroupLevel {
        CGROUP_LEVEL_JOB,
        CGROUP_LEVEL_SANDBOX, /* the crate's own ceiling */
        CGROUP_LEVEL_TENANT,
        CGROUP_LEVEL_INSTANCE,
        CGROUP_LEVEL_OUTSIDE, /* above our tree: a ceiling of someone else, or the whole machine */
        _CGROUP_LEVEL_MAX,
} CgroupLevel;

/* "job", "sandbox", "tenant", "instance", "outside" */
const char *cgroup_level_to_string(CgroupLevel level);
/* "cpu", "memory", "pids", "io"; one bit */
const char *cgroup_controller_to_string(CgroupController controller);

/*
 * Ceilings of one level; CGROUP_UNLIMITED in each member that has none. A limit whose controller is
 * not in cgroup_tree_controllers() is a failure: callers ask first and choose another means.
 */
typedef struct CgroupLimits {
        uint64_t memory;       /* bytes, >= one page; rounded down to pages; swap is 0 with it */
        uint64_t pids;         /* tasks, >= 1; above 4194304 it counts as unlimited */
        uint64_t cpus;         /* thousandths of one processor, >= 1 */
        uint64_t io_read_bps;  /* bytes a second of each whole block device, >= 1 */
        uint64_t io_write_bps; /* likewise */
} CgroupLimits;

#define CGROUP_LIMITS_NONE                                                                         \
        ((CgroupLimits){CGROUP_UNLIMITED, CGROUP_UNLIMITED, CGROUP_UNLIMITED, CGROUP_UNLIMITED,    \
                        CGROUP_UNLIMITED})

/* Places in a crate that are not the job's: init and what may help it. Added to pids of the crate's
 * own level by cgroup_crate_make(); ceilings of tenant and instance count them. */
#define CGROUP_INIT_PIDS 2U

/* Which controllers these limits need. */
unsigned cgroup_limits_controllers(const CgroupLimits *limits);

#define CGROUP_FAILURE_FILE_MAX 128U
#define CGROUP_FAILURE_VALUE_MAX 96U

/* What could not be done, and where. */
typedef struct CgroupFailure {
        int error;                             /* errno, positive; 0: got is not wanted */
        char file[CGROUP_FAILURE_FILE_MAX];    /* "jobs/t-0/c-…/exec-1/memory.max" */
        char wanted[CGROUP_FAILURE_VALUE_MAX]; /* what was written; "" for other operations */
        char got[CGROUP_FAILURE_VALUE_MAX];    /* what was read back; "" if nothing */
} CgroupFailure;

/* One sentence that names the file, what was wanted, what came, and for a vanished cgroup or a
 * read-only cgroupfs that too. NULL: out of memory. Owned by the caller. */
char *cgroup_failure_format(const CgroupFailure *failure);

/* --- sources --- */

/*
 * Whether cgroup2 can hold limits on this host at all: 0, or CGROUP_E_UNAVAILABLE with the reason
 * (kernel older than 6.1, only cgroup v1, hybrid: v1 holds the controllers). One uname() and one
 * statfs(): cheap enough for every start.
 */
int cgroup_host_check(char **ret_reason);
/* True where a service manager of systemd runs, which alone may make cgroups then. access(2). */
bool cgroup_host_has_systemd(void);

/* The delegated cgroup of the own unit, or, without systemd, the own cgroup if this process is
 * alone in it and may write to it. Moves this process to broker/. To be called while it has no
 * children. */
int cgroup_tree_new_own(CgroupTree **ret_tree, char **ret_reason);
/* A fresh child "agentcrate-…" of the own cgroup, where there is no systemd and at least one of
 * memory, pids, cpu. This process stays where it is; removes what dead owners have left. */
int cgroup_tree_new_plain(CgroupTree **ret_tree, char **ret_reason);
/* The directory of a scope (scope.h) in whose root the launcher sits. root_fd is consumed, also on
 * failure. */
int cgroup_tree_new_scope(int root_fd, CgroupTree **ret_tree, char **ret_reason);
/* jobs/, as the launcher service sends it: the directory, its cgroup.procs, cgroup.subtree_control
 * and limits' files are ours. jobs_fd is consumed, also on failure. */
int cgroup_tree_new_service(int jobs_fd, CgroupTree **ret_tree, char **ret_reason);

/* Kills and removes what is left; waits a little (2 s at most) for crates that are still dying. All
 * crates must have been freed; of a scope, a process must still sit in launcher/, or see
 * cgroup_tree_leave(). Accepts NULL. */
CgroupTree *cgroup_tree_free(CgroupTree *tree);
DEFINE_CLEANUP(CgroupTree, cgroup_tree_free);

CgroupSource cgroup_tree_source(const CgroupTree *tree);
/* The root, to clone a launcher into (CLONE_INTO_CGROUP; moving a process costs 7 ms); -EBADF with
 * a service. Borrowed. */
int cgroup_tree_root_fd(const CgroupTree *tree);
/* O_PATH of launcher/, for the launcher to be moved to; -EBADF with a service. Borrowed. */
int cgroup_tree_launcher_fd(const CgroupTree *tree);

/* --- the second step --- */

/*
 * Enables cpu, memory, pids and io as far as the root has them, from the root down to jobs/, and
 * writes the instance's ceiling (NULL: none). The root must be empty by now. What cannot be enabled
 * is no failure but missing from the mask; a ceiling that needs it is one.
 */
int cgroup_tree_enable(CgroupTree *tree, const CgroupLimits *instance, CgroupFailure *ret_failure);
/* Changes the instance's ceiling, for what runs as well. One that was not taken is tried again
 * before the next crate is made, and none is made without it. */
int cgroup_tree_set_limits(CgroupTree *tree, const CgroupLimits *instance,
                           CgroupFailure *ret_failure);
/* CGROUP_X of what every leaf will have. 0 before cgroup_tree_enable(). */
unsigned cgroup_tree_controllers(const CgroupTree *tree);
/* Why this one is not in the mask: one clause with the remedy, where one is known. NULL: it is
 * there. Borrowed. */
const char *cgroup_tree_missing(const CgroupTree *tree, CgroupController controller);

/* --- crates --- */

typedef struct CgroupCrateSpec {
        uint32_t tenant;                   /* its number; 0: the owner */
        const CgroupLimits *tenant_limits; /* written when the tenant's first crate is made, and
                                              whenever they have changed. NULL: none */
        const CgroupLimits *crate_limits;  /* NULL: none. pids is that of the jobs, see above */
        const CgroupLimits *job_limits;    /* NULL: none, or by cgroup_crate_set_job_limits() */
} CgroupCrateSpec;

/*
 * Makes the crate's cgroups with all of these limits, and takes the counters of the levels above as
 * they are now. On failure nothing is left.
 */
int cgroup_crate_make(CgroupTree *tree, const CgroupCrateSpec *spec, CgroupCrate **ret_crate,
                      CgroupFailure *ret_failure);
/* The same without any limit, for those who know of none. */
int cgroup_crate_new(CgroupTree *tree, CgroupCrate **ret_crate);
/* Changes the ceiling of a tenant for what runs already; one without crates has none to change. */
int cgroup_tenant_set_limits(CgroupTree *tree, uint32_t number, const CgroupLimits *limits,
                             CgroupFailure *ret_failure);
/* Kills what lives in it and removes it, at once or by a later sweep. Never waits. Accepts NULL. */
CgroupCrate *cgroup_crate_free(CgroupCrate *crate);
DEFINE_CLEANUP(CgroupCrate, cgroup_crate_free);

/* O_PATH of init/ and exec-1/, for cloning into. Borrowed. */
int cgroup_crate_init_fd(const CgroupCrate *crate);
int cgroup_crate_exec_fd(const CgroupCrate *crate);
/* Its path below the root, for messages: "jobs/t-0/c-…". Borrowed. */
const char *cgroup_crate_path(const CgroupCrate *crate);

/* Limits of the job, written and read back: at the claim of a crate that was made ahead. */
int cgroup_crate_set_job_limits(CgroupCrate *crate, const CgroupLimits *limits,
                                CgroupFailure *ret_failure);

/* Whether it has a weight: where the cpu controller is. */
bool cgroup_crate_has_weight(const CgroupCrate *crate);
/* Its part of the processors when they are short, 1 … 10000, among the crates of its tenant; 100
 * when it is made. 0 or a negative errno. */
int cgroup_crate_set_weight(CgroupCrate *crate, unsigned weight);

/* --- while the job runs --- */

/*
 * To be polled for input (an epoll of the kernel's event files; level-triggered: it stays readable
 * until cgroup_crate_check() has looked). Readable: a limit may have been met, at whatever level,
 * or, after cgroup_crate_watch_end(), all processes may have gone. -EBADF: the kernel can tell
 * nothing, since neither memory nor pids is there. Borrowed.
 */
int cgroup_crate_events_fd(const CgroupCrate *crate);

typedef struct CgroupBreach {
        uint64_t hits;     /* since the crate was made; 0: none, and nothing else is set */
        CgroupLevel level; /* of the last one */
        uint64_t max;      /* the ceiling that was met; CGROUP_UNLIMITED with level outside */
        uint64_t observed; /* that level's use: the peak where the kernel keeps one, else now */
} CgroupBreach;

typedef struct CgroupBreaches {
        CgroupBreach memory; /* the kernel has killed the job or init for want of memory */
        CgroupBreach pids;   /* a fork or thread of this crate was refused */
        uint64_t memory_oom, memory_oom_kill, memory_max, pids_max; /* the job's counters as the
                                kernel has them, for evidence; oom_kill is a flag, not a count */
} CgroupBreaches;

/*
 * Reads the event files, compares each level with what it was at the start, and clears the events
 * fd. A refusal at a ceiling that several crates share is laid to the crate with the most tasks
 * where the kernel (from 6.11 on) does not say whose fork it was. CGROUP_E_FAILED: the cgroup has
 * vanished or cannot be read; the events fd is silent from then on.
 */
int cgroup_crate_check(CgroupCrate *crate, CgroupBreaches *ret_breaches,
                       CgroupFailure *ret_failure);

enum {
        CGROUP_USAGE_CPU = 1U << 0,
        CGROUP_USAGE_MEMORY = 1U << 1,
        CGROUP_USAGE_MEMORY_PEAK = 1U << 2,
        CGROUP_USAGE_PIDS = 1U << 3,
        CGROUP_USAGE_PIDS_PEAK = 1U << 4,
        CGROUP_USAGE_IO = 1U << 5,
        CGROUP_USAGE_ALL = (1U << 6) - 1,
};

/* Of the job's leaf. */
typedef struct CgroupUsage {
        unsigned has;            /* CGROUP_USAGE_X: which of these the kernel could tell */
        uint64_t cpu_usec;       /* needs no controller, is there on every cgroup2 */
        uint64_t memory_current; /* bytes */
        uint64_t memory_peak;    /* bytes */
        uint64_t pids_current, pids_peak;
        uint64_t io_read_bytes, io_write_bytes;
} CgroupUsage;

/* Reads what of it is asked for. What the kernel lacks is not in has, and no failure; a vanished
 * cgroup is CGROUP_E_FAILED. To be read before the crate is freed. */
int cgroup_crate_read_usage(const CgroupCrate *crate, unsigned what, CgroupUsage *ret_usage,
                            CgroupFailure *ret_failure);

/* --- the end --- */

/* Kills all in it at once, whatever they have done to their signals and sessions. */
int cgroup_crate_kill(CgroupCrate *crate);
/* The same for the job alone; init lives. Nothing can be started in the leaf after that: a clone
 * into it is killed at birth. */
int cgroup_crate_kill_job(CgroupCrate *crate);
/* Makes the events fd readable also when the last process of the crate has gone. */
int cgroup_crate_watch_end(CgroupCrate *crate);
/* False once nothing lives in the crate; true also if that cannot be told. */
bool cgroup_crate_is_populated(const CgroupCrate *crate);
/* The same of the job's leaf alone. */
bool cgroup_crate_job_is_populated(const CgroupCrate *crate);

/* Tries once more to remove what could not be removed at once. Returns how many are left. */
size_t cgroup_tree_sweep(CgroupTree *tree);

/*
 * From here on nothing is removed from a scope. One that has become empty is removed by its
 * manager, who gives up for good if something in it vanishes under his hands: so whoever has no
 * process of his own in the scope any more must keep his hands off. Other trees are not touched by
 * this.
 */
void cgroup_tree_leave(CgroupTree *tree);
