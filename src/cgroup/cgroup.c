/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-limits.h"
#include "cgroup/cgroup-text.h"

/* How long the end waits for what is dying. */
#define CGROUP_END_USEC (2 * USEC_PER_SEC)
#define CHANGES_SIZE 64U
#define JOB_LEAF "exec-1"

/* --- controllers --- */

/* "+cpu +memory …" */
static void format_changes(unsigned controllers, char *out, size_t size) {
        size_t used = 0;

        *out = 0;
        for (unsigned bit = 1; bit & _CGROUP_ALL; bit <<= 1)
                if (controllers & bit)
                        used += (size_t) snprintf(
                                out + used, size - used, "%s+%s", used > 0 ? " " : "",
                                cgroup_controller_to_string((CgroupController) bit));
}

static int enable(int dir, unsigned controllers) {
        char changes[CHANGES_SIZE];

        if (controllers == 0)
                return 0;
        format_changes(controllers, changes, sizeof(changes));
        return cgroup_file_write(dir, "cgroup.subtree_control", changes);
}

static unsigned read_controllers(int dir, const char *name) {
        char text[CGROUP_FILE_SIZE];

        return cgroup_file_read(dir, name, text, sizeof(text)) < 0 ? 0
                                                                   : cgroup_text_controllers(text);
}

static int controller_index(unsigned controller) {
        return __builtin_ctz(controller);
}

static int set_missing(CgroupTree *tree, unsigned controller, const char *format, ...)
        _printf_(3, 4);
static int set_missing(CgroupTree *tree, unsigned controller, const char *format, ...) {
        char **reason = &tree->missing[controller_index(controller)];
        va_list args;
        int n;

        va_start(args, format);
        free(*reason);
        n = vasprintf(reason, format, args);
        va_end(args);
        if (n >= 0)
                return 0;
        *reason = NULL;
        return error_origin(-ENOMEM);
}

/* Why the root was not given it. */
static int explain_absent(CgroupTree *tree, unsigned controller, const char *v1_text) {
        const char *name = cgroup_controller_to_string((CgroupController) controller);
        CgroupTextV1 v1;

        if (cgroup_text_v1(v1_text, controller == CGROUP_IO ? "blkio" : name, &v1) == 0) {
                if (v1.hierarchy != 0)
                        return set_missing(tree, controller,
                                           "a cgroup v1 hierarchy holds it; boot with "
                                           "systemd.unified_cgroup_hierarchy=1");
                if (v1.enabled == 0)
                        return set_missing(tree, controller,
                                           "it is switched off on the kernel's command line");
        }
        if (tree->source == CGROUP_SOURCE_SCOPE && geteuid() != 0)
                return set_missing(tree, controller,
                                   "the user's service manager was not given it; add "
                                   "Delegate=cpu io memory pids to user@.service");
        return set_missing(tree, controller, "the cgroups above do not pass it on");
}

