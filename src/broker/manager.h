/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the broker is made of: one of each, and the lists of what comes and goes. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "broker/budget.h"
#include "broker/catalogue.h"
#include "broker/export-config.h"
#include "broker/policy-reading.h"
#include "broker/refusals.h"
#include "broker/sharers.h"
#include "cgroup/cgroup.h"
#include "crate/egress.h"
#include "crate/limits-means.h"
#include "mcp/tools.h"
#include "policy/policy.h"
#include "record/audit.h"
#include "record/metrics.h"

typedef struct Manager Manager;
typedef struct Listener Listener;
typedef struct Client Client;
typedef struct HttpClient HttpClient;
typedef struct Call Call;
typedef struct LauncherUnit LauncherUnit;
typedef struct Reload Reload;
typedef struct Supervisor Supervisor;
typedef struct Exporter Exporter;
typedef struct Parent Parent;

LIST_HEAD(ClientList, Client);
LIST_HEAD(HttpClientList, HttpClient);
LIST_HEAD(CallList, Call);
LIST_HEAD(LauncherUnitList, LauncherUnit);
LIST_HEAD(SupervisorList, Supervisor);

/* What a stop waits for jobs to end by themselves; those that do not end as lost. */
#define MANAGER_STOP_GRACE_USEC (5 * 1000000ULL)
/* And then for their ends, and for clients to take what was written for them. */
#define MANAGER_STOP_FLUSH_USEC (3 * 1000000ULL)

struct Manager {
        sd_event *event;
        Policy *policy;
        Audit *audit;
        Exporter *exporter; /* NULL: traces go nowhere */
        Egress *egress;     /* of crates that reach something */
        sd_event_source *egress_source;
        Metrics *metrics;
        Catalogue *catalogue; /* of the policy */
        CgroupTree *cgroups;  /* NULL: nothing was delegated to us */
        char *cgroups_reason; /* why there are none, a clause; or NULL */
        LimitsHost limits_host;
        struct SupervisorList supervisors;
        Sharers sharers; /* the tenants that have run something */
        Shared used;     /* by all jobs, as far as they are counted by looking */
        Budget budget;
        Refusals refusals;
        int listen_fd, metrics_fd; /* until there are the listeners */
        const char *listen_path, *launcher_path;
        Listener *listener;
        Listener *metrics_listener; /* NULL: none */
        struct ClientList clients;
        size_t n_clients;
        struct HttpClientList http_clients;
        size_t n_http_clients, n_http_tcp; /* by TCP */
        struct CallList calls;             /* also those whose client has gone */
        size_t n_calls;
        size_t n_crates;
        Parent *parent;
        struct LauncherUnitList launchers;

        uint64_t idle_usec; /* 0: never */
        sd_event_source *idle_timer;
        sd_event_source *stop_timer;
        PolicyReading *reading;
        Reload *reload; /* NULL: no files are watched */
        sd_event_source *post;
        sd_event_source *signals[3];
        bool stopping;
        bool losing; /* the grace of the stop is over */
        bool failed; /* it stops since it can make nothing any more */
};

typedef struct ManagerConfig {
        int listen_fd;           /* consumed by manager_new(), also on failure */
        int metrics_fd;          /* the same; -EBADF: metrics have no listener of their own */
        const char *listen_path; /* removed at the end; NULL: it is not ours. Borrowed */
        const char
                *launcher_path;  /* the launcher service's socket; NULL: there is none. Borrowed */
        const char *egress_path; /* the egress service's; NULL: there is none. Borrowed */
        ExportConfig *export;    /* consumed if manager_new() succeeds */
        uint64_t idle_usec;
        Audit *audit; /* consumed by manager_new(), also on failure */
} ManagerConfig;

/* Consumes policy, also on failure. */
int manager_new(const ManagerConfig *config, Policy *policy, Manager **ret_manager);
Manager *manager_free(Manager *manager);
DEFINE_CLEANUP(Manager, manager_free);

enum {
        _MANAGER_E_SUCCESS,
        MANAGER_E_FAILED, /* it was logged why */
};

/* Starts the launchers, says that it is ready, and serves until it is told to stop or is idle. */
int manager_run(Manager *manager);
/* The launchers' parent is gone: all jobs are lost, and manager_run() comes back with a failure
 * once that is told. */
int manager_fail(Manager *manager);
/* To be called whenever a client or a call has gone: arms the idle timer, or ends a stop. */
void manager_check(Manager *manager);
