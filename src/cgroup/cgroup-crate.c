/* SPDX-License-Identifier: Apache-2.0 */

/* Tenants and crates: what is made below jobs/, and removed again. */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-limits.h"

/* --- tenants --- */

CgroupTenant *cgroup_tenant_free(CgroupTenant *tenant) {
        if (!tenant)
                return NULL;

        cgroup_shared_done(&tenant->shared);
        free(tenant);
        return NULL;
}

static bool limits_equal(const CgroupLimits *a, const CgroupLimits *b) {
        return a->memory == b->memory && a->pids == b->pids && a->cpus == b->cpus &&
               a->io_read_bps == b->io_read_bps && a->io_write_bps == b->io_write_bps;
}

int cgroup_shared_set(CgroupTree *tree, CgroupShared *shared, const char *path,
                      const CgroupLimits *limits, CgroupFailure *ret_failure) {
        bool is_watched = shared->limits.pids != CGROUP_UNLIMITED;
        int r;

        if (shared->state == CGROUP_SHARED_WRITTEN && limits_equal(&shared->limits, limits))
                return 0;
        shared->state = CGROUP_SHARED_FAILED;
        shared->limits = *limits;
        r = cgroup_limits_write(shared->fd, path, limits, tree->controllers, CGROUP_LIMITS_LIFT,
                                ret_failure);
        if (r != 0)
                return r;
        shared->state = CGROUP_SHARED_WRITTEN;
        if (!is_watched && limits->pids != CGROUP_UNLIMITED)
                cgroup_watch_shared(tree, shared);
        return 0;
}

/* Name below jobs/. */
static const char *below_jobs(const char *path) {
        return path + sizeof(CGROUP_JOBS);
}

/* Also anew, for one whose folder somebody has removed: crates that were in it keep it. */
static int tenant_make(CgroupTree *tree, CgroupTenant *tenant, CgroupFailure *ret_failure) {
        int r;

        cgroup_shared_done(&tenant->shared);
        tenant->shared = CGROUP_SHARED_NULL;
        r = cgroup_dir_make(tree->jobs.fd, below_jobs(tenant->path), O_RDONLY, &tenant->shared.fd);
        if (r < 0)
                return cgroup_fail(ret_failure, -r, tenant->path, "", NULL, NULL);
        r = cgroup_enable(tenant->shared.fd, tree->controllers);
        if (r < 0)
                return cgroup_fail(ret_failure, -r, tenant->path, "cgroup.subtree_control",
                                   "the controllers", NULL);
        tenant->is_made = true;
        return 0;
}

static int tenant_new(CgroupTree *tree, uint32_t number, CgroupTenant **ret_tenant) {
        CgroupTenant *tenant;

        tenant = calloc(1, sizeof(CgroupTenant));
        if (!tenant)
                return error_origin(-ENOMEM);
        tenant->number = number;
        tenant->shared = CGROUP_SHARED_NULL;
        (void) snprintf(tenant->path, sizeof(tenant->path), CGROUP_JOBS "/t-%" PRIu32, number);
        LIST_INSERT_HEAD(&tree->tenants, tenant, entry);
        *ret_tenant = tenant;
        return 0;
}

static CgroupTenant *tenant_find(CgroupTree *tree, uint32_t number) {
        CgroupTenant *tenant;

        LIST_FOREACH (tenant, &tree->tenants, entry)
                if (tenant->number == number)
                        return tenant;
        return NULL;
}

static bool tenant_is_there(const CgroupTree *tree, const CgroupTenant *tenant) {
        return tenant->is_made && faccessat(tree->jobs.fd, below_jobs(tenant->path), F_OK, 0) >= 0;
}

static int tenant_get(CgroupTree *tree, const CgroupCrateSpec *spec, CgroupTenant **ret_tenant,
                      CgroupFailure *ret_failure) {
        CgroupTenant *tenant = tenant_find(tree, spec->tenant);
        int r = 0;

        if (!tenant)
                r = tenant_new(tree, spec->tenant, &tenant);
        if (r == 0 && !tenant_is_there(tree, tenant)) {
                tenant->is_made = false;
                r = tenant_make(tree, tenant, ret_failure);
        }
        /* Where nobody has ever asked for any there are none. */
        if (r == 0 && (spec->tenant_limits || tenant->shared.state != CGROUP_SHARED_UNWRITTEN))
                r = cgroup_shared_set(tree, &tenant->shared, tenant->path,
                                      spec->tenant_limits ?: &CGROUP_LIMITS_NONE, ret_failure);
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        *ret_tenant = tenant;
        return 0;
}

