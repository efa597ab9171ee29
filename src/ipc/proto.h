/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every message between our own programs, by link. agentcrate-protocol(7) has the picture and the
 * permit tables.
 *
 *   host (agentcrated)                    <->  parent        PARENT_*
 *   host (agentcrated or agentcrate-run)  <->  launcher      LAUNCHER_*
 *   host                                  <->  init          INIT_*
 *   agentcrate-run                        <->  agentcrate-scope  SCOPE_*
 *   host                                  <->  agentcrate-egress  EGRESS_*
 *
 * Big or variable things travel as sealed memfds: the plan (plan/plan.h) and the job
 * (plan/job-wire.h).
 */

#include <stdint.h>

#define PROTO_STEP_MAX 32U
#define PROTO_PATH_MAX 1024U
#define PROTO_CGROUP_MAX 256U

/* --- host -> parent of launchers --- */
enum {
        PARENT_BEGIN = 32, /* nothing; fds: [launcher/, where the host has made the cgroups] */
        PARENT_LAUNCHER,   /* nothing; fds: the link of a launcher that is to be forked */

        /* --- parent -> host --- */
        PARENT_READY = 96, /* ParentReady; fds: [jobs/, where the parent has made the cgroups] */
        PARENT_FAILED,     /* ProtoFailure: it could not begin, and ends */
};

typedef struct ParentReady {
        uint32_t pid;
        uint32_t mode;                      /* LAUNCHER_MODE_X of all its launchers */
        uint32_t subuid_base, subuid_count; /* what crates may be given; 0: as the host likes */
} ParentReady;

/* --- host -> launcher --- */
enum {
        LAUNCHER_SETUP = 1, /* LauncherSetup; fds: template plan [, sub-uid locks] [, cgroup] */
        LAUNCHER_MAKE, /* LauncherMake; fds: init's control socket, crate plan [, cgroup of init] */

        /* --- launcher -> host --- */
        LAUNCHER_READY = 64, /* LauncherReady: the template's tree stands */
        LAUNCHER_FAILED,     /* ProtoFailure; id 0: the set-up, after which the launcher ends; else:
                                that crate */
        LAUNCHER_MADE,       /* LauncherMade; fds: pidfd of init */
        LAUNCHER_GONE, /* LauncherGone: init has ended and was reaped, its namespaces are closed */
        LAUNCHER_SOCKETS, /* LauncherSockets; fds: sockets of the plan's listen operations, in their
                             order and again and again until all are told, before MADE */
};

enum {
        LAUNCHER_MODE_USER = 1, /* makes an outer user namespace with the caller's own ids */
        LAUNCHER_MODE_ROOT = 2, /* is root and maps a sub-uid for each crate */
};

enum {
        LAUNCHER_SETUP_SUBUIDS = 1U << 0,  /* the sub-uids' lock file follows */
        LAUNCHER_SETUP_CGROUP = 1U << 1,   /* the launcher's cgroup follows, below the subtree */
        LAUNCHER_SETUP_ONE_SHOT = 1U << 2, /* ends when its crate is sealed; no GONE follows */
        LAUNCHER_SETUP_NO_LATE = 1U << 3,  /* no crate's plan will have a late stage */
};

typedef struct LauncherSetup {
        uint32_t mode;
        uint32_t net_stock; /* net namespaces to keep ready, 0 … 64 */
        uint32_t flags;     /* LAUNCHER_SETUP_X; the fds follow the plan in their order */
        uint32_t reserved;
} LauncherSetup;

typedef struct LauncherMake {
        uint32_t uid, gid; /* outer ids that inner 1000 maps to; in user mode the caller's own */
        uint32_t has_cgroup;
        uint32_t reserved;
} LauncherMake;

typedef struct LauncherReady {
        uint32_t pid;
        uint32_t landlock_abi; /* 0: none */
} LauncherReady;

typedef struct LauncherMade {
        uint32_t pid; /* of init, in the launcher's pid namespace */
        uint32_t reserved;
} LauncherMade;

typedef struct LauncherGone {
        int32_t wait_status;
        uint32_t reserved;
} LauncherGone;

typedef struct LauncherSockets {
        uint32_t first; /* index of the first one, as the listen operations are counted */
        uint32_t n;     /* as many as fds */
} LauncherSockets;

/* Why something could not be made. Strings are NUL-terminated. */
typedef struct ProtoFailure {
        int32_t error; /* errno, positive */
        uint32_t reserved;
        char step[PROTO_STEP_MAX]; /* the plan operation or stage: "mount", "uid_map" … */
        char path[PROTO_PATH_MAX]; /* "" if none */
} ProtoFailure;

