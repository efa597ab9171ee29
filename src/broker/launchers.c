/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/launchers.h"

#include <sys/epoll.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/log.h"
#include "broker/parent.h"
#include "crate/build.h"

/* Net namespaces that a launcher keeps ready. */
#define NET_STOCK 8U
#define PAUSE_MIN_USEC (200 * USEC_PER_MSEC)
#define PAUSE_MAX_USEC (30 * USEC_PER_SEC)

/* What stays of a template's launcher when it is replaced. */
struct LauncherUnit {
        LIST_ENTRY(LauncherUnit) entry;
        Manager *manager;
        char *name;
        const Template *template; /* of the policy in force; NULL: it is gone */
        LauncherRun *run;         /* NULL: none runs */
        uint64_t pause_usec;      /* 0: the last one worked */
        uint64_t not_before;      /* monotonic */
        CrateError error;         /* of the last failure */
};

struct LauncherRun {
        LauncherUnit *unit;
        Launcher *launcher;
        sd_event_source *source;
        char tree_digest[PLAN_DIGEST_SIZE];
        size_t n_refs; /* crates, and the unit while it is the current one */
};

LauncherRun *launcher_run_unref(LauncherRun *run) {
        if (!run || --run->n_refs > 0)
                return NULL;

        sd_event_source_disable_unref(run->source);
        launcher_free(run->launcher);
        free(run);
        return NULL;
}
DEFINE_CLEANUP(LauncherRun, launcher_run_unref);

Launcher *launcher_run_launcher(LauncherRun *run) {
        return run->launcher;
}

/* Moves an error; the text is what is shown. */
static void unit_set_error(LauncherUnit *unit, CrateError *error) {
        crate_error_done(&unit->error);
        unit->error = *error;
        *error = CRATE_ERROR_NULL;
        log_error("template %s: %s%s%s", unit->name, unit->error.text ?: "its launcher failed",
                  unit->error.remedy ? "; " : "", unit->error.remedy ?: "");
}

static int error_copy(const CrateError *from, CrateError *to) {
        return error_trace(crate_error_set(to, from->step ?: "launcher", from->error, from->path,
                                           from->remedy, "%s",
                                           from->text ?: "the launcher of this template failed"));
}

static void unit_set_pause(LauncherUnit *unit) {
        if (unit->pause_usec == 0)
                unit->pause_usec = PAUSE_MIN_USEC;
        else if (unit->pause_usec < PAUSE_MAX_USEC)
                unit->pause_usec *= 2;
        unit->not_before = now_usec() + unit->pause_usec;
}

static void unit_drop_run(LauncherUnit *unit) {
        LauncherRun *run = TAKE_PTR(unit->run);

        if (run)
                (void) sd_event_source_set_enabled(run->source, SD_EVENT_OFF);
        launcher_run_unref(run);
}

static int unit_start(LauncherUnit *unit, CrateError *ret_error);

static int on_launcher(sd_event_source *source _unused_, int fd _unused_, uint32_t events _unused_,
                       void *userdata) {
        LauncherRun *run = userdata;
        LauncherUnit *unit = run->unit;
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        bool worked;
        int r;

        r = launcher_dispatch(run->launcher);
        /* A crate that is gone leaves a cgroup that can be removed now. */
        if (unit->manager->cgroups)
                (void) cgroup_tree_sweep(unit->manager->cgroups);
        /* A replaced one only serves the crates that it has. */
        if (run != unit->run) {
                if (r != 0)
                        (void) sd_event_source_set_enabled(run->source, SD_EVENT_OFF);
                return 0;
        }
        worked = launcher_is_ready(run->launcher);
        if (r == 0) {
                if (worked)
                        unit->pause_usec = 0;
                return 0;
        }

        if (r == LAUNCHER_E_FAILED)
                (void) error_copy(launcher_get_error(run->launcher), &error);
        else
                (void) crate_error_set(&error, "launcher", -r, NULL, NULL,
                                       "the launcher of this template failed: %s",
                                       strerrordesc_np(-r));
        unit_set_error(unit, &error);
        unit_drop_run(unit);

        /* One that worked is replaced at once. */
        if (worked && unit->pause_usec == 0 && !unit->manager->stopping) {
                unit_set_pause(unit);
                if (unit_start(unit, &error) > 0)
                        unit_set_error(unit, &error);
        } else
                unit_set_pause(unit);
        return 0;
}

