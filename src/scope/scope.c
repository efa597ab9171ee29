/* SPDX-License-Identifier: Apache-2.0 */

/*
 *   connecting -> asking (StartTransientUnit) -> waiting (JobRemoved) -> looking (ControlGroup)
 *
 * One deadline over all of it. Every step that fails ends in scope_fail() with a clause that says
 * which; whatever comes after that is ignored.
 */

#include "scope/scope.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-path.h"

#define MANAGER_NAME "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"
#define SCOPE_INTERFACE "org.freedesktop.systemd1.Scope"

#define NAME_SIZE 48U
/* Processes of a scope that is stopped are killed, not waited for: they are ours to end. */
#define STOP_TIMEOUT_USEC UINT64_C(1000000)
/* For a manager that was too slow for us and has to hear of it all the same. */
#define WITHDRAW_TIMEOUT_USEC UINT64_C(30000000)

struct Scope {
        sd_event *event;
        sd_bus *bus;
        sd_bus_slot *removed_slot, *call_slot;
        sd_event_source *timer, *defer;
        ManagerSocket manager;
        pid_t pids[SCOPE_PIDS_MAX];
        size_t n_pids;
        char name[NAME_SIZE];
        char *reason; /* of the failure */
        int result;
        bool is_loose;
        int fd;
        const char *step; /* what the deadline cut off */
        ScopeCallback callback;
        void *userdata;
};

/* --- the end --- */

static void scope_close_bus(Scope *scope) {
        scope->timer = sd_event_source_disable_unref(scope->timer);
        scope->removed_slot = sd_bus_slot_unref(scope->removed_slot);
        scope->call_slot = sd_bus_slot_unref(scope->call_slot);
        scope->bus = sd_bus_close_unref(scope->bus);
}

static int on_defer(sd_event_source *source, void *userdata) {
        Scope *scope = userdata;

        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (!scope->is_loose)
                scope_close_bus(scope);
        scope->callback(scope, scope->result, scope->userdata);
        return 0;
}

/* The callback comes from the loop and not from here: the caller is often one of the bus's own
 * handlers, which may not be pulled from under it. */
static void scope_end(Scope *scope, int result) {
        int r;

        if (scope->defer)
                return;
        scope->result = result;
        scope->timer = sd_event_source_disable_unref(scope->timer);
        r = sd_event_add_defer(scope->event, &scope->defer, on_defer, scope);
        if (r < 0)
                (void) sd_event_exit(scope->event, error_origin(r));
}

static void scope_fail(Scope *scope, const char *format, ...) _printf_(2, 3);
static void scope_fail(Scope *scope, const char *format, ...) {
        va_list args;
        int n;

        if (scope->defer)
                return;
        va_start(args, format);
        n = vasprintf(&scope->reason, format, args);
        va_end(args);
        if (n < 0)
                scope->reason = NULL;
        scope_end(scope, n < 0 ? -ENOMEM : SCOPE_E_FAILED);
}

static const char *error_text(int r) {
        return strerrordesc_np(-r) ?: "an unknown error";
}

static void scope_fail_errno(Scope *scope, int r, const char *what) {
        scope_fail(scope, "%s: %s", what, error_text(r));
}

static int on_timeout(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Scope *scope = userdata;

        scope_fail(scope, "the service manager has not answered within %" PRIu64 " s (%s)",
                   (uint64_t) (SCOPE_TIMEOUT_USEC / 1000000U), scope->step);
        return 0;
}

static void scope_fail_closed(Scope *scope) {
        scope->is_loose = false;
        scope_fail(scope, "the service manager at %s has closed the connection (%s)",
                   scope->manager.path, scope->step);
}

static int on_disconnected(sd_bus_message *message _unused_, void *userdata,
                           sd_bus_error *ret_error _unused_) {
        scope_fail_closed(userdata);
        return 0;
}

