/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/parent.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/cgroups.h"
#include "broker/log.h"

/* How long the parent may take to be ready. */
#define PARENT_READY_USEC (10 * USEC_PER_SEC)

struct Parent {
        Manager *manager;
        LauncherParent *link;
        sd_event_source *source, *timer;
        CgroupsAsk *ask;
        ParentCallback on_ready;
        bool is_service;
        bool is_ready;
};

/* --- failures --- */

static int log_crate_error(const CrateError *error) {
        log_error("%s%s%s", error->text ?: "the launchers cannot be started",
                  error->remedy ? "; " : "", error->remedy ?: "");
        return PARENT_E_FAILED;
}

/* A limit that the cgroup file system does not take is no reason to go on with less. */
static int log_cgroup_failure(const CgroupFailure *failure) {
        _cleanup_(freep) char *text = cgroup_failure_format(failure);

        log_error("the ceilings of all jobs cannot be set: %s", text ?: "out of memory");
        return PARENT_E_FAILED;
}

/* --- cgroups --- */

static void parent_decide_limits(Parent *parent) {
        Manager *manager = parent->manager;
        const Config *config = &manager->policy->config;

        if (!manager->cgroups)
                log_notice("crates have no cgroups of their own: %s; jobs run without",
                           manager->cgroups_reason ?: "no reason known");
        manager->limits_host = (LimitsHost){
                .cgroups = manager->cgroups,
                .reason = manager->cgroups_reason,
                /* Of the machine's broker's crates only root sees the processes. */
                .can_sample = !parent->is_service || geteuid() == 0,
                .enforce = config->enforce_given ? config->enforce
                           : parent->is_service  ? ENFORCE_STRICT
                                                 : ENFORCE_SAMPLED,
        };
}

static int parent_take_jobs(Parent *parent) {
        Manager *manager = parent->manager;
        int fd = launcher_parent_take_jobs_fd(parent->link);
        int r;

        if (fd < 0) {
                manager->cgroups_reason = strdup("the launcher service was delegated none");
                return 0;
        }
        r = cgroup_tree_new_service(fd, &manager->cgroups, &manager->cgroups_reason);
        return r < 0 ? error_trace(r) : 0;
}

static int parent_enable(Parent *parent) {
        Manager *manager = parent->manager;
        const Limits *ceilings = &manager->policy->config.instance.limits;
        CgroupLimits instance;
        CgroupFailure failure;
        int r;

        if (parent->is_service) {
                r = parent_take_jobs(parent);
                if (r < 0)
                        return error_trace(r);
        }
        if (manager->cgroups) {
                r = cgroup_tree_enable(manager->cgroups, NULL, &failure);
                if (r == 0) {
                        instance = limits_of_ceilings(ceilings,
                                                      cgroup_tree_controllers(manager->cgroups));
                        r = cgroup_tree_enable(manager->cgroups, &instance, &failure);
                }
                if (r != 0)
                        return r < 0 ? error_trace(r) : log_cgroup_failure(&failure);
        }
        parent_decide_limits(parent);
        return 0;
}

/* --- the link --- */

/* A host on which no crate can be made: whoever asks for one is told the cause and the remedy,
 * which a broker that ends could not tell him. */
static int parent_serve_refusals(Parent *parent) {
        int r;

        parent->is_ready = true;
        (void) sd_event_source_set_enabled(parent->timer, SD_EVENT_OFF);
        parent_decide_limits(parent);
        r = parent->on_ready(parent->manager);
        return r == 0 ? 0 : sd_event_exit(parent->manager->event, EXIT_FAILURE);
}

/* Nothing can be made any more, and what runs has lost its launcher: the next start is a clean
 * one. */
static int parent_lose(Parent *parent) {
        (void) log_crate_error(launcher_parent_get_error(parent->link));
        (void) sd_event_source_set_enabled(parent->source, SD_EVENT_OFF);
        if (parent->is_ready)
                return manager_fail(parent->manager);
        return !parent->is_service && launcher_parent_has_refused(parent->link)
                       ? parent_serve_refusals(parent)
                       : sd_event_exit(parent->manager->event, EXIT_FAILURE);
}

