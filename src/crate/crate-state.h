/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A crate from the inside: the struct that the files of this state machine share, and what each of
 * them offers the others. crate.c has the whole picture.
 */

#include "basic/time-util.h"
#include "crate/crate-internal.h"
#include "crate/sampler.h"

/* For what is left in the pipes of a job that has ended. */
#define CRATE_DRAIN_USEC (5 * USEC_PER_SEC)

enum {
        CRATE_STATE_MAKING = 1U << 0,
        CRATE_STATE_READY = 1U << 1,
        CRATE_STATE_RUNNING = 1U << 2,
        CRATE_STATE_ENDED = 1U << 3, /* no job any more; streams may still hold output */
        CRATE_STATE_DONE = 1U << 4,  /* on_end was called */
};

typedef enum CrateSource {
        SOURCE_INIT,
        SOURCE_STDOUT, /* + CrateStream */
        SOURCE_STDERR,
        SOURCE_STDIN,
        SOURCE_TIMER,
        SOURCE_PID,
        SOURCE_CGROUP,
        SOURCE_MEASURED,
} CrateSource;

/* How far the ending of the job has come. */
typedef enum CrateLadder {
        LADDER_NONE,
        LADDER_TERM, /* TERM was sent */
        LADDER_KILL, /* the job was killed by init */
        LADDER_INIT, /* init was killed */
} CrateLadder;

/* Memory that a thread measures. */
typedef struct Measuring Measuring;

/* A look may take one part in so many of a processor's time. */
#define LOOK_COST 32U

/* What the looks at a running job remember. */
typedef struct Looking {
        Sampler sampler;
        Measuring *measuring;    /* NULL: none is under way */
        uint64_t measuring_usec; /* since when it is */
        uint64_t measure_not_before;
        uint64_t interval_usec;
        uint64_t last_usec; /* when the last look was */
        uint64_t disk, memfds, memory, pids, cpu_usec;
        uint64_t doubt, doubt_usec; /* how often of late memory was left out that may have been the
                                       job's, and since when; see doubt_memory() */
} Looking;

/* What is reached from inside, if anything is. */
typedef struct CrateEgress {
        Egress *egress;
        EgressPlan *plan; /* NULL: nothing is, or it was told */
        int *sockets;     /* by listen operation, until they are handed over; -EBADF: none */
        size_t n_sockets, n_told;
        uint32_t id; /* of the session; 0: there is none */
        bool wanted; /* the job waits for ready */
        bool ready;
} CrateEgress;

struct Crate {
        Launcher *launcher;
        uint32_t id;
        uint32_t state;
        CrateJob job;
        CrateCallbacks callbacks;
        void *userdata;

        int epoll_fd, timer_fd;
        Link init;
        int pid_fd;
        int proc_fd;    /* the crate's own /proc */
        int private_fd; /* the crate's tmpfs, for fstatfs only */
        int stream_fds[2];
        bool paused[2];
        int stdin_fd;
        size_t stdin_done;
        int job_fd, script_fd; /* memfds, until they are sent */
        bool job_sent;
        CrateEgress egress;
        CgroupCrate *cgroup;
        LimitsMeans means;

        CrateLadder ladder;
        bool dead; /* the job's processes are known to be gone, or are not waited for any longer */
        bool cancelled;
        int cancel_signal;
        uint64_t start_usec;                                          /* of the job */
        uint64_t deadline_usec, ladder_usec, drain_usec, sample_usec; /* 0: none */
        Looking looking;
        bool yields; /* the job gives way to others */
        bool ended;  /* the result stands, on_end is still to be called */
        CrateResult result;
};

/* --- crate.c: the epoll and the timer --- */
/* Ends every entry from outside; the crate may be gone afterwards. */
void crate_settle(Crate *crate);
int crate_watch(Crate *crate, int fd, CrateSource source, uint32_t events);
void crate_unwatch(Crate *crate, int *fd);
int crate_arm_timer(Crate *crate);

/* --- crate-job.c: what is handed to init --- */
int crate_copy_job(Crate *crate, const CrateJob *job);
int crate_make_job(Crate *crate, const CrateJob *job);

/* --- crate-egress.c: what is reached from inside --- */
int crate_take_egress(Crate *crate, const CrateSpec *spec);
/* Has the sockets served, now that there is an init. */
void crate_begin_egress(Crate *crate);
/* The job is over: the report is asked for. */
void crate_end_egress(Crate *crate);
void crate_release_egress(Crate *crate);

/* --- crate-end.c: limits, and the ways to the end --- */
void crate_init_limits(Crate *crate);
/* A limit of the job itself was met: it ends. */
void crate_breach(Crate *crate, LimitName name, uint64_t observed, bool grace);
/* The same for one that only refuses: what follows is asked of on_hit. hits is the count so far. */
void crate_hit(Crate *crate, LimitName name, uint64_t observed, uint64_t hits);
/* A ceiling was met, of whatever level. */
void crate_breach_at(Crate *crate, const CrateBreach *breach, bool grace);
uint64_t crate_age_usec(const Crate *crate);
int crate_send_signal(Crate *crate, int number);
void crate_end_job(Crate *crate, bool grace);
void crate_kill_init(Crate *crate);
void crate_give_up(Crate *crate);
void crate_fail(Crate *crate, const ProtoFailure *failure);
void crate_end(Crate *crate);
void crate_abort(Crate *crate, CrateOutcome outcome);
void crate_lose(Crate *crate, const char *text);
void crate_release(Crate *crate);
void crate_finish_if_drained(Crate *crate);

/* --- crate-sample.c: looks at the running job --- */
int crate_start_looking(Crate *crate);
void crate_look(Crate *crate);
/* The cgroup's counters: has a limit been met? */
void crate_check_cgroup(Crate *crate);
/* So many processes were there at once. */
void crate_note_processes(Crate *crate, uint64_t n);
/* When the job has ended: what only then is known. */
void crate_look_back(Crate *crate);

/* What is known of the memory now. */
void crate_note_memory(Crate *crate, const SamplerMemory *memory);

/* --- crate-measure.c: measuring memory, which can take as long as a job likes --- */
/* Has the processes of the last look measured, unless that is under way or was so a short time ago;
 * crate_note_memory() follows. estimate: what is known else. */
void crate_measure(Crate *crate, const SamplerMemory *estimate);
void crate_on_measured(Crate *crate);
/* Whatever is under way is nobody's any more. */
void crate_stop_measuring(Crate *crate);

/* --- crate-yield.c: greedy jobs and their neighbours --- */
/* From now on the job gives way, if it is one that does. */
void crate_yield(Crate *crate);
/* Whether it does so by its processes, which a look has to find. */
bool crate_yields_by_nice(const Crate *crate);
/* After each look. */
void crate_yield_if_greedy(Crate *crate);

/* --- crate-stream.c: output and stdin --- */
int crate_take_streams(Crate *crate, Frame *frame);
void crate_read_stream(Crate *crate, CrateStream stream);
void crate_write_stdin(Crate *crate);

/* --- crate-init.c: what init says --- */
void crate_on_init(Crate *crate);
/* Sends the job, if all that it needs stands. 0 or a negative errno. */
int crate_send_job(Crate *crate);
void crate_on_dead(Crate *crate);
/* The permit table of init's link. */
extern const LinkPermit crate_init_permits[];
extern const size_t crate_n_init_permits;