/* True if the answer is an error, which is then told. */
static bool answer_failed(Scope *scope, sd_bus_message *message) {
        const sd_bus_error *error = sd_bus_message_get_error(message);

        if (!error)
                return false;
        /* What sd-bus itself answers for a peer that has closed. */
        scope->is_loose = false;
        if (sd_bus_error_has_name(error, SD_BUS_ERROR_NO_REPLY) ||
            sd_bus_error_has_name(error, SD_BUS_ERROR_DISCONNECTED))
                scope_fail_closed(scope);
        scope_fail(scope, "the service manager has refused a scope: %s (%s)",
                   error->message ?: "it gives no reason", error->name);
        return true;
}

/* --- looking --- */

/* The directory of a process's cgroup, as it is seen from here. */
static int find_directory(pid_t pid, char **ret_path) {
        _cleanup_(strbuf_done) StrBuf cgroup = STRBUF_NULL, mountinfo = STRBUF_NULL;
        char file[48];
        int r;

        (void) snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
        r = cgroup_file_read_all(AT_FDCWD, file, &cgroup);
        if (r == 0)
                r = cgroup_file_read_all(AT_FDCWD, "/proc/self/mountinfo", &mountinfo);
        if (r < 0)
                return r;
        r = cgroup_path_find(cgroup.data ?: "", mountinfo.data ?: "", ret_path);
        return r > 0 ? -ENOENT : r;
}

static const char *last_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* Every process is where the manager says it is; the job that is "done" has not always moved
 * them. */
