/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/manager.h"

#include <sys/epoll.h>
#include <systemd/sd-daemon.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/call.h"
#include "broker/client.h"
#include "broker/export.h"
#include "broker/http-client.h"
#include "broker/launchers.h"
#include "broker/listener.h"
#include "broker/log.h"
#include "broker/metering.h"
#include "broker/parent.h"
#include "broker/reload.h"

static bool clients_are_drained(const Manager *manager) {
        const Client *client;

        LIST_FOREACH (client, &manager->clients, entry)
                if (!client->gone && !client_is_drained(client))
                        return false;
        return true;
}

static bool manager_is_idle(const Manager *manager) {
        return manager->n_clients == 0 && manager->n_http_clients == 0 && manager->n_calls == 0;
}

static int on_idle(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Manager *manager = userdata;

        if (!manager_is_idle(manager))
                return 0;

        log_notice("nobody has been connected for a while: ending, a new connection starts it "
                   "again");
        return sd_event_exit(manager->event, 0);
}

static void manager_check_idle(Manager *manager) {
        bool idle = manager_is_idle(manager);

        if (!manager->idle_timer)
                return;
        if (idle)
                (void) sd_event_source_set_time_relative(manager->idle_timer, manager->idle_usec);
        (void) sd_event_source_set_enabled(manager->idle_timer,
                                           idle ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

void manager_check(Manager *manager) {
        if (!manager->stopping)
                manager_check_idle(manager);
        else if (manager->n_calls == 0 && clients_are_drained(manager) &&
                 (!manager->exporter || exporter_finish(manager->exporter)))
                (void) sd_event_exit(manager->event, 0);
}

/* The grace is over: what still runs is lost. After that nothing is waited for any longer. */
static int on_stop_timer(sd_event_source *source, uint64_t usec _unused_, void *userdata) {
        Manager *manager = userdata;
        Call *call;

        if (manager->losing)
                return sd_event_exit(manager->event, 0);

        manager->losing = true;
        if (manager->n_calls > 0)
                log_notice("%zu job%s did not end in time: lost", manager->n_calls,
                           plural(manager->n_calls));
        LIST_FOREACH (call, &manager->calls, in_manager)
                call_lose(call);

        (void) sd_event_source_set_time_relative(source, MANAGER_STOP_FLUSH_USEC);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int manager_stop(Manager *manager) {
        Client *client;

        manager->stopping = true;
        (void) sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
        manager->listener = listener_free(manager->listener);
        manager->metrics_listener = listener_free(manager->metrics_listener);
        LIST_FOREACH (client, &manager->clients, entry)
                client_end_subscriptions(client);

        manager_check(manager);
        return error_trace(sd_event_add_time_relative(manager->event, &manager->stop_timer,
                                                      CLOCK_MONOTONIC, MANAGER_STOP_GRACE_USEC, 0,
                                                      on_stop_timer, manager));
}

/* Once stops with grace, twice at once. */
static int on_stop_signal(sd_event_source *source _unused_,
                          const struct signalfd_siginfo *si _unused_, void *userdata) {
        Manager *manager = userdata;

        if (manager->stopping)
                return sd_event_exit(manager->event, 0);
        return manager_stop(manager);
}

/* A terminal that closes is no reason to end. */
static int on_hangup(sd_event_source *source _unused_, const struct signalfd_siginfo *si _unused_,
                     void *userdata) {
        Manager *manager = userdata;

        audit_reopen(manager->audit);
        reload_policy(manager);
        return 0;
}

/* While it stops, each round of the loop may have been the last. */
static int on_post(sd_event_source *source _unused_, void *userdata) {
        Manager *manager = userdata;

        if (manager->stopping)
                manager_check(manager);
        return 0;
}

static int manager_add_sources(Manager *manager) {
        int r;

        r = sd_event_add_signal(manager->event, &manager->signals[0],
                                SIGTERM | SD_EVENT_SIGNAL_PROCMASK, on_stop_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->event, &manager->signals[1],
                                        SIGINT | SD_EVENT_SIGNAL_PROCMASK, on_stop_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->event, &manager->signals[2],
                                        SIGHUP | SD_EVENT_SIGNAL_PROCMASK, on_hangup, manager);
        if (r >= 0)
                r = sd_event_add_post(manager->event, &manager->post, on_post, manager);
        if (r >= 0 && manager->idle_usec > 0)
                r = sd_event_add_time_relative(manager->event, &manager->idle_timer,
                                               CLOCK_MONOTONIC, manager->idle_usec, 0, on_idle,
                                               manager);
        return r < 0 ? error_origin(r) : 0;
}

Manager *manager_free(Manager *manager) {
        if (!manager)
                return NULL;

        listener_free(manager->listener);
        listener_free(manager->metrics_listener);
        while (!LIST_EMPTY(&manager->http_clients))
                http_client_free(LIST_FIRST(&manager->http_clients));
        while (!LIST_EMPTY(&manager->clients))
                client_free(LIST_FIRST(&manager->clients));
        while (!LIST_EMPTY(&manager->calls))
                call_drop(LIST_FIRST(&manager->calls));
        sharers_done(&manager->sharers);
        launchers_stop(manager);
        /* While the parent still sits in it: see cgroup_tree_leave(). */
        cgroup_tree_free(manager->cgroups);
        parent_free(manager->parent);
        (void) fd_close(manager->listen_fd);
        (void) fd_close(manager->metrics_fd);
        free(manager->cgroups_reason);
        for (size_t i = 0; i < ELEMENTSOF(manager->signals); i++)
                sd_event_source_disable_unref(manager->signals[i]);
        sd_event_source_disable_unref(manager->post);
        sd_event_source_disable_unref(manager->idle_timer);
        sd_event_source_disable_unref(manager->stop_timer);
        exporter_free(manager->exporter);
        sd_event_source_disable_unref(manager->egress_source);
        egress_free(manager->egress);
        reload_free(manager->reload);
        policy_reading_free(manager->reading);
        metrics_free(manager->metrics);
        catalogue_free(manager->catalogue);
        policy_free(manager->policy);
        audit_free(manager->audit);
        sd_event_unref(manager->event);
        free(manager);
        return NULL;
}

static int on_egress(sd_event_source *source _unused_, int fd _unused_, uint32_t events _unused_,
                     void *userdata) {
        Manager *manager = userdata;

        egress_dispatch(manager->egress);
        return 0;
}

/* It is started when the first crate wants something of it. */
static int manager_add_egress(Manager *manager, const char *path) {
        int r;

        r = egress_new(path, &manager->egress);
        if (r < 0)
                return error_trace(r);
        return error_trace(sd_event_add_io(manager->event, &manager->egress_source,
                                           egress_get_fd(manager->egress), EPOLLIN, on_egress,
                                           manager));
}

int manager_new(const ManagerConfig *config, Policy *policy, Manager **ret_manager) {
        _cleanup_(manager_freep) Manager *manager = NULL;
        int r;

        manager = calloc(1, sizeof(Manager));
        if (!manager) {
                fd_close(config->listen_fd);
                fd_close(config->metrics_fd);
                policy_free(policy);
                audit_free(config->audit);
                return error_origin(-ENOMEM);
        }

        sharers_init(&manager->sharers);
        manager->listen_fd = manager->metrics_fd = -EBADF;
        manager->policy = policy;
        manager->audit = config->audit;
        manager->idle_usec = config->idle_usec;
        r = sd_event_new(&manager->event);
        if (r < 0) {
                fd_close(config->listen_fd);
                fd_close(config->metrics_fd);
                return error_origin(r);
        }
        manager->listen_fd = config->listen_fd;
        manager->metrics_fd = config->metrics_fd;
        manager->listen_path = config->listen_path;
        manager->launcher_path = config->launcher_path;
        r = catalogue_new(policy, &manager->catalogue);
        if (r == 0)
                r = metering_new(manager, &manager->metrics);
        if (r < 0)
                return error_trace(r);
        r = reload_prepare(manager);
        if (r < 0)
                return error_trace(r);
        if (policy->instance == POLICY_USER) {
                r = reload_watch(manager, &manager->reload);
                if (r < 0)
                        (void) log_errno(r, "changes of the configuration are not seen: send "
                                            "SIGHUP when there are any");
        }
        r = manager_add_sources(manager);
        if (r == 0)
                r = manager_add_egress(manager, config->egress_path);
        if (r == 0 && config->export->url)
                r = exporter_new(manager->event, config->export, config->egress_path,
                                 &manager->exporter);
        if (r < 0)
                return error_trace(r);

        *ret_manager = TAKE_PTR(manager);
        return 0;
}

/* Launchers can be forked: from here on clients are heard. */
static int manager_serve(Manager *manager) {
        int r;

        r = launchers_start(manager);
        if (r < 0)
                return error_trace(r);
        r = listener_new(manager, LISTENER_MCP, TAKE_FD(manager->listen_fd), manager->listen_path,
                         &manager->listener);
        if (r == 0 && manager->metrics_fd >= 0)
                r = listener_new(manager, LISTENER_METRICS, TAKE_FD(manager->metrics_fd), NULL,
                                 &manager->metrics_listener);
        if (r < 0)
                return error_trace(r);

        /* Everything that stays open is open now. */
        r = budget_init(&manager->budget);
        if (r < 0)
                return error_trace(r);

        (void) sd_notify(0, "READY=1\nSTATUS=Serving");
        return 0;
}

int manager_fail(Manager *manager) {
        Call *call;

        manager->failed = true;
        if (!manager->stopping) {
                int r = manager_stop(manager);

                if (r < 0)
                        return error_trace(r);
        }
        manager->losing = true;
        LIST_FOREACH (call, &manager->calls, in_manager)
                call_lose(call);
        (void) sd_event_source_set_time_relative(manager->stop_timer, MANAGER_STOP_FLUSH_USEC);
        return 0;
}

int manager_run(Manager *manager) {
        int r;

        r = parent_start(manager, manager->launcher_path, manager_serve, &manager->parent);
        if (r == PARENT_E_FAILED)
                return MANAGER_E_FAILED;
        if (r < 0)
                return error_trace(r);
        r = sd_event_loop(manager->event);
        if (r < 0)
                return error_origin(r);
        return r != 0 || manager->failed ? MANAGER_E_FAILED : 0;
}