int cgroup_tenant_set_limits(CgroupTree *tree, uint32_t number, const CgroupLimits *limits,
                             CgroupFailure *ret_failure) {
        CgroupTenant *tenant = tenant_find(tree, number);

        if (!tenant || !tenant_is_there(tree, tenant))
                return 0;
        return cgroup_shared_set(tree, &tenant->shared, tenant->path, limits, ret_failure);
}

/* --- crates --- */

static void crate_close(CgroupCrate *crate) {
        cgroup_watch_done(&crate->watch);
        crate->fd = fd_close(crate->fd);
        crate->init_fd = fd_close(crate->init_fd);
        crate->exec_fd = fd_close(crate->exec_fd);
}

static int crate_remove(CgroupCrate *crate) {
        return cgroup_remove(crate->tree->jobs.fd, below_jobs(crate->path));
}

static int crate_make_dirs(CgroupCrate *crate, CgroupFailure *ret_failure) {
        CgroupTree *tree = crate->tree;
        const char *file = "";
        int r;

        if (mkdirat(tree->jobs.fd, below_jobs(crate->path), 0755) < 0)
                return cgroup_fail(ret_failure, errno, crate->path, "", NULL, NULL);
        r = cgroup_dir_open(tree->jobs.fd, below_jobs(crate->path), O_RDONLY, &crate->fd);
        if (r == 0) {
                file = "cgroup.subtree_control";
                r = cgroup_enable(crate->fd, tree->controllers);
        }
        if (r == 0) {
                file = "init";
                r = cgroup_dir_make(crate->fd, file, O_PATH, &crate->init_fd);
        }
        if (r == 0) {
                file = JOB_LEAF;
                r = cgroup_dir_make(crate->fd, file, O_PATH, &crate->exec_fd);
        }
        if (r < 0)
                return cgroup_fail(ret_failure, -r, crate->path, file, NULL, NULL);

        /* Init has an id of its own and clones the job from init/ to the leaf, for which it must be
         * able to write to the leaf and to what both have in common. It is handed these fds, and
         * nobody else of its id can come here: the way down is closed to it. */
        if (fchmodat(crate->fd, "cgroup.procs", 0666, 0) < 0 ||
            fchmodat(crate->fd, JOB_LEAF "/cgroup.procs", 0666, 0) < 0)
                return cgroup_fail(ret_failure, errno, crate->path, "cgroup.procs", NULL, NULL);
        return 0;
}

static int crate_write_limits(CgroupCrate *crate, const CgroupLimits *limits,
                              CgroupFailure *ret_failure) {
        crate->limits = *limits;
        if (crate->limits.pids <= CGROUP_PIDS_MAX)
                crate->limits.pids += CGROUP_INIT_PIDS;
        return cgroup_limits_write(crate->fd, crate->path, &crate->limits, crate->tree->controllers,
                                   0, ret_failure);
}

int cgroup_crate_set_job_limits(CgroupCrate *crate, const CgroupLimits *limits,
                                CgroupFailure *ret_failure) {
        char path[CGROUP_PATH_SIZE + sizeof(JOB_LEAF)];

        (void) snprintf(path, sizeof(path), "%s/" JOB_LEAF, crate->path);
        crate->job_limits = *limits;
        return cgroup_limits_write(crate->exec_fd, path, limits, crate->tree->controllers,
                                   CGROUP_LIMITS_JOB, ret_failure);
}

bool cgroup_crate_has_weight(const CgroupCrate *crate) {
        return crate->tree->controllers & CGROUP_CPU;
}

int cgroup_crate_set_weight(CgroupCrate *crate, unsigned weight) {
        char text[12];

        (void) snprintf(text, sizeof(text), "%u", weight);
        return error_trace(cgroup_file_write(crate->fd, "cpu.weight", text));
}