static void scope_check(Scope *scope, const char *control_group) {
        _cleanup_(freep) char *first = NULL;
        int r;

        if (!string_equal(last_name(control_group), scope->name)) {
                scope_fail(scope, "the new scope has no cgroup of its own (\"%s\")", control_group);
                return;
        }
        for (size_t i = 0; i < scope->n_pids; i++) {
                _cleanup_(freep) char *path = NULL;

                r = find_directory(scope->pids[i], &path);
                if (r < 0 || !string_equal(last_name(path), scope->name)) {
                        scope_fail(scope, "process %d is not in its new scope but in %s",
                                   scope->pids[i], r < 0 ? error_text(r) : path);
                        return;
                }
                if (!first)
                        first = TAKE_PTR(path);
        }
        scope->fd = open(first, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (scope->fd < 0)
                scope_fail_errno(scope, negative_errno(),
                                 "the new scope's cgroup cannot be opened");
        else
                scope_end(scope, 0);
}

static int on_control_group(sd_bus_message *message, void *userdata,
                            sd_bus_error *ret_error _unused_) {
        Scope *scope = userdata;
        const char *path;
        int r;

        if (answer_failed(scope, message))
                return 0;
        r = sd_bus_message_read(message, "v", "s", &path);
        if (r < 0)
                scope_fail_errno(scope, r, "the service manager's answer cannot be read");
        else
                scope_check(scope, path);
        return 0;
}

static void scope_look(Scope *scope) {
        _cleanup_(freep) char *path = NULL;
        int r;

        scope->step = "asked where the scope is";
        scope->call_slot = sd_bus_slot_unref(scope->call_slot);
        r = sd_bus_path_encode(MANAGER_PATH "/unit", scope->name, &path);
        if (r >= 0)
                r = sd_bus_call_method_async(scope->bus, &scope->call_slot, MANAGER_NAME, path,
                                             "org.freedesktop.DBus.Properties", "Get",
                                             on_control_group, scope, "ss", SCOPE_INTERFACE,
                                             "ControlGroup");
        if (r < 0)
                scope_fail_errno(scope, r, "the service manager cannot be asked for the scope");
}

/* --- waiting --- */

static int on_job_removed(sd_bus_message *message, void *userdata,
                          sd_bus_error *ret_error _unused_) {
        Scope *scope = userdata;
        const char *path, *unit, *result;
        uint32_t id;
        int r;

        r = sd_bus_message_read(message, "uoss", &id, &path, &unit, &result);
        if (r < 0)
                return 0;
        /* By the unit's name, which is ours alone: the signal may come before the answer that names
         * the job. */
        if (!string_equal(unit, scope->name) || scope->defer)
                return 0;
        if (string_equal(result, "done")) {
                scope_look(scope);
                return 0;
        }
        scope->is_loose = false;
        scope_fail(scope, "the service manager's job for the scope ended as \"%s\"", result);
        return 0;
}

static int on_started(sd_bus_message *message, void *userdata, sd_bus_error *ret_error _unused_) {
        Scope *scope = userdata;

        if (!answer_failed(scope, message))
                scope->step = "waiting for its job";
        return 0;
}

/* --- asking --- */

static int append_pids(sd_bus_message *message, const Scope *scope) {
        int r;

        r = sd_bus_message_open_container(message, 'r', "sv");
        if (r >= 0)
                r = sd_bus_message_append(message, "s", "PIDs");
        if (r >= 0)
                r = sd_bus_message_open_container(message, 'v', "au");
        if (r >= 0)
                r = sd_bus_message_open_container(message, 'a', "u");
        for (size_t i = 0; r >= 0 && i < scope->n_pids; i++)
                r = sd_bus_message_append(message, "u", (uint32_t) scope->pids[i]);
        for (size_t i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(message);
        return r;
}

static int fill_request(sd_bus_message *message, const Scope *scope) {
        int r;

        r = sd_bus_message_append(message, "ss", scope->name, "fail");
        if (r >= 0)
                r = sd_bus_message_open_container(message, 'a', "(sv)");
        if (r >= 0)
                r = sd_bus_message_append(message, "(sv)(sv)(sv)(sv)", "Description", "s",
                                          "AgentCrate's crates", "Delegate", "b", 1, "CollectMode",
                                          "s", "inactive-or-failed", "TimeoutStopUSec", "t",
                                          STOP_TIMEOUT_USEC);
        if (r >= 0)
                r = append_pids(message, scope);
        if (r >= 0)
                r = sd_bus_message_close_container(message);
        if (r >= 0)
                r = sd_bus_message_append(message, "a(sa(sv))", 0);
        return r;
}

static int scope_ask(Scope *scope) {
        sd_bus_message *message = NULL;
        int r;

        scope->step = "connecting, or asking for the scope";
        r = sd_bus_message_new_method_call(scope->bus, &message, MANAGER_NAME, MANAGER_PATH,
                                           MANAGER_INTERFACE, "StartTransientUnit");
        if (r >= 0)
                r = fill_request(message, scope);
        if (r >= 0)
                r = sd_bus_call_async(scope->bus, &scope->call_slot, message, on_started, scope,
                                      UINT64_MAX);
        scope->is_loose = r >= 0;
        sd_bus_message_unref(message);
        return r;
}

/* --- connecting --- */

/* A manager that we cannot see counts processes otherwise than we do, and would move others than
 * ours. */
static int check_peer(int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return negative_errno();
        return peer.pid > 0 ? 0 : -ESRCH;
}

static int bus_open(Scope *scope) {
        _cleanup_(freep) char *address = NULL;
        int r;

        if (asprintf(&address, "unix:path=%s", scope->manager.path) < 0)
                return -ENOMEM;
        r = sd_bus_new(&scope->bus);
        if (r >= 0)
                r = sd_bus_set_address(scope->bus, address);
        if (r >= 0 && scope->manager.is_bus)
                r = sd_bus_set_bus_client(scope->bus, 1);
        /* Else the end of the loop would wait for a manager that does not answer. */
        if (r >= 0)
                r = sd_bus_set_close_on_exit(scope->bus, 0);
        if (r >= 0)
                r = sd_bus_start(scope->bus);
        if (r >= 0)
                r = sd_bus_get_fd(scope->bus);
        if (r >= 0)
                r = check_peer(r);
        if (r >= 0)
                r = sd_bus_attach_event(scope->bus, scope->event, SD_EVENT_PRIORITY_NORMAL);
        return r;
}

static int scope_start(Scope *scope) {
        int r;

        r = bus_open(scope);
        if (r == -ENOMEM)
                return r;
        if (r == -EPIPE || r == -ECONNRESET) {
                scope_fail_closed(scope);
                return 0;
        }
        if (r < 0) {
                scope_fail(scope, "the service manager at %s cannot be reached: %s",
                           scope->manager.path,
                           r == -ESRCH ? "it runs in another process namespace" : error_text(r));
                return 0;
        }
        r = sd_bus_match_signal_async(scope->bus, NULL, NULL, "/org/freedesktop/DBus/Local",
                                      "org.freedesktop.DBus.Local", "Disconnected", on_disconnected,
                                      NULL, scope);
        if (r >= 0)
                r = sd_bus_match_signal_async(scope->bus, &scope->removed_slot,
                                              scope->manager.is_bus ? MANAGER_NAME : NULL,
                                              MANAGER_PATH, MANAGER_INTERFACE, "JobRemoved",
                                              on_job_removed, NULL, scope);
        if (r >= 0)
                r = scope_ask(scope);
        if (r < 0 && r != -ENOMEM) {
                scope_fail_errno(scope, r, "the service manager cannot be asked for a scope");
                return 0;
        }
        return r;
}

int scope_new(sd_event *event, const ManagerSocket *manager, const pid_t *pids, size_t n_pids,
              ScopeCallback callback, void *userdata, Scope **ret_scope) {
        _cleanup_(scope_freep) Scope *scope = NULL;
        uint64_t id;
        int r;

        if (n_pids == 0 || n_pids > SCOPE_PIDS_MAX)
                return error_origin(-EINVAL);
        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return error_origin(negative_errno());
        scope = calloc(1, sizeof(Scope));
        if (!scope)
                return error_origin(-ENOMEM);
        *scope = (Scope){.event = sd_event_ref(event),
                         .manager = *manager,
                         .n_pids = n_pids,
                         .fd = -EBADF,
                         .step = "connecting",
                         .callback = callback,
                         .userdata = userdata};
        memcpy(scope->pids, pids, n_pids * sizeof(*pids));
        (void) snprintf(scope->name, sizeof(scope->name), "agentcrate-%016" PRIx64 ".scope", id);

        r = sd_event_add_time_relative(event, &scope->timer, CLOCK_MONOTONIC, SCOPE_TIMEOUT_USEC,
                                       1000, on_timeout, scope);
        if (r < 0)
                return error_origin(r);
        r = scope_start(scope);
        if (r < 0)
                return error_origin(r);
        *ret_scope = TAKE_PTR(scope);
        return 0;
}

Scope *scope_free(Scope *scope) {
        if (!scope)
                return NULL;

        scope_close_bus(scope);
        sd_event_source_disable_unref(scope->defer);
        sd_event_unref(scope->event);
        fd_close(scope->fd);
        free(scope->reason);
        free(scope);
        return NULL;
}

/* --- withdrawing --- */

bool scope_is_loose(const Scope *scope) {
        return scope->is_loose;
}

static int on_stopped(sd_bus_message *message _unused_, void *userdata,
                      sd_bus_error *ret_error _unused_) {
        /* What the answer is does not matter: a scope that is not there need not be stopped. */
        scope_end(userdata, 0);
        return 0;
}

int scope_withdraw(Scope *scope, ScopeCallback callback, void *userdata) {
        int r;

        scope->callback = callback;
        scope->userdata = userdata;
        scope->is_loose = false;
        scope->step = "asked to stop a scope";
        scope->removed_slot = sd_bus_slot_unref(scope->removed_slot);
        scope->call_slot = sd_bus_slot_unref(scope->call_slot);
        scope->timer = sd_event_source_disable_unref(scope->timer);
        scope->defer = sd_event_source_disable_unref(scope->defer);
        free(TAKE_PTR(scope->reason));

        r = sd_event_add_time_relative(scope->event, &scope->timer, CLOCK_MONOTONIC,
                                       WITHDRAW_TIMEOUT_USEC, 1000, on_timeout, scope);
        if (r >= 0)
                r = sd_bus_call_method_async(scope->bus, &scope->call_slot, MANAGER_NAME,
                                             MANAGER_PATH, MANAGER_INTERFACE, "StopUnit",
                                             on_stopped, scope, "ss", scope->name, "replace");
        return r < 0 ? error_origin(r) : 0;
}

int scope_take_fd(Scope *scope) {
        return TAKE_FD(scope->fd);
}

const char *scope_get_name(const Scope *scope) {
        return scope->name;
}

const char *scope_get_reason(const Scope *scope) {
        return scope->reason ?: "no reason known";
}
