/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Jobs that have worked for some time give way to those that have not, so that a short call is
 * answered soon whatever runs beside it. So do those that are being ended.
 *
 * A cgroup with the cpu controller has a weight. Elsewhere it is the nice value, which a job cannot
 * take back; and where the kernel shares the processors by sessions, that of each session, which a
 * job could take back or leave: new sessions are found by the next look.
 */

#include "crate/crate-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "basic/macros.h"

/* What most commands do not need. */
#define YIELD_CPU_USEC (50 * USEC_PER_MSEC)
#define YIELD_NICE 10
#define YIELD_NICE_TEXT "10"
/* The same proportion as that nice value: about a tenth. */
#define YIELD_WEIGHT 11U

static bool has_yielded(const Yielding *yielding, pid_t group) {
        for (size_t i = 0; i < yielding->n_groups; i++)
                if (yielding->groups[i] == group)
                        return true;
        return false;
}

/* The session of a process. False: not now, the kernel lets a user do so a few times a second. */
static bool yield_session(const Crate *crate, pid_t pid) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char path[32];

        (void) snprintf(path, sizeof(path), "%d/autogroup", (int) pid);
        fd = openat(crate->proc_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 || write(fd, YIELD_NICE_TEXT, sizeof(YIELD_NICE_TEXT) - 1) >= 0 ||
               errno != EAGAIN;
}

/* The groups that the last look has found for the first time. */
static void take_groups(Crate *crate, InitYield *message) {
        const Sampler *sampler = &crate->looking.sampler;
        Yielding *yielding = &crate->yielding;

        for (size_t i = 0; i < sampler->n_processes && message->n_groups < PROTO_YIELD_GROUPS_MAX &&
                           yielding->n_groups < YIELDING_GROUPS_MAX;
             i++) {
                const SamplerProcess *process = &sampler->processes[i];

                if (has_yielded(yielding, process->group) || !yield_session(crate, process->pid))
                        continue;
                yielding->groups[yielding->n_groups++] = process->group;
                message->groups[message->n_groups++] = process->group;
        }
}

void crate_yield(Crate *crate) {
        Yielding *yielding = &crate->yielding;
        InitYield message = {.nice = YIELD_NICE};
        bool began = yielding->began;

        if (!crate->callbacks.has_neighbours || crate->state != CRATE_STATE_RUNNING)
                return;
        yielding->began = true;
        if (crate->cgroup && cgroup_crate_has_weight(crate->cgroup)) {
                if (!began)
                        (void) cgroup_crate_set_weight(crate->cgroup, YIELD_WEIGHT);
                return;
        }
        take_groups(crate, &message);
        if (!began || message.n_groups > 0)
                (void) link_send(&crate->init, INIT_YIELD, 0, &message, sizeof(message), NULL, 0);
}

void crate_yield_if_greedy(Crate *crate) {
        const CrateCallbacks *callbacks = &crate->callbacks;

        if (crate->yielding.began ||
            (crate->looking.cpu_usec >= YIELD_CPU_USEC && callbacks->has_neighbours &&
             callbacks->has_neighbours(crate->userdata)))
                crate_yield(crate);
}
