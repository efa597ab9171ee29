/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The service managers, which alone may hand out cgroups where systemd runs: is there somebody at
 * their sockets, and does he answer.
 *
 * libsystemd is loaded by the child that asks, not linked: it would double the time that every
 * other command of agentcrate takes to start.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

#include "basic/error.h"
#include "cgroup/cgroup.h"
#include "cgroup/manager-socket.h"
#include "doctor/check.h"

#define BUS_LIBRARY "libsystemd.so.0"
#define BUS_TIMEOUT_USEC 2000000ULL
#define SYSTEM_BUS "/run/dbus/system_bus_socket"
#define MANAGER "org.freedesktop.systemd1"

typedef struct BusLibrary {
        typeof(sd_bus_new) *new;
        typeof(sd_bus_set_address) *set_address;
        typeof(sd_bus_set_bus_client) *set_bus_client;
        typeof(sd_bus_set_method_call_timeout) *set_timeout;
        typeof(sd_bus_start) *start;
        typeof(sd_bus_call_method) *call;
} BusLibrary;

static bool load_library(Probe *probe, BusLibrary *ret_library) {
        void *handle;

        probe_begin(probe, "load-library", BUS_LIBRARY);
        handle = dlopen(BUS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
                probe->error = ENOENT;
                return false;
        }
        ret_library->new = dlsym(handle, "sd_bus_new");
        ret_library->set_address = dlsym(handle, "sd_bus_set_address");
        ret_library->set_bus_client = dlsym(handle, "sd_bus_set_bus_client");
        ret_library->set_timeout = dlsym(handle, "sd_bus_set_method_call_timeout");
        ret_library->start = dlsym(handle, "sd_bus_start");
        ret_library->call = dlsym(handle, "sd_bus_call_method");
        if (ret_library->new && ret_library->set_address && ret_library->set_bus_client &&
            ret_library->set_timeout && ret_library->start && ret_library->call)
                return true;
        probe->error = ENOPKG;
        return false;
}

/* "unix:path=…", where anything but plain characters is escaped. */
static int format_address(const char *path, char *buffer, size_t size) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&text, "unix:path=");
        for (; r == 0 && *path; path++)
                r = strchr("/-_.", *path) || (*path >= '0' && *path <= '9') ||
                                    ((*path | 0x20) >= 'a' && (*path | 0x20) <= 'z')
                            ? strbuf_append_byte(&text, *path)
                            : strbuf_appendf(&text, "%%%02x", (unsigned char) *path);
        if (r == 0 && (size_t) snprintf(buffer, size, "%s", text.data) >= size)
                r = -ENAMETOOLONG;
        return r;
}

static bool took(Probe *probe, int r) {
        errno = -r;
        return probe_check(probe, r >= 0);
}

/* All in the child, which ends soon: nothing needs to be freed. */
static void try_ping(Probe *probe, const void *userdata) {
        const ManagerSocket *manager = userdata;
        char address[4 * MANAGER_SOCKET_PATH_MAX];
        BusLibrary library;
        sd_bus *bus = NULL;

        if (!load_library(probe, &library))
                return;
        probe_begin(probe, "bus-connect", manager->path);
        if (!took(probe, format_address(manager->path, address, sizeof(address))) ||
            !took(probe, library.new(&bus)) || !took(probe, library.set_address(bus, address)) ||
            !took(probe, library.set_bus_client(bus, manager->is_bus)) ||
            !took(probe, library.set_timeout(bus, BUS_TIMEOUT_USEC)) ||
            !took(probe, library.start(bus)))
                return;
        probe_begin(probe, "bus-ping", manager->path);
        (void) took(probe,
                    library.call(bus, manager->is_bus ? MANAGER : NULL, "/org/freedesktop/systemd1",
                                 "org.freedesktop.DBus.Peer", "Ping", NULL, NULL, NULL));
}

/* The manager that would be asked for this process's cgroups. */
static int gather_own_manager(DoctorFacts *facts, DoctorBus which) {
        _cleanup_(freep) char *reason = NULL;
        ManagerSocket manager;
        int r;

        r = manager_socket_find(&manager, &reason);
        if (r == 0)
                probe_run(try_ping, &manager, &facts->bus[which]);
        else if (r == MANAGER_SOCKET_E_NONE)
                facts->bus_reason = TAKE_PTR(reason);
        return r < 0 ? error_trace(r) : 0;
}

int bus_gather(DoctorFacts *facts) {
        const ManagerSocket system = {.path = SYSTEM_BUS, .is_bus = true};

        if (host_is_root(&facts->host))
                return gather_own_manager(facts, DOCTOR_BUS_SYSTEM);
        if (facts->cgroup.systemd)
                probe_run(try_ping, &system, &facts->bus[DOCTOR_BUS_SYSTEM]);
        return gather_own_manager(facts, DOCTOR_BUS_USER);
}

/* --- judges --- */

static int judge_manager(DoctorCheck *check, const DoctorFacts *facts, DoctorBus which,
                         const char *remedy) {
        const Probe *probe = &facts->bus[which];

        if (!facts->cgroup.systemd)
                return check_answer(check, DOCTOR_NO, NULL, "no systemd runs here");
        if (!probe->done)
                return check_answer(check, DOCTOR_NO, remedy, "%s",
                                    facts->bus_reason ?: "no manager serves this user");
        if (probe->error == 0)
                return check_found(check, "answers at %s", probe->path);
        memcpy(check->step, probe->step, sizeof(check->step));
        check->error = probe->error;
        if (probe->error == ETIMEDOUT)
                return check_answer(check, DOCTOR_NO, remedy, "nobody answers at %s within %llu s",
                                    probe->path, BUS_TIMEOUT_USEC / 1000000);
        return check_answer(check, DOCTOR_NO, remedy, "step %s failed at %s: %s (%s)", probe->step,
                            probe->path, strerror(probe->error),
                            strerrorname_np(probe->error) ?: "?");
}

int judge_system_bus(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_manager(check, facts, DOCTOR_BUS_SYSTEM,
                             host_is_root(&facts->host)
                                     ? "start dbus.service, and see systemctl status"
                                     : "nothing: a plain user's crates need the user manager");
}

int judge_user_bus(DoctorCheck *check, const DoctorFacts *facts) {
        if (host_is_root(&facts->host))
                return check_found(check, "not needed: root asks the system manager");
        return judge_manager(check, facts, DOCTOR_BUS_USER,
                             "log in by way of systemd-logind, or run loginctl enable-linger; see "
                             "that XDG_RUNTIME_DIR is set and that dbus-user-session is installed");
}