static int on_parent(sd_event_source *source _unused_, int fd _unused_, uint32_t events _unused_,
                     void *userdata) {
        Parent *parent = userdata;
        int r;

        r = launcher_parent_dispatch(parent->link);
        if (r == LAUNCHER_PARENT_E_FAILED)
                return parent_lose(parent);
        if (parent->is_ready || !launcher_parent_is_ready(parent->link))
                return 0;
        parent->is_ready = true;
        (void) sd_event_source_set_enabled(parent->timer, SD_EVENT_OFF);
        r = parent_enable(parent);
        if (r == 0)
                r = parent->on_ready(parent->manager);
        if (r < 0)
                (void) log_errno(r, "the launchers cannot be started");
        return r == 0 ? 0 : sd_event_exit(parent->manager->event, EXIT_FAILURE);
}

/* It has a few system calls to make. */
static int on_late(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Parent *parent = userdata;

        log_error("the parent of the launchers does not answer; see whether %s",
                  parent->is_service ? "agentcrate-launcher.service is well"
                                     : "agentcrate-launcher is the program that was installed");
        return sd_event_exit(parent->manager->event, EXIT_FAILURE);
}

static int parent_begin(Parent *parent) {
        int r;

        r = sd_event_add_time_relative(parent->manager->event, &parent->timer, CLOCK_MONOTONIC,
                                       PARENT_READY_USEC, 0, on_late, parent);
        if (r < 0)
                return error_origin(r);
        return error_trace(launcher_parent_begin(parent->link, parent->manager->cgroups));
}

static void on_cgroups(CgroupTree *tree, const char *reason, void *userdata) {
        Parent *parent = userdata;
        Manager *manager = parent->manager;

        manager->cgroups = tree;
        if (!tree) {
                free(manager->cgroups_reason);
                manager->cgroups_reason = reason ? strdup(reason) : NULL;
        }
        if (parent_begin(parent) < 0)
                (void) sd_event_exit(manager->event, EXIT_FAILURE);
}

/* --- start and end --- */

/* The own unit's cgroups must be taken before there is a child, which would begin in them. */
static int parent_spawn(Parent *parent, CrateError *ret_error) {
        Manager *manager = parent->manager;
        int r;

        r = cgroup_tree_new_own(&manager->cgroups, &manager->cgroups_reason);
        if (r < 0)
                return error_trace(r);
        return launcher_parent_spawn(NULL, &parent->link, ret_error);
}

static int parent_open(Parent *parent, const char *launcher_path) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        Manager *manager = parent->manager;
        int r;

        r = launcher_path ? launcher_parent_connect(launcher_path, &parent->link, &error)
                          : parent_spawn(parent, &error);
        if (r != 0)
                return r < 0 ? error_trace(r) : log_crate_error(&error);
        r = sd_event_add_io(manager->event, &parent->source, launcher_parent_get_fd(parent->link),
                            EPOLLIN, on_parent, parent);
        if (r < 0)
                return error_origin(r);
        if (parent->is_service || manager->cgroups)
                return parent_begin(parent);
        return error_trace(cgroups_ask(manager->event, launcher_parent_get_pid(parent->link),
                                       on_cgroups, parent, &parent->ask));
}

int parent_start(Manager *manager, const char *launcher_path, ParentCallback on_ready,
                 Parent **ret_parent) {
        _cleanup_(parent_freep) Parent *parent = NULL;
        int r;

        parent = calloc(1, sizeof(*parent));
        if (!parent)
                return error_origin(-ENOMEM);
        *parent = (Parent){
                .manager = manager, .on_ready = on_ready, .is_service = launcher_path != NULL};
        r = parent_open(parent, launcher_path);
        if (r != 0)
                return r;
        *ret_parent = TAKE_PTR(parent);
        return 0;
}

Parent *parent_free(Parent *parent) {
        if (!parent)
                return NULL;

        cgroups_ask_free(parent->ask);
        sd_event_source_disable_unref(parent->source);
        sd_event_source_disable_unref(parent->timer);
        launcher_parent_free(parent->link);
        free(parent);
        return NULL;
}

int parent_fork(Parent *parent, Launcher **ret_launcher, CrateError *ret_error) {
        return launcher_parent_fork(parent->link, ret_launcher, ret_error);
}

void parent_get_subuids(const Parent *parent, uint64_t *ret_base, uint64_t *ret_count) {
        const Config *config = &parent->manager->policy->config;

        if (launcher_parent_get_subuids(parent->link, ret_base, ret_count))
                return;
        *ret_base = config->subuid_base;
        *ret_count = config->subuid_count;
}