/* Enables what it can, one by one if it must, and says of the rest why. */
static int enable_possible(CgroupTree *tree, int dir, const char *name, unsigned *controllers) {
        unsigned have, wanted = *controllers;
        int r;

        have = read_controllers(dir, "cgroup.subtree_control") & wanted;
        if (have == wanted || enable(dir, wanted & ~have) == 0)
                return 0;
        for (unsigned bit = 1; bit & _CGROUP_ALL; bit <<= 1) {
                if (!(wanted & ~have & bit))
                        continue;
                r = enable(dir, bit);
                if (r == 0)
                        continue;
                *controllers &= ~bit;
                r = set_missing(tree, bit, "it cannot be enabled in %s: %s (%s)", name,
                                r == -EBUSY ? "processes sit there" : strerrordesc_np(-r) ?: "?",
                                strerrorname_np(-r) ?: "?");
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int find_absent(CgroupTree *tree, unsigned have) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r = 0;

        if (have == _CGROUP_ALL)
                return 0;
        (void) cgroup_file_read_all(AT_FDCWD, "/proc/cgroups", &text);
        for (unsigned bit = 1; r == 0 && (bit & _CGROUP_ALL); bit <<= 1)
                if (!(have & bit))
                        r = explain_absent(tree, bit, text.data ?: "");
        return r;
}

int cgroup_tree_enable(CgroupTree *tree, const CgroupLimits *instance, CgroupFailure *ret_failure) {
        int top = tree->root_fd >= 0 ? tree->root_fd : tree->jobs.fd;
        unsigned controllers;
        int r;

        controllers = read_controllers(top, "cgroup.controllers");
        r = find_absent(tree, controllers);
        if (r == 0 && tree->root_fd >= 0)
                r = enable_possible(tree, tree->root_fd, "the root of our cgroups", &controllers);
        if (r == 0)
                r = enable_possible(tree, tree->jobs.fd, CGROUP_JOBS, &controllers);
        if (r < 0)
                return error_trace(r);

        tree->controllers = controllers;
        if (!instance)
                return 0;
        tree->jobs.limits = *instance;
        return cgroup_limits_write(tree->jobs.fd, CGROUP_JOBS, instance, controllers, false,
                                   ret_failure);
}

unsigned cgroup_tree_controllers(const CgroupTree *tree) {
        return tree->controllers;
}

const char *cgroup_tree_missing(const CgroupTree *tree, CgroupController controller) {
        if (tree->controllers & controller)
                return NULL;
        return tree->missing[controller_index(controller)] ?: "it was not enabled";
}

/* --- tenants --- */

static CgroupTenant *tenant_free(CgroupTenant *tenant) {
        cgroup_shared_done(&tenant->shared);
        free(tenant);
        return NULL;
}
DEFINE_CLEANUP(CgroupTenant, tenant_free);

static bool limits_equal(const CgroupLimits *a, const CgroupLimits *b) {
        return a->memory == b->memory && a->pids == b->pids && a->cpus == b->cpus &&
               a->io_read_bps == b->io_read_bps && a->io_write_bps == b->io_write_bps;
}

/* Name below jobs/. */
static const char *below_jobs(const char *path) {
        return path + sizeof(CGROUP_JOBS);
}

static int tenant_new(CgroupTree *tree, uint32_t number, const CgroupLimits *limits,
                      CgroupTenant **ret_tenant, CgroupFailure *ret_failure) {
        _cleanup_(tenant_freep) CgroupTenant *tenant = NULL;
        int r;

        tenant = calloc(1, sizeof(CgroupTenant));
        if (!tenant)
                return error_origin(-ENOMEM);
        tenant->number = number;
        tenant->shared = CGROUP_SHARED_NULL;
        tenant->shared.limits = *limits;
        (void) snprintf(tenant->path, sizeof(tenant->path), CGROUP_JOBS "/t-%" PRIu32, number);

        r = cgroup_dir_make(tree->jobs.fd, below_jobs(tenant->path), O_RDONLY, &tenant->shared.fd);
        if (r < 0)
                return cgroup_fail(ret_failure, -r, tenant->path, "", NULL, NULL);
        r = enable(tenant->shared.fd, tree->controllers);
        if (r < 0)
                return cgroup_fail(ret_failure, -r, tenant->path, "cgroup.subtree_control",
                                   "the controllers", NULL);
        r = cgroup_limits_write(tenant->shared.fd, tenant->path, limits, tree->controllers, false,
                                ret_failure);
        if (r != 0)
                return r;
        LIST_INSERT_HEAD(&tree->tenants, tenant, entry);
        *ret_tenant = TAKE_PTR(tenant);
        return 0;
}

static int tenant_get(CgroupTree *tree, const CgroupCrateSpec *spec, CgroupTenant **ret_tenant,
                      CgroupFailure *ret_failure) {
        const CgroupLimits *limits = spec->tenant_limits ?: &CGROUP_LIMITS_NONE;
        CgroupTenant *tenant;

        LIST_FOREACH (tenant, &tree->tenants, entry) {
                if (tenant->number != spec->tenant)
                        continue;
                if (!limits_equal(&tenant->shared.limits, limits))
                        return cgroup_fail(ret_failure, EINVAL, tenant->path, "",
                                           "limits other than before", NULL);
                *ret_tenant = tenant;
                return 0;
        }
        return tenant_new(tree, spec->tenant, limits, ret_tenant, ret_failure);
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
                r = enable(crate->fd, tree->controllers);
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
                                   false, ret_failure);
}

