/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A tree and its crates from the inside, for the files of this folder. */

#include <sys/queue.h>

#include "cgroup/cgroup.h"

#define CGROUP_NAME_SIZE 32U /* "c-" and 16 digits, "t-" and 10, "agentcrate-" and 16 */
#define CGROUP_PATH_SIZE 64U /* "jobs/t-4294967295/c-0123456789abcdef" */

/* jobs/ and everything below it is known by its path from the root. */
#define CGROUP_JOBS "jobs"
/* The job's part of a crate. */
#define JOB_LEAF "exec-1"

typedef enum CgroupSharedState {
        CGROUP_SHARED_UNWRITTEN, /* nobody has asked for limits */
        CGROUP_SHARED_FAILED,    /* those that were asked for are not in force */
        CGROUP_SHARED_WRITTEN,
} CgroupSharedState;

/* A ceiling that several crates share: its counters are read again and again. */
typedef struct CgroupShared {
        int fd;      /* its directory */
        int oom_fd;  /* memory.events.local, opened when first needed */
        int pids_fd; /* pids.events.local, likewise; -EBADF too on kernels that lack it */
        CgroupSharedState state;
        CgroupLimits limits;           /* as they were asked for */
        uint64_t pids_seen;            /* its refusals when the culprit was last looked for */
        const CgroupCrate *pids_crate; /* the culprit */
} CgroupShared;

typedef struct CgroupTenant {
        LIST_ENTRY(CgroupTenant) entry;
        uint32_t number;
        CgroupShared shared;
        bool is_made;
        char path[CGROUP_PATH_SIZE];
} CgroupTenant;

/* The event files of one crate, and what was in them. */
typedef struct CgroupWatch {
        int epoll_fd;  /* -EBADF: nothing is watched */
        int memory_fd; /* memory.events of the crate: of job and init together */
        int pids_fds[CGROUP_LEVEL_OUTSIDE];
        int forks_fd; /* the job's pids.events.local, where refusals may be counted in it alone */
        int end_fd;   /* cgroup.events of the crate */
        bool is_lost; /* the cgroup has vanished: nothing is watched any more */
        uint64_t forks_seen;
        uint64_t oom_base[CGROUP_LEVEL_OUTSIDE];
        uint64_t pids_base[CGROUP_LEVEL_OUTSIDE]; /* moves on with each look */
        CgroupBreach pids;                        /* so far */
} CgroupWatch;

struct CgroupCrate {
        LIST_ENTRY(CgroupCrate) entry; /* of tree->crates, or of tree->dying once it is freed */
        CgroupTree *tree;
        CgroupTenant *tenant;
        char path[CGROUP_PATH_SIZE];
        int fd; /* its directory; -EBADF: it was not made */
        int init_fd, exec_fd;
        CgroupLimits limits, job_limits;
        CgroupWatch watch;
};

LIST_HEAD(CgroupCrateList, CgroupCrate);
LIST_HEAD(CgroupTenantList, CgroupTenant);

struct CgroupTree {
        CgroupSource source;
        int parent_fd; /* of a root that we have made, which is called name */
        char name[CGROUP_NAME_SIZE];
        int root_fd, launcher_fd;
        CgroupShared jobs;
        unsigned controllers;
        char *missing[4];
        bool pids_local; /* pids.events.local is there: kernels from 6.11 on */
        bool probed;
        bool is_left; /* what is in it is removed by the manager */
        struct CgroupTenantList tenants;
        struct CgroupCrateList crates, dying;
};

/* --- cgroup-source.c --- */
#define CGROUP_SHARED_NULL                                                                         \
        ((CgroupShared){                                                                           \
                .fd = -EBADF, .oom_fd = -EBADF, .pids_fd = -EBADF, .limits = CGROUP_LIMITS_NONE})
void cgroup_shared_done(CgroupShared *shared);

/* --- cgroup.c --- */
int cgroup_enable(int dir, unsigned controllers);

/* --- cgroup-crate.c --- */

/* Writes limits that are other than before, lifted ones too, and reads them back. What could not be
 * written is tried again before the next crate. */
int cgroup_shared_set(CgroupTree *tree, CgroupShared *shared, const char *path,
                      const CgroupLimits *limits, CgroupFailure *ret_failure);
CgroupTenant *cgroup_tenant_free(CgroupTenant *tenant);

/* --- cgroup-remove.c --- */

/* Removes a cgroup and all below it. 0, or a negative errno while something lives in it; what is
 * gone already is no error. */
int cgroup_remove(int parent_fd, const char *name);
/* Kills what lives in it as well; the rest is for a later call. */
int cgroup_kill_and_remove(int parent_fd, const char *name);
/* Calls handle for each child whose name begins with prefix, until it does not return 0. */
int cgroup_each_child(int parent_fd, const char *prefix,
                      int (*handle)(int parent_fd, const char *name, void *userdata),
                      void *userdata);
/* Waits for the cgroup of that directory to be empty, at most until that time. True if it is, or if
 * that cannot be told. */
bool cgroup_wait_empty(int fd, uint64_t end_usec);

/* --- cgroup-watch.c --- */
void cgroup_watch_init(CgroupWatch *watch);
int cgroup_watch_start(CgroupCrate *crate, CgroupFailure *ret_failure);
/* A shared level has got a ceiling that crates which run already may meet. */
void cgroup_watch_shared(CgroupTree *tree, const CgroupShared *shared);
void cgroup_watch_done(CgroupWatch *watch);
