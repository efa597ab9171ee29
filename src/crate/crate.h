/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One crate and the one job in it, from making to destroyed, seen from the host. It owns the link
 * to init, the job's output pipes, the deadline; it captures, counts and ends. It belongs to one
 * thread, never blocks, and is driven by its owner: poll crate_get_fd() for input (it is an epoll
 * of all that the crate waits for), then call crate_dispatch(). The launcher must be dispatched
 * too.
 *
 *   making → ready → running → ended → destroyed
 *
 * on_end comes exactly once, when the result stands, whatever happened. The job's processes are
 * dead by then or die with crate_free().
 */

#include "basic/string-util.h"
#include "crate/egress-plan.h"
#include "crate/egress.h"
#include "crate/launcher.h"
#include "crate/limits-means.h"
#include "crate/result.h"
#include "ipc/proto.h"
#include "policy/limits.h"

typedef enum CrateStream {
        CRATE_STDOUT,
        CRATE_STDERR,
} CrateStream;

typedef enum CrateStdin {
        CRATE_STDIN_NULL,  /* /dev/null */
        CRATE_STDIN_DATA,  /* stdin_data, then end of file */
        CRATE_STDIN_OWNER, /* the owner takes the write end in on_started by crate_take_stdin() */
} CrateStdin;

/* What to run. Copied by crate_new(). */
typedef struct CrateJob {
        StrV argv;     /* not empty, or command is set */
        char *command; /* shell text for /bin/sh, handed over by fd */
        size_t command_size;
        StrV env;  /* the whole environment */
        char *cwd; /* absolute; NULL: "/workspace" */
        CrateStdin stdin_mode;
        char *stdin_data;
        size_t stdin_size;
        bool tty;
        uint16_t rows, columns;
        Limits limits;
        OnHit on_hit;
        size_t capture; /* bytes of each stream to keep */
} CrateJob;

void crate_job_init(CrateJob *job);
void crate_job_done(CrateJob *job);

typedef struct CrateCallbacks {
        /* The job was started; with CRATE_STDIN_OWNER or tty the owner takes its end now. May be
         * NULL. */
        void (*on_started)(Crate *crate, void *userdata);
        /* Output as it comes, after counting and capturing. May be NULL. Back-pressure:
         * crate_pause_output(). */
        void (*on_output)(Crate *crate, CrateStream stream, const void *data, size_t size,
                          void *userdata);
        /* The result stands. crate_free() is allowed from here on, also inside of this call. */
        void (*on_end)(Crate *crate, void *userdata);
        /* What the job uses now, where it is looked at rather than counted by a cgroup. May be
         * NULL. crate_end_for() is allowed here. */
        void (*on_usage)(Crate *crate, uint64_t memory, uint64_t pids, void *userdata);
        /* Whether others run beside it: a job that has worked for some time gives way to them then,
         * and stays so. NULL: this one never gives way. */
        bool (*has_neighbours)(void *userdata);
        /* A request of the job with a credential is over. Its strings end. May be NULL. False: it
         * could not be put on record, so the job must make no other: it is lost. */
        bool (*on_operation)(Crate *crate, const EgressOperation *operation, void *userdata);
} CrateCallbacks;

/* What a crate is made from; see crate/build.h for how the plans come about. */
typedef struct CrateSpec {
        const CratePlan *plan; /* late and crate stage; borrowed */
        const char *template;
        const char *tenant; /* for the record; NULL: who asked for it */
        bool workspace_rw;
        char plan_digest[PLAN_DIGEST_SIZE];
        CgroupCrate *cgroup; /* NULL: none; else borrowed until the crate is freed */
        /* What enforces the job's limits, see limits_means_decide(); with a cgroup the limits that
         * are its part are in force already. Borrowed. NULL: whatever does without a cgroup. */
        const LimitsMeans *means;
        const StrV *notes; /* on its limits, for the record; borrowed; NULL: none */
        /* What the crate reaches, by whom. The plan, if there is one, is taken; NULL: nothing. */
        EgressPlan **egress_plan;
        Egress *egress; /* borrowed until the crate is freed */
} CrateSpec;

/* Asks the launcher for a crate and queues the job. On failure nothing was started and on_end does
 * not come. */
int crate_new(Launcher *launcher, const CrateSpec *spec, const CrateJob *job,
              const CrateCallbacks *callbacks, void *userdata, Crate **ret_crate,
              CrateError *ret_error);
/* Kills what lives, closes everything. */
Crate *crate_free(Crate *crate);
DEFINE_CLEANUP(Crate, crate_free);

int crate_get_fd(const Crate *crate);
int crate_dispatch(
        Crate *crate); /* 0 or a negative errno, after which the crate has ended as lost */

/* Stops or resumes reading of a stream. While stopped the job blocks in write; limits stay in
 * force. */
int crate_pause_output(Crate *crate, CrateStream stream, bool pause);
/* The write end of the job's stdin, or the terminal's master (read and write; then there is no
 * output by callback). The caller owns it; -EBADF if none. */
int crate_take_stdin(Crate *crate);
/* Sends a signal to the job's process group. */
int crate_signal(Crate *crate, int signal);
/* A ceiling that the job shares with others was met, and this is the one to end for it. */
void crate_end_for(Crate *crate, const CrateBreach *breach);
/* Ends the job: TERM, 2 s of grace, KILL (grace false: KILL at once). The outcome is cancelled.
 * on_end still comes. */
void crate_cancel(Crate *crate, int signal, bool grace);

/* Waits until nothing of the crate runs and its mounts are gone. For owners that may block, after
 * on_end. */
void crate_wait_dead(const Crate *crate, int timeout_msec);

const CrateResult *crate_get_result(const Crate *crate);