int cgroup_crate_set_job_limits(CgroupCrate *crate, const CgroupLimits *limits,
                                CgroupFailure *ret_failure) {
        char path[CGROUP_PATH_SIZE + sizeof(JOB_LEAF)];

        (void) snprintf(path, sizeof(path), "%s/" JOB_LEAF, crate->path);
        crate->job_limits = *limits;
        return cgroup_limits_write(crate->exec_fd, path, limits, crate->tree->controllers, true,
                                   ret_failure);
}

static int crate_set_up(CgroupCrate *crate, const CgroupCrateSpec *spec,
                        CgroupFailure *ret_failure) {
        int r;

        r = tenant_get(crate->tree, spec, &crate->tenant, ret_failure);
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

/* --- the tree --- */

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

CgroupSource cgroup_tree_source(const CgroupTree *tree) {
        return tree->source;
}

int cgroup_tree_root_fd(const CgroupTree *tree) {
        return tree->root_fd;
}

int cgroup_tree_launcher_fd(const CgroupTree *tree) {
        return tree->launcher_fd;
}

void cgroup_tree_leave(CgroupTree *tree) {
        tree->is_left = tree->source == CGROUP_SOURCE_SCOPE;
}

static void tree_drop_crates(CgroupTree *tree, uint64_t end_usec) {
        while (cgroup_tree_sweep(tree) > 0 && now_usec() < end_usec)
                cgroup_wait_empty(tree->jobs.fd, end_usec);
        while (!LIST_EMPTY(&tree->dying)) {
                CgroupCrate *crate = LIST_FIRST(&tree->dying);

                LIST_REMOVE(crate, entry);
                free(crate);
        }
        while (!LIST_EMPTY(&tree->tenants)) {
                CgroupTenant *tenant = LIST_FIRST(&tree->tenants);

                LIST_REMOVE(tenant, entry);
                (void) tenant_free(tenant);
        }
}

/* Those of earlier owners too. */
static int remove_tenant(int jobs_fd, const char *name, void *userdata _unused_) {
        (void) unlinkat(jobs_fd, name, AT_REMOVEDIR);
        return 0;
}

static void tree_remove_root(CgroupTree *tree, uint64_t end_usec) {
        if (tree->parent_fd < 0 || tree->root_fd < 0)
                return;
        if (cgroup_kill_and_remove(tree->parent_fd, tree->name) == 0)
                return;
        cgroup_wait_empty(tree->root_fd, end_usec);
        (void) cgroup_remove(tree->parent_fd, tree->name);
}

CgroupTree *cgroup_tree_free(CgroupTree *tree) {
        uint64_t end_usec = now_usec() + CGROUP_END_USEC;

        if (!tree)
                return NULL;

        tree_drop_crates(tree, end_usec);
        if (tree->jobs.fd >= 0 && !tree->is_left)
                (void) cgroup_each_child(tree->jobs.fd, "t-", remove_tenant, NULL);
        cgroup_shared_done(&tree->jobs);
        tree->launcher_fd = fd_close(tree->launcher_fd);
        tree_remove_root(tree, end_usec);
        fd_close(tree->root_fd);
        fd_close(tree->parent_fd);
        for (size_t i = 0; i < ELEMENTSOF(tree->missing); i++)
                free(tree->missing[i]);
        free(tree);
        return NULL;
}