static int crate_set_up(CgroupCrate *crate, const CgroupCrateSpec *spec,
                        CgroupFailure *ret_failure) {
        CgroupTree *tree = crate->tree;
        int r = 0;

        /* What was not taken before may be now; with less nothing runs. */
        if (tree->jobs.state == CGROUP_SHARED_FAILED)
                r = cgroup_tree_set_limits(tree, &tree->jobs.limits, ret_failure);
        if (r == 0)
                r = tenant_get(tree, spec, &crate->tenant, ret_failure);
        if (r != 0)
                return r;
        r = crate_make_dirs(crate, ret_failure);
        if (r == 0 && spec->crate_limits)
                r = crate_write_limits(crate, spec->crate_limits, ret_failure);
        if (r == 0 && spec->job_limits)
                r = cgroup_crate_set_job_limits(crate, spec->job_limits, ret_failure);
        if (r == 0)
                r = cgroup_watch_start(crate, ret_failure);
        return r;
}

int cgroup_crate_make(CgroupTree *tree, const CgroupCrateSpec *spec, CgroupCrate **ret_crate,
                      CgroupFailure *ret_failure) {
        _cleanup_(cgroup_crate_freep) CgroupCrate *crate = NULL;
        uint64_t id;
        int r;

        (void) cgroup_tree_sweep(tree);
        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return error_origin(negative_errno());

        crate = calloc(1, sizeof(CgroupCrate));
        if (!crate)
                return error_origin(-ENOMEM);
        crate->tree = tree;
        crate->fd = crate->init_fd = crate->exec_fd = -EBADF;
        crate->limits = crate->job_limits = CGROUP_LIMITS_NONE;
        cgroup_watch_init(&crate->watch);
        (void) snprintf(crate->path, sizeof(crate->path),
                        CGROUP_JOBS "/t-%" PRIu32 "/c-%016" PRIx64, spec->tenant, id);
        LIST_INSERT_HEAD(&tree->crates, crate, entry);

        r = crate_set_up(crate, spec, ret_failure);
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        *ret_crate = TAKE_PTR(crate);
        return 0;
}

int cgroup_crate_new(CgroupTree *tree, CgroupCrate **ret_crate) {
        CgroupFailure failure;
        int r;

        r = cgroup_crate_make(tree, &(CgroupCrateSpec){}, ret_crate, &failure);
        return r == CGROUP_E_FAILED ? error_origin(-(failure.error ?: EIO)) : error_trace(r);
}

/* A scope that is empty goes with all that is in it: what is not there is dead. */
static int kill_all(int dir) {
        int r;

        r = cgroup_file_write(dir, "cgroup.kill", "1");
        return r == -ENOENT || r == -ENODEV ? 0 : error_trace(r);
}

int cgroup_crate_kill(CgroupCrate *crate) {
        return kill_all(crate->fd);
}

int cgroup_crate_kill_job(CgroupCrate *crate) {
        return kill_all(crate->exec_fd);
}

CgroupCrate *cgroup_crate_free(CgroupCrate *crate) {
        if (!crate)
                return NULL;

        /* After a kill nothing can come to life in it any more. */
        if (crate->fd >= 0)
                (void) cgroup_crate_kill(crate);
        LIST_REMOVE(crate, entry);
        crate_close(crate);
        if (crate->tree->is_left || crate_remove(crate) == 0)
                free(crate);
        else
                LIST_INSERT_HEAD(&crate->tree->dying, crate, entry);
        return NULL;
}

int cgroup_crate_init_fd(const CgroupCrate *crate) {
        return crate->init_fd;
}

int cgroup_crate_exec_fd(const CgroupCrate *crate) {
        return crate->exec_fd;
}

const char *cgroup_crate_path(const CgroupCrate *crate) {
        return crate->path;
}

/* --- what could not be removed at once --- */

size_t cgroup_tree_sweep(CgroupTree *tree) {
        CgroupCrate *crate = LIST_FIRST(&tree->dying), *next;
        size_t n = 0;

        for (; crate; crate = next) {
                next = LIST_NEXT(crate, entry);
                if (crate_remove(crate) < 0) {
                        n++;
                        continue;
                }
                LIST_REMOVE(crate, entry);
                free(crate);
        }
        return n;
}