/* --- host -> init --- */
enum {
        INIT_JOB = 128, /* InitJob; fds: job memfd [, script] [, cgroup of the job] */
        INIT_SIGNAL,    /* InitSignal: to the job's process group */
        INIT_YIELD,     /* InitYield: the job gives way to others, and init with it */

        /* --- init -> host --- */
        INIT_READY = 192, /* InitReport; fds: /proc of the crate, O_PATH of the private tmpfs */
        INIT_FAILED,      /* ProtoFailure: before ready */
        INIT_STARTED,     /* InitStarted; fds: stdin (if piped), stdout, stderr; or one terminal */
        INIT_EXITED,      /* InitExited: the job's main process has ended and everything else in the
                             crate was killed */
};

enum {
        INIT_JOB_STDIN_PIPE = 1U << 0, /* else /dev/null */
        INIT_JOB_TTY = 1U << 1,
        INIT_JOB_SCRIPT = 1U << 2, /* a script fd follows, it becomes fd 3 of the job */
        INIT_JOB_CGROUP = 1U << 3, /* a cgroup fd follows */
};

typedef struct InitJob {
        uint32_t flags;
        uint16_t rows, columns; /* of the terminal */
        uint32_t max_processes; /* RLIMIT_NPROC of the job, init is one of them; 0: as it is */
        uint32_t reserved;
} InitJob;

typedef struct InitSignal {
        int32_t signal;
        uint32_t reserved;
} InitSignal;

#define PROTO_YIELD_GROUPS_MAX 16U

typedef struct InitYield {
        int32_t nice;
        uint32_t n_groups;
        int32_t groups[PROTO_YIELD_GROUPS_MAX]; /* process groups inside, beside the job's first */
} InitYield;

/* What init reads back from inside after the seal. The host compares it with the plan once more and
 * notes it. */
typedef struct InitReport {
        uint64_t cap_effective, cap_permitted, cap_inheritable, cap_bounding, cap_ambient;
        uint32_t seccomp_mode, seccomp_filters, no_new_privs;
        uint32_t uid, gid;
        uint32_t n_mounts;
        uint32_t n_interfaces;         /* that are up; anything but lo counts 1000 */
        uint32_t landlock_abi;         /* 0: no domain was made */
        char cgroup[PROTO_CGROUP_MAX]; /* init's, as seen inside; "" if it was given none */
} InitReport;

typedef struct InitStarted {
        uint32_t pid; /* of the job, inside */
        uint32_t n_stdio;
} InitStarted;

enum {
        INIT_EXITED_EXITED = 0,      /* wait_status holds */
        INIT_EXITED_EXEC_FAILED = 1, /* error holds; nothing of the job ever ran */
};

enum {
        INIT_EXEC_STEP_EXEC = 0,
        INIT_EXEC_STEP_CLONE,
        INIT_EXEC_STEP_CWD,
        INIT_EXEC_STEP_STDIO,
        INIT_EXEC_STEP_LIMITS,
};

#define PROTO_NAME_MAX 16U

typedef struct InitExited {
        uint32_t what;
        int32_t wait_status;
        int32_t error;        /* errno of the failed step */
        uint32_t step;        /* INIT_EXEC_STEP_X */
        uint32_t file_exists; /* ENOENT although the file is there: its interpreter is missing */
        uint32_t n_processes; /* the main one, and those that it left behind */
        uint64_t utime_usec, stime_usec; /* of all processes that were waited for */
        uint64_t max_rss_bytes;
        uint64_t wall_usec; /* from before the clone to the end of the main process, monotonic */
        /* The largest process that was killed, where the job has a cgroup; else 0 and "". */
        uint64_t killed_rss_bytes;
        uint32_t killed_pid;
        char killed_name[PROTO_NAME_MAX]; /* as it called itself, NUL-terminated */
        uint32_t reserved;
        /* Connections of the crate that nobody accepted, and what had no route. */
        uint64_t net_refused, net_unrouted;
        /* Where nothing is served in the crate and the command failed, instead of these: questions
         * for names and other datagrams that nobody heard, and what had no route. */
        uint64_t net_missed;
} InitExited;

#define PROTO_SCOPE_PIDS_MAX 8U
#define PROTO_SCOPE_SOCKET_MAX 108U
#define PROTO_SCOPE_REASON_MAX 512U

/* --- agentcrate-run -> agentcrate-scope --- */
enum {
        SCOPE_ASK = 256, /* ScopeAsk; once */

        /* --- agentcrate-scope -> agentcrate-run; it ends after either --- */
        SCOPE_MADE = 320, /* no payload; fds: the scope's directory */
        SCOPE_FAILED,     /* ScopeFailed */
};

typedef struct ScopeAsk {
        uint32_t is_bus; /* the socket is a message bus's, else the manager's own */
        uint32_t n_pids;
        int32_t pids[PROTO_SCOPE_PIDS_MAX];  /* who shall sit in the scope */
        char socket[PROTO_SCOPE_SOCKET_MAX]; /* path, NUL-terminated */
} ScopeAsk;

