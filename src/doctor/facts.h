/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that doctor has found out about the host, before anything is concluded from it. Each file of
 * a subject has a function that gathers its part and functions that judge by the whole.
 */

#include <sys/types.h>

#include "basic/string-util.h"
#include "crate/limits-means.h"
#include "doctor/probe.h"
#include "doctor/secrets.h"
#include "policy/config.h"
#include "policy/limits.h"

typedef enum DoctorNamespace {
        DOCTOR_NS_USER,
        DOCTOR_NS_MOUNT,
        DOCTOR_NS_PID,
        DOCTOR_NS_IPC,
        DOCTOR_NS_UTS,
        DOCTOR_NS_NET,
        DOCTOR_NS_CGROUP,
        _DOCTOR_NS_MAX,
} DoctorNamespace;

typedef enum DoctorController {
        DOCTOR_CONTROLLER_MEMORY,
        DOCTOR_CONTROLLER_PIDS,
        DOCTOR_CONTROLLER_CPU,
        DOCTOR_CONTROLLER_IO,
        _DOCTOR_CONTROLLER_MAX,
} DoctorController;

/* File systems that a crate mounts in its own user namespace. */
typedef enum DoctorMount {
        DOCTOR_MOUNT_API,
        DOCTOR_MOUNT_TMPFS,
        DOCTOR_MOUNT_PROC,
        DOCTOR_MOUNT_DEVPTS,
        DOCTOR_MOUNT_MQUEUE,
        DOCTOR_MOUNT_OVERLAY,
        _DOCTOR_MOUNT_MAX,
} DoctorMount;

/* Folders whose file systems are asked for id-mapped mounts. */
typedef enum DoctorFolder {
        DOCTOR_FOLDER_TMP,
        DOCTOR_FOLDER_HOME,
        DOCTOR_FOLDER_CWD,
        _DOCTOR_FOLDER_MAX,
} DoctorFolder;

typedef enum DoctorBus {
        DOCTOR_BUS_SYSTEM,
        DOCTOR_BUS_USER,
        _DOCTOR_BUS_MAX,
} DoctorBus;

typedef struct HostFacts {
        uid_t uid;
        gid_t gid;
        char user[64];
        char kernel[65];
        unsigned kernel_major, kernel_minor;
        /* Numbers of /proc/sys; -1: this kernel has no such file. */
        long max_namespaces[_DOCTOR_NS_MAX];
        long userns_clone, apparmor_restrict, ptrace_scope, overcommit;
        long selinux_enforcing;
        char apparmor_label[64]; /* "" or what confines this process */
        char container[64];      /* "" or what shows that this is one */
        long seccomp_mode;       /* of this process; -1: unknown */
        uint64_t capabilities;   /* effective */
        bool no_new_privs;
        bool chrooted;
        char masked_proc[128]; /* "" or the first mount that covers a part of /proc */
        char core_pattern[128];
        uint64_t memory_bytes; /* 0: unknown */
        size_t n_extra_groups;
} HostFacts;

typedef struct InstallFacts {
        char *launcher;
        int launcher_error; /* errno, positive; 0: it can be executed */
        char *egress;       /* the same of agentcrate-egress */
        int egress_error;
        StrV overrides; /* NAME=VALUE of the environment */
        char *broker_socket;
        int broker_error;   /* of connecting; 0: somebody listens */
        char *config_fault; /* NULL, or the first of the configuration's faults */
        char *config_file;  /* that it is in; NULL: in none */
        Config config;
        Limits limits;   /* of the template host */
        bool ids_mapped; /* root: the range of sub-uids exists here */
        /* root: the launcher service of the machine's broker. */
        int service_error;       /* of looking for its socket */
        int roots_error;         /* of reading its bind roots */
        size_t roots_line;       /* that has a fault; 0: the file as a whole */
        const char *roots_fault; /* static; NULL: none */
        size_t n_roots;
} InstallFacts;

typedef struct CgroupFacts {
        char *point;     /* where cgroup2 is mounted; NULL: nowhere */
        bool read_only;  /* that mount */
        char *own;       /* folder of the own cgroup; NULL: not within reach */
        int write_error; /* errno of asking for write access to it; 0: writable */
        bool is_root;    /* the own cgroup is the root of the hierarchy */
        bool has_kill;
        bool kill_known; /* false: there was no cgroup in which to look */
        Probe clone_into;
        struct {
                bool in_child;  /* what a cgroup below the own one would have */
                bool in_own;    /* cgroup.controllers of the own cgroup */
                bool in_root;   /* of the root of the mount */
                bool in_kernel; /* /proc/cgroups */
                char *v1;       /* mount point of the v1 hierarchy that holds it, or NULL */
        } controllers[_DOCTOR_CONTROLLER_MAX];
        bool systemd;      /* it runs this machine */
        char *host_reason; /* why this host's cgroups can hold no limits at all; or NULL */
} CgroupFacts;

typedef struct FolderFacts {
        char *path; /* NULL: there is none */
        char *type; /* of its file system */
        Probe idmap;
} FolderFacts;

typedef struct LimitFacts {
        bool refused;
        LimitMeans means; /* if it is not */
        char *text;       /* of the refusal */
} LimitFacts;

/* The real trial. */
typedef struct TrialFacts {
        bool passed;
        char *text, *remedy; /* of a failure */
        char step[PROBE_STEP_MAX];
        int error;
        /* The cgroup that was had for it: its controllers, and why not. */
        bool has_cgroup;
        bool cgroup_has[_DOCTOR_CONTROLLER_MAX];
        char *cgroup_lacks[_DOCTOR_CONTROLLER_MAX];
        char *cgroup_reason;                 /* why there was no cgroup; or NULL */
        LimitFacts limits[_LIMIT_MAX];       /* each asked for by itself */
        Enforce enforce;                     /* what a broker asks for here */
        char *enforce_text, *enforce_remedy; /* why that would refuse every job; or NULL */
} TrialFacts;

typedef struct DoctorFacts {
        HostFacts host;
        InstallFacts install;
        Probe namespaces[_DOCTOR_NS_MAX];
        Probe mounts[_DOCTOR_MOUNT_MAX];
        FolderFacts folders[_DOCTOR_FOLDER_MAX];
        CgroupFacts cgroup;
        Probe seccomp;
        Probe landlock; /* value: ABI */
        Probe bus[_DOCTOR_BUS_MAX];
        char *bus_reason; /* why no manager could be asked for this process; or NULL */
        SecretList secrets;
        TrialFacts trial;
} DoctorFacts;

void doctor_facts_done(DoctorFacts *facts);

int host_gather(DoctorFacts *facts);
int install_gather(DoctorFacts *facts);
int namespaces_gather(DoctorFacts *facts);
int mounts_gather(DoctorFacts *facts);
int cgroups_gather(DoctorFacts *facts);
int filters_gather(DoctorFacts *facts);
int bus_gather(DoctorFacts *facts);
int secrets_gather(DoctorFacts *facts);
int trial_gather(DoctorFacts *facts);

static inline bool host_is_root(const HostFacts *host) {
        return host->uid == 0;
}
