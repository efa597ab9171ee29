/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One question about the host and its answer. Pure: it is concluded from facts. */

#include "doctor/facts.h"

typedef enum DoctorAnswer {
        DOCTOR_YES,
        DOCTOR_LIMITED,
        DOCTOR_NO,
} DoctorAnswer;

typedef enum DoctorNeed {
        DOCTOR_REQUIRED, /* without it there are no crates */
        DOCTOR_LIMITS,   /* without it some limits are enforced in a weaker way, or refused */
        DOCTOR_OPTIONAL,
} DoctorNeed;

typedef struct DoctorCheck {
        const char *id, *title; /* static */
        DoctorNeed need;
        DoctorAnswer answer;
        char *found;               /* what is here; NULL: nothing to tell */
        char *cause;               /* why the answer is not yes */
        char *remedy;              /* what to do; NULL: nothing can or need be done */
        char step[PROBE_STEP_MAX]; /* the one that failed; "" if none */
        int error;                 /* its errno, positive */
} DoctorCheck;

void doctor_check_done(DoctorCheck *check);

const char *doctor_answer_to_string(DoctorAnswer answer);
const char *doctor_need_to_string(DoctorNeed need);

/* These return 0 or -ENOMEM, so that judges can end with them. */
int check_found(DoctorCheck *check, const char *format, ...) _printf_(2, 3);
/* Replaces the answer, cause and remedy; remedy may be NULL. */
int check_answer(DoctorCheck *check, DoctorAnswer answer, const char *remedy, const char *format,
                 ...) _printf_(4, 5);
/* The answer that a probe gives: yes, or not_ok with the cause that the facts tell. */
int check_probe(DoctorCheck *check, const DoctorFacts *facts, const Probe *probe,
                DoctorAnswer not_ok);

typedef struct DoctorCheckInfo {
        const char *id, *title;
        DoctorNeed need;
        int (*judge)(DoctorCheck *check, const DoctorFacts *facts);
} DoctorCheckInfo;

/* The table of all, in the order in which they are told. */
const DoctorCheckInfo *doctor_checks(size_t *ret_n);

int judge_kernel(DoctorCheck *check, const DoctorFacts *facts);
int judge_configuration(DoctorCheck *check, const DoctorFacts *facts);
int judge_launcher(DoctorCheck *check, const DoctorFacts *facts);
int judge_overrides(DoctorCheck *check, const DoctorFacts *facts);
int judge_egress(DoctorCheck *check, const DoctorFacts *facts);
int judge_broker(DoctorCheck *check, const DoctorFacts *facts);
int judge_service(DoctorCheck *check, const DoctorFacts *facts);
int judge_bind_roots(DoctorCheck *check, const DoctorFacts *facts);
int judge_enforcement(DoctorCheck *check, const DoctorFacts *facts);
int judge_container(DoctorCheck *check, const DoctorFacts *facts);
int judge_filtered(DoctorCheck *check, const DoctorFacts *facts);
int judge_capabilities(DoctorCheck *check, const DoctorFacts *facts);
int judge_apparmor(DoctorCheck *check, const DoctorFacts *facts);
int judge_selinux(DoctorCheck *check, const DoctorFacts *facts);
int judge_userns_clone(DoctorCheck *check, const DoctorFacts *facts);
int judge_yama(DoctorCheck *check, const DoctorFacts *facts);
int judge_core_pattern(DoctorCheck *check, const DoctorFacts *facts);
int judge_memory(DoctorCheck *check, const DoctorFacts *facts);
int judge_groups(DoctorCheck *check, const DoctorFacts *facts);
int judge_ids(DoctorCheck *check, const DoctorFacts *facts);

int judge_namespace_limits(DoctorCheck *check, const DoctorFacts *facts);
int judge_user_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_mount_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_pid_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_ipc_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_uts_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_net_namespace(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_namespace(DoctorCheck *check, const DoctorFacts *facts);

int judge_mount_api(DoctorCheck *check, const DoctorFacts *facts);
int judge_tmpfs(DoctorCheck *check, const DoctorFacts *facts);
int judge_proc(DoctorCheck *check, const DoctorFacts *facts);
int judge_devpts(DoctorCheck *check, const DoctorFacts *facts);
int judge_mqueue(DoctorCheck *check, const DoctorFacts *facts);
int judge_overlay(DoctorCheck *check, const DoctorFacts *facts);
int judge_idmap_tmp(DoctorCheck *check, const DoctorFacts *facts);
int judge_idmap_home(DoctorCheck *check, const DoctorFacts *facts);
int judge_idmap_cwd(DoctorCheck *check, const DoctorFacts *facts);

int judge_seccomp(DoctorCheck *check, const DoctorFacts *facts);
int judge_landlock(DoctorCheck *check, const DoctorFacts *facts);

int judge_cgroup2(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_memory(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_pids(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_cpu(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_io(DoctorCheck *check, const DoctorFacts *facts);
int judge_clone_into(DoctorCheck *check, const DoctorFacts *facts);
int judge_cgroup_kill(DoctorCheck *check, const DoctorFacts *facts);
int judge_system_bus(DoctorCheck *check, const DoctorFacts *facts);
int judge_user_bus(DoctorCheck *check, const DoctorFacts *facts);

int judge_secrets(DoctorCheck *check, const DoctorFacts *facts);
int judge_trial(DoctorCheck *check, const DoctorFacts *facts);

/* By what one limit would be enforced. */
typedef struct DoctorLimit {
        const char *name;        /* static */
        const char *enforced_by; /* static; "refused" where nothing enforces it */
        char *reason;            /* why it is not a cgroup, where that is the best; else NULL */
        bool has_default;        /* jobs have it without asking */
} DoctorLimit;

/* Asks what crates ask, for each limit. tree: of the trial, or NULL and the reason. */
struct CgroupTree;
int limits_gather(DoctorFacts *facts, const struct CgroupTree *tree, const char *reason);
/* Concludes from that and from the answers about controllers. */
int limits_judge(const DoctorFacts *facts, const DoctorCheck *checks, size_t n_checks,
                 DoctorLimit *ret_limits);

/* One secret that a credential needs. */
typedef struct DoctorSecret {
        char *name;
        StrV credentials; /* that need it */
        bool is_machines; /* it is the machine's instance that needs it */
        char *path;       /* where it lies, or should; NULL: not known */
        DoctorAnswer answer;
        char *cause, *remedy;
} DoctorSecret;

void doctor_secret_done(DoctorSecret *secret);
int secrets_judge(const DoctorFacts *facts, DoctorSecret **ret_secrets, size_t *ret_n);