typedef struct ScopeFailed {
        char reason[PROTO_SCOPE_REASON_MAX]; /* one clause, NUL-terminated */
} ScopeFailed;

#define EGRESS_BODY_MAX (4U << 20)
#define EGRESS_COLLECTOR_MAX (64U * 1024U)
#define PROTO_EGRESS_TEXT_MAX 512U

/* --- host -> agentcrate-egress --- */
enum {
        EGRESS_COLLECTOR = 384, /* EgressCollector; fds: where to; once */
        EGRESS_POST,            /* no payload; fds: the body, a batch of traces; one at a time */
        EGRESS_OPEN,    /* EgressOpen; fds: the session document. The id names the session from here
                           on and is not 0 */
        EGRESS_SOCKETS, /* EgressSockets; fds: sockets in a crate's net namespace, in order, until
                           all of EgressOpen are told */
        EGRESS_CLOSE,   /* no payload: the session ends, whatever state it is in. Also what becomes
                           of a session whose READY or FAILED has not come yet */

        /* --- agentcrate-egress -> host --- */
        EGRESS_POSTED = 448, /* EgressPosted, with the id of the EGRESS_POST */
        EGRESS_READY,        /* no payload: the session's sockets are served */
        EGRESS_FAILED, /* EgressFailed: the session is not served, its sockets are closed and its id
                          is free; no ENDED follows, also not to a CLOSE that was under way */
        EGRESS_ENDED,  /* EgressEnded, the answer to EGRESS_CLOSE; fds: the report. Everything of
                          the session is closed, its id is free */
        EGRESS_OPERATION, /* EgressOperation: a request to a credential's host is over; at any time
                             while the session is served */
};

/* The fd is a sealed memfd of strings that each end with NUL: the URL, the file of trusted
 * certificates ("": the system's), and any number of headers as "Name: value". */
typedef struct EgressCollector {
        uint32_t timeout_msec;
        uint32_t reserved;
} EgressCollector;

typedef struct EgressPosted {
        uint32_t status;                  /* of HTTP; 0: there was no answer */
        uint32_t retry_after_sec;         /* that the collector asks for; 0: nothing */
        char text[PROTO_EGRESS_TEXT_MAX]; /* why there was none; NUL-terminated */
} EgressPosted;

#define EGRESS_SESSION_MAX (256U * 1024U) /* of the document */
#define EGRESS_REPORT_MAX (256U * 1024U)
#define EGRESS_SESSION_SOCKETS_MAX 512U

typedef struct EgressOpen {
        uint32_t n_sockets; /* that follow, at most EGRESS_SESSION_SOCKETS_MAX */
        uint32_t reserved;
} EgressOpen;

typedef struct EgressSockets {
        uint32_t first; /* index of the first one */
        uint32_t n;     /* as many as fds */
} EgressSockets;

/* Strings are NUL-terminated. */
/* Of what a request was made: each parameter's name and the SHA-256 of its value, in hex. */
#define PROTO_EGRESS_PARAMETERS_MAX 1384U
#define PROTO_EGRESS_WHY_MAX 400U
#define PROTO_EGRESS_TOKENS_NONE UINT64_MAX

typedef struct EgressOperation {
        char credential[36];
        char operation[68];           /* "": it was none of the job's */
        char reason[36];              /* why it was refused or failed, one word; "": it was not */
        char digest[68];              /* SHA-256 of method, path, query and content, in hex */
        uint32_t status;              /* that the job got */
        uint32_t denied;              /* nothing was sent */
        uint64_t bytes_out, bytes_in; /* of content */
        uint64_t usec;
        uint64_t n_dropped; /* before this one, of which nothing was told */
        /* Of a language model, as its answer told; PROTO_EGRESS_TOKENS_NONE: it did not. */
        uint64_t tokens_in, tokens_out;
        char text[PROTO_EGRESS_WHY_MAX]; /* the reason in a sentence; "": there is none */
        /* "NAME HASH NAME HASH …", those that fit; the frame ends with its NUL. */
        char parameters[PROTO_EGRESS_PARAMETERS_MAX];
} EgressOperation;

typedef struct EgressFailed {
        char text[PROTO_EGRESS_TEXT_MAX]; /* why, one clause; NUL-terminated */
} EgressFailed;

/* The fd is a sealed memfd, a JSON document: who was refused what, and what each name was used for.
 * The numbers here are its sums. */
typedef struct EgressEnded {
        uint64_t connections; /* that were dialled */
        uint64_t bytes_in;    /* to the job */
        uint64_t bytes_out;   /* from the job */
        uint64_t n_denied;
} EgressEnded;