static int run_start(LauncherUnit *unit, LauncherRun *run, CrateError *ret_error) {
        _cleanup_(crate_plans_done) CratePlans plans = {};
        LauncherConfig launcher = {
                .net_stock = NET_STOCK,
        };
        CrateRequest request = {.template = unit->template};
        Limits limits;
        int r;

        limits_init(&limits);
        limits_merge(&limits, &unit->template->limits);
        crate_limits_lower(&limits);
        request.limits = &limits;
        r = crate_build_plans(&request, &plans, ret_error);
        if (r == CRATE_BUILD_E_INVALID)
                return LAUNCHERS_E_UNAVAILABLE;
        if (r != 0)
                return error_fold(r);

        launcher.tree = plans.tree;
        plan_digest((const CratePlan *const[]){plans.tree}, 1, run->tree_digest);
        parent_get_subuids(unit->manager->parent, &launcher.subuid_base, &launcher.subuid_count);
        r = parent_fork(unit->manager->parent, &run->launcher, ret_error);
        if (r == 0)
                r = launcher_set_up(run->launcher, &launcher, ret_error);
        if (r != 0)
                return r < 0 ? error_trace(r) : LAUNCHERS_E_UNAVAILABLE;

        return error_trace(sd_event_add_io(unit->manager->event, &run->source,
                                           launcher_get_fd(run->launcher), EPOLLIN, on_launcher,
                                           run));
}

static int unit_start(LauncherUnit *unit, CrateError *ret_error) {
        _cleanup_(launcher_run_unrefp) LauncherRun *run = NULL;
        int r;

        run = calloc(1, sizeof(LauncherRun));
        if (!run)
                return error_origin(-ENOMEM);

        run->unit = unit;
        run->n_refs = 1;
        r = run_start(unit, run, ret_error);
        if (r < 0)
                return error_trace(r);
        if (r > 0) {
                unit_set_pause(unit);
                return LAUNCHERS_E_UNAVAILABLE;
        }

        unit->run = TAKE_PTR(run);
        return 0;
}

static LauncherUnit *find_unit(Manager *manager, const char *name) {
        LauncherUnit *unit;

        LIST_FOREACH (unit, &manager->launchers, entry)
                if (string_equal(unit->name, name))
                        break;
        return unit;
}

static int unit_add(Manager *manager, const Template *template) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LauncherUnit *unit;
        int r;

        unit = calloc(1, sizeof(LauncherUnit));
        if (!unit)
                return error_origin(-ENOMEM);
        unit->name = strdup(template->name);
        if (!unit->name) {
                free(unit);
                return error_origin(-ENOMEM);
        }

        unit->manager = manager;
        unit->template = template;
        LIST_INSERT_HEAD(&manager->launchers, unit, entry);
        r = unit_start(unit, &error);
        if (r > 0)
                unit_set_error(unit, &error);
        return r < 0 ? error_trace(r) : 0;
}

int launchers_start(Manager *manager) {
        int r = 0;

        for (size_t i = 0; i < manager->policy->n_templates && r == 0; i++)
                r = unit_add(manager, manager->policy->templates[i]);
        return error_trace(r);
}

int launchers_reload(Manager *manager) {
        LauncherUnit *unit;
        int r = 0;

        /* What failed by the old template may work by the new one. A unit stays, for the crates of
         * its launcher, and should the template come back. */
        LIST_FOREACH (unit, &manager->launchers, entry) {
                unit->template = policy_find_template(manager->policy, unit->name);
                unit->pause_usec = unit->not_before = 0;
                if (!unit->template)
                        launcher_run_unref(TAKE_PTR(unit->run));
        }
        for (size_t i = 0; i < manager->policy->n_templates && r == 0; i++)
                if (!find_unit(manager, manager->policy->templates[i]->name))
                        r = unit_add(manager, manager->policy->templates[i]);
        return error_trace(r);
}

void launchers_stop(Manager *manager) {
        while (!LIST_EMPTY(&manager->launchers)) {
                LauncherUnit *unit = LIST_FIRST(&manager->launchers);

                LIST_REMOVE(unit, entry);
                unit_drop_run(unit);
                crate_error_done(&unit->error);
                free(unit->name);
                free(unit);
        }
}

/* Lets go of a launcher whose tree is not the host's any more; its crates keep it until they end.
 */
static void unit_retire_stale(LauncherUnit *unit, const CratePlan *tree) {
        char digest[PLAN_DIGEST_SIZE];

        plan_digest((const CratePlan *const[]){tree}, 1, digest);
        if (!unit->run || string_equal(unit->run->tree_digest, digest))
                return;
        log_notice("template %s: the host has changed what it shows, a new launcher is started",
                   unit->name);
        launcher_run_unref(TAKE_PTR(unit->run));
}

int launchers_get(Manager *manager, const Template *template, const CratePlan *tree,
                  LauncherRun **ret_run, CrateError *ret_error) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        LauncherUnit *unit;
        int r;

        unit = find_unit(manager, template->name);
        if (!unit || !unit->template)
                return error_origin(-ENOENT);

        unit_retire_stale(unit, tree);
        if (!unit->run && now_usec() >= unit->not_before) {
                r = unit_start(unit, &error);
                if (r < 0)
                        return error_trace(r);
                if (r > 0)
                        unit_set_error(unit, &error);
        }
        if (!unit->run) {
                r = error_copy(&unit->error, ret_error);
                return r < 0 ? error_trace(r) : LAUNCHERS_E_UNAVAILABLE;
        }

        unit->run->n_refs++;
        *ret_run = unit->run;
        return 0;
}
