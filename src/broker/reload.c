/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/reload.h"

#include <sys/inotify.h>
#include <systemd/sd-daemon.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/authorize.h"
#include "broker/client.h"
#include "broker/launchers.h"
#include "broker/log.h"
#include "broker/metering.h"
#include "broker/supervise.h"

/* An editor writes a file in several steps, a package many files. */
#define QUIET_USEC (500 * USEC_PER_MSEC)
#define WATCH_EVENTS                                                                               \
        (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |        \
         IN_DELETE_SELF | IN_MOVE_SELF)

/* --- reading --- */

static void log_diags(const DiagList *diags, void (*log)(const char *format, ...)) {
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *text = diag_format(&diags->items[i]);

                log("%s", text ?: diags->items[i].text);
        }
        if (diags->n_dropped > 0)
                log("and %zu more", diags->n_dropped);
}

/* It may serve without: its tools tell why nothing can be run. */
static int warn_without_templates(const StrV *dirs) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = policy_explain_empty(dirs, &text);
        if (r < 0)
                return error_trace(r);
        log_warning("nothing can be run: %s", text);
        return 0;
}

/* Logs what was found. *ret_policy is set if the policy can be used. */
static int take_read(PolicyRead *read, Policy **ret_policy) {
        const Policy *policy = read->policy;
        int r = 0;

        log_diags(&read->diags, log_error);
        if (read->result != 0)
                return read->result == POLICY_E_INVALID ? RELOAD_E_INVALID
                                                        : error_fold(read->result);

        log_diags(&policy->warnings, log_warning);
        if (policy->n_templates == 0)
                r = warn_without_templates(&read->dirs);
        if (r < 0)
                return error_trace(r);
        if (policy->n_tenants == 0)
                log_warning("nobody may call anything: there is no tenant; see "
                            "agentcrate-tenant(5)");
        *ret_policy = TAKE_PTR(read->policy);
        return 0;
}

int reload_read(PolicyInstance instance, Policy **ret_policy) {
        _cleanup_(policy_read_done) PolicyRead read = {};

        policy_read_run(instance, &read);
        return take_read(&read, ret_policy);
}

/* --- taking its place --- */

bool reload_needs_restart(const Config *a, const Config *b) {
        return a->subuid_base != b->subuid_base || a->subuid_count != b->subuid_count ||
               !string_equal(a->audit_path, b->audit_path) || !string_equal(a->otlp, b->otlp) ||
               a->audit_fail_open != b->audit_fail_open || a->audit_payloads != b->audit_payloads ||
               a->enforce_given != b->enforce_given || a->enforce != b->enforce ||
               a->idle_usec != b->idle_usec || a->listen_metrics.port != b->listen_metrics.port ||
               a->listen_metrics.ipv6 != b->listen_metrics.ipv6;
}

/* Those who now see other tools than by the policy before; nobody is told of what stays. */
static int tell_of_tools(Manager *manager, const Policy *before, Catalogue *catalogue_before) {
        Client *client;

        LIST_FOREACH (client, &manager->clients, entry) {
                const Tools *old, *now;
                int r;

                r = catalogue_get(catalogue_before, authorize_tenant(before, &client->who), &old);
                if (r == 0)
                        r = catalogue_get(manager->catalogue,
                                          authorize_tenant(manager->policy, &client->who), &now);
                if (r < 0)
                        return error_trace(r);
                if (!tools_equal(old, now))
                        client_tell_tools_changed(client);
        }
        return 0;
}

static int use_policy(Manager *manager, Policy *policy) {
        _cleanup_(catalogue_freep) Catalogue *catalogue = NULL, *catalogue_before = NULL;
        _cleanup_(policy_freep) Policy *before = NULL;
        int r;

        r = catalogue_new(policy, &catalogue);
        if (r < 0)
                return error_trace(r);

        if (reload_needs_restart(&manager->policy->config, &policy->config))
                log_warning("agentcrated.json has changed in what is read only at the start: "
                            "restart the broker to use that");
        before = manager->policy;
        manager->policy = policy_ref(policy);
        catalogue_before = manager->catalogue;
        manager->catalogue = TAKE_PTR(catalogue);
        supervisors_reload(manager);
        r = metering_reload(manager);
        if (r == 0)
                r = launchers_reload(manager);
        if (r == 0)
                r = tell_of_tools(manager, before, catalogue_before);
        return error_trace(r);
}

