/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-text.h"

/* How long the end waits for what is dying. */
#define CGROUP_END_USEC (2 * USEC_PER_SEC)
#define CGROUP_END_TRIES 5U
#define CGROUP_END_PAUSE_MSEC 10
#define CHANGES_SIZE 64U

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

int cgroup_enable(int dir, unsigned controllers) {
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
        if (have == wanted || cgroup_enable(dir, wanted & ~have) == 0)
                return 0;
        for (unsigned bit = 1; bit & _CGROUP_ALL; bit <<= 1) {
                if (!(wanted & ~have & bit))
                        continue;
                r = cgroup_enable(dir, bit);
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
        return instance ? cgroup_tree_set_limits(tree, instance, ret_failure) : 0;
}

int cgroup_tree_set_limits(CgroupTree *tree, const CgroupLimits *instance,
                           CgroupFailure *ret_failure) {
        return cgroup_shared_set(tree, &tree->jobs, CGROUP_JOBS, instance, ret_failure);
}

unsigned cgroup_tree_controllers(const CgroupTree *tree) {
        return tree->controllers;
}

const char *cgroup_tree_missing(const CgroupTree *tree, CgroupController controller) {
        if (tree->controllers & controller)
                return NULL;
        return tree->missing[controller_index(controller)] ?: "it was not enabled";
}

/* --- the tree --- */

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
        unsigned tries = 0;

        /* One that is empty and stays is held by something else than what lives in it. */
        while (cgroup_tree_sweep(tree) > 0 && now_usec() < end_usec && tries < CGROUP_END_TRIES)
                if (cgroup_wait_empty(tree->jobs.fd, end_usec)) {
                        tries++;
                        (void) poll(NULL, 0, CGROUP_END_PAUSE_MSEC);
                }
        while (!LIST_EMPTY(&tree->dying)) {
                CgroupCrate *crate = LIST_FIRST(&tree->dying);

                LIST_REMOVE(crate, entry);
                free(crate);
        }
        while (!LIST_EMPTY(&tree->tenants)) {
                CgroupTenant *tenant = LIST_FIRST(&tree->tenants);

                LIST_REMOVE(tenant, entry);
                (void) cgroup_tenant_free(tenant);
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
        (void) cgroup_wait_empty(tree->root_fd, end_usec);
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
