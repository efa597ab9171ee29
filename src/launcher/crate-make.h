/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One crate, as its launcher sees it: cloned, given its ids, its late mounts, and reaped in the
 * end.
 */

#include "launcher/failure.h"
#include "launcher/listen.h"
#include "launcher/net.h"
#include "launcher/outer.h"
#include "plan/plan.h"

typedef struct CrateChild CrateChild;

struct CrateChild {
        uint32_t id;
        uint32_t uid, gid; /* outer */
        pid_t pid;
        bool is_heir;
        int pid_fd;
        int setup_fd; /* -EBADF once init is sealed or gone */
        int user_fd;  /* the crate's user namespace, taken for the late stage before the seal makes
                         that impossible */
        int mount_fd; /* its mount namespace; closing it last takes the teardown of the tree off
                         init's exit */
        const void *plan_data;
        size_t plan_size;
        Listens listens; /* until the host has them */
        CrateChild *next;
};

typedef struct CrateMake {
        uint32_t id;
        uint32_t uid, gid;
        int control_fd; /* borrowed */
        int plan_fd;    /* borrowed */
        int cgroup_fd;  /* borrowed; -EBADF for none */
        int subuid_fd;  /* borrowed; -EBADF for none */
        uint32_t landlock_abi;
        bool no_late; /* a plan with a late stage is refused */
        bool is_heir; /* it takes our memory over: without a late stage and a cgroup only */
} CrateMake;

CrateChild *crate_child_free(CrateChild *crate);
DEFINE_CLEANUP(CrateChild, crate_child_free);

/* Clones init into a net namespace of the stock, writes its id maps, says go, except to an heir. On
 * failure nothing is left. */
int crate_child_new(const CrateMake *make, NetStock *nets, CrateChild **ret_crate,
                    ProtoFailure *ret_failure);
/* Init may go on. An heir then has all memory for itself: what follows must be the end. */
int crate_child_go(CrateChild *crate, ProtoFailure *ret_failure);
/* init has said something on the set-up channel. On failure the crate is to be killed. */
int crate_child_on_setup(CrateChild *crate, const Outer *outer, ProtoFailure *ret_failure);