static int use_read(Manager *manager, PolicyRead *read) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        int r;

        r = take_read(read, &policy);
        if (r == RELOAD_E_INVALID) {
                log_error("the configuration has faults and is not used: the one before stays in "
                          "force");
                return 0;
        }
        if (r < 0)
                return error_trace(r);
        if (string_equal(policy->digest, manager->policy->digest)) {
                log_notice("the configuration was read again and is the same");
                return 0;
        }
        r = use_policy(manager, policy);
        if (r == 0)
                log_notice("the configuration was read again and is in force: %s, %zu tenant%s, "
                           "%zu template%s",
                           policy->digest, policy->n_tenants, plural(policy->n_tenants),
                           policy->n_templates, plural(policy->n_templates));
        return error_trace(r);
}

static void on_read(PolicyRead *read, void *userdata) {
        Manager *manager = userdata;
        int r;

        if (manager->stopping)
                return;
        r = use_read(manager, read);
        if (r < 0)
                (void) log_errno(r, "the configuration could not be read again");
        (void) sd_notify(0, "READY=1\nSTATUS=Serving");
}

int reload_prepare(Manager *manager) {
        return error_trace(policy_reading_new(manager->event, on_read, manager, &manager->reading));
}

void reload_policy(Manager *manager) {
        if (manager->stopping)
                return;
        if (policy_reading_start(manager->reading, manager->policy->instance))
                (void) sd_notifyf(0,
                                  "RELOADING=1\nMONOTONIC_USEC=%llu\n"
                                  "STATUS=Reading the configuration",
                                  (unsigned long long) now_usec());
}

/* --- watching --- */

/* A folder of which one entry matters, or all that are configuration. */
typedef struct Watch {
        Reload *reload;
        sd_event_source *source;
        char *only; /* NULL: all */
} Watch;

struct Reload {
        Manager *manager;
        sd_event_source *timer;
        Watch **watches;
        size_t n_watches;
};

static Watch *watch_free(Watch *watch) {
        if (!watch)
                return NULL;

        sd_event_source_disable_unref(watch->source);
        free(watch->only);
        free(watch);
        return NULL;
}
DEFINE_CLEANUP(Watch, watch_free);

static void drop_watches(Reload *reload) {
        for (size_t i = 0; i < reload->n_watches; i++)
                watch_free(reload->watches[i]);
        free(reload->watches);
        reload->watches = NULL;
        reload->n_watches = 0;
}

Reload *reload_free(Reload *reload) {
        if (!reload)
                return NULL;

        drop_watches(reload);
        sd_event_source_disable_unref(reload->timer);
        free(reload);
        return NULL;
}

static bool matters(const Watch *watch, const struct inotify_event *event) {
        size_t n = event->len > 0 ? strlen(event->name) : 0;

        /* The folder itself has changed, or events were lost. */
        if (n == 0)
                return true;
        if (watch->only)
                return string_equal(event->name, watch->only);
        return string_equal(event->name, source_templates.name) ||
               string_equal(event->name, source_tenants.name) ||
               string_equal(event->name, source_credentials.name) ||
               (n > 5 && string_equal(event->name + n - 5, ".json"));
}

static int on_change(sd_event_source *source _unused_, const struct inotify_event *event,
                     void *userdata) {
        const Watch *watch = userdata;
        sd_event_source *timer = watch->reload->timer;
        int r;

        if (!matters(watch, event))
                return 0;
        r = sd_event_source_set_time_relative(timer, QUIET_USEC);
        if (r >= 0)
                r = sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_errno(r, "a change of the configuration was missed: send SIGHUP");
        return 0;
}

