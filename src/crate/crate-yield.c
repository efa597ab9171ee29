/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Jobs that have worked for some time give way to those that have not, so that a short call is
 * answered soon whatever runs beside it. So do those that are being ended.
 *
 * A cgroup with the cpu controller has a weight. Elsewhere it is the nice value, which a job cannot
 * take back; and where the kernel shares the processors by sessions, that of each session. A job
 * can take that back, or begin sessions that have none: each look sets what it finds otherwise, and
 * remembers nothing, so that it holds for any number of sessions.
 */

#include "crate/crate-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "basic/error.h"
#include "basic/macros.h"

/* What most commands do not need. */
#define YIELD_CPU_USEC (50 * USEC_PER_MSEC)
#define YIELD_NICE 10
#define YIELD_NICE_TEXT "10"
/* The same proportion as that nice value: about a tenth. */
#define YIELD_WEIGHT 11U

/* What the kernel gives of a session, "/autogroup-1234 nice 0". */
#define AUTOGROUP_SIZE 64U

static bool session_yields(int fd) {
        char text[AUTOGROUP_SIZE], *nice;
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        text[n > 0 ? n : 0] = 0;
        nice = strrchr(text, ' ');
        /* Without a number the kernel does not share by sessions. */
        return !nice || strtol(nice, NULL, 10) >= YIELD_NICE;
}

/* The session of a process. -EAGAIN: not now, the kernel lets users do so some times a second. */
static int yield_session(const Crate *crate, pid_t pid) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char path[32];

        (void) snprintf(path, sizeof(path), "%d/autogroup", (int) pid);
        fd = openat(crate->proc_fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || session_yields(fd))
                return 0;
        /* Not pwrite(): such files have no place to write at. */
        return write(fd, YIELD_NICE_TEXT, sizeof(YIELD_NICE_TEXT) - 1) < 0 ? negative_errno() : 0;
}

/* One process tells of its session: the leader, or the first of those that have none any longer.
 * Session 0 is one of outside. */
static bool stands_for_session(const Sampler *sampler, size_t i) {
        const SamplerProcess *process = &sampler->processes[i];

        if (process->session == process->pid || process->session == 0)
                return process->session != 0;
        return !sampler_find(sampler, process->session) &&
               (i == 0 || sampler->processes[i - 1].session != process->session);
}

static void yield_sessions(const Crate *crate) {
        const Sampler *sampler = &crate->looking.sampler;

        for (size_t i = 0; i < sampler->n_processes; i++)
                if (stands_for_session(sampler, i) &&
                    yield_session(crate, sampler->processes[i].pid) == -EAGAIN)
                        return;
}

static bool has_group(const InitYield *message, pid_t group) {
        for (uint32_t i = 0; i < message->n_groups; i++)
                if (message->groups[i] == group)
                        return true;
        return false;
}

/* Processes that were there before the job had to give way; later ones inherit it. */
static void add_groups(const Crate *crate, InitYield *message) {
        const Sampler *sampler = &crate->looking.sampler;

        for (size_t i = 0; i < sampler->n_processes && message->n_groups < PROTO_YIELD_GROUPS_MAX;
             i++) {
                const SamplerProcess *process = &sampler->processes[i];

                if (process->nice < YIELD_NICE && !has_group(message, process->group))
                        message->groups[message->n_groups++] = process->group;
        }
}

static bool has_weight(const Crate *crate) {
        return crate->cgroup && cgroup_crate_has_weight(crate->cgroup);
}

bool crate_yields_by_nice(const Crate *crate) {
        return crate->yields && crate->proc_fd >= 0 && !has_weight(crate);
}

void crate_yield(Crate *crate) {
        InitYield message = {.nice = YIELD_NICE};
        bool began = crate->yields;

        if (!crate->callbacks.has_neighbours || crate->state != CRATE_STATE_RUNNING)
                return;
        crate->yields = true;
        if (has_weight(crate)) {
                if (!began)
                        (void) cgroup_crate_set_weight(crate->cgroup, YIELD_WEIGHT);
                return;
        }
        yield_sessions(crate);
        add_groups(crate, &message);
        if (!began || message.n_groups > 0)
                (void) link_send(&crate->init, INIT_YIELD, 0, &message, sizeof(message), NULL, 0);
}

void crate_yield_if_greedy(Crate *crate) {
        const CrateCallbacks *callbacks = &crate->callbacks;

        if (crate->yields ||
            (crate->looking.cpu_usec >= YIELD_CPU_USEC && callbacks->has_neighbours &&
             callbacks->has_neighbours(crate->userdata)))
                crate_yield(crate);
}