enum {
        _WATCH_E_SUCCESS,
        WATCH_E_MISSING, /* there is no such folder */
};

static int add_watch(Reload *reload, const char *path, const char *only) {
        _cleanup_(watch_freep) Watch *watch = NULL;
        Watch **watches;
        int r;

        watch = calloc(1, sizeof(Watch));
        watches = reallocarray(reload->watches, reload->n_watches + 1, sizeof(Watch *));
        if (watches)
                reload->watches = watches;
        if (!watch || !watches)
                return error_origin(-ENOMEM);

        watch->reload = reload;
        watch->only = only ? strdup(only) : NULL;
        if (only && !watch->only)
                return error_origin(-ENOMEM);
        r = sd_event_add_inotify(reload->manager->event, &watch->source, path,
                                 WATCH_EVENTS | IN_ONLYDIR, on_change, watch);
        if (r == -ENOENT || r == -ENOTDIR || r == -EACCES)
                return WATCH_E_MISSING;
        if (r < 0)
                return error_origin(r);
        watches[reload->n_watches++] = TAKE_PTR(watch);
        return 0;
}

/* What is not there yet is seen to come from the nearest folder above it that is. */
static int watch_above(Reload *reload, const char *path) {
        _cleanup_(freep) char *above = strdup(path);
        char *slash;
        int r = WATCH_E_MISSING;

        if (!above)
                return error_origin(-ENOMEM);
        while (r == WATCH_E_MISSING && (slash = strrchr(above, '/')) && slash[1]) {
                _cleanup_(freep) char *name = strdup(slash + 1);

                if (!name)
                        return error_origin(-ENOMEM);
                slash[slash == above ? 1 : 0] = 0;
                r = add_watch(reload, above, name);
        }
        return r < 0 ? error_trace(r) : 0;
}

static int watch_dir(Reload *reload, const char *dir) {
        const SourceFolder *const folders[] = {&source_templates, &source_tenants,
                                               &source_credentials};
        int r;

        r = add_watch(reload, dir, NULL);
        if (r == WATCH_E_MISSING)
                return error_trace(watch_above(reload, dir));
        for (size_t i = 0; i < ELEMENTSOF(folders) && r == 0; i++) {
                _cleanup_(freep) char *path = NULL;

                if (asprintf(&path, "%s/%s", dir, folders[i]->name) < 0) {
                        path = NULL;
                        return error_origin(-ENOMEM);
                }
                r = add_watch(reload, path, NULL);
                if (r == WATCH_E_MISSING)
                        r = 0;
        }
        return error_trace(r);
}

/* Folders come and go: all is set up anew. */
static int watch_all(Reload *reload) {
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        drop_watches(reload);
        r = policy_instance_dirs(reload->manager->policy->instance, &dirs);
        for (size_t i = 0; i < dirs.n_items && r == 0; i++)
                r = watch_dir(reload, dirs.items[i]);
        return error_trace(r);
}

static int on_quiet(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Reload *reload = userdata;
        int r;

        /* First, so that what changes while it is read is seen. */
        r = watch_all(reload);
        if (r < 0)
                (void) log_errno(r, "changes of the configuration are not seen any more: send "
                                    "SIGHUP");
        reload_policy(reload->manager);
        return 0;
}

int reload_watch(Manager *manager, Reload **ret_reload) {
        _cleanup_(reload_freep) Reload *reload = NULL;
        int r;

        reload = calloc(1, sizeof(Reload));
        if (!reload)
                return error_origin(-ENOMEM);
        reload->manager = manager;
        r = sd_event_add_time_relative(manager->event, &reload->timer, CLOCK_MONOTONIC, 0, 0,
                                       on_quiet, reload);
        if (r >= 0)
                r = sd_event_source_set_enabled(reload->timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        r = watch_all(reload);
        if (r < 0)
                return error_trace(r);
        *ret_reload = TAKE_PTR(reload);
        return 0;
}
