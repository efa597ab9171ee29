/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CratePlan: what a crate shall be, as data. A plan is a list of typed operations in the order in
 * which they are carried out. It is built by the host from policy and request, can be printed and
 * hashed, is sent as one sealed memfd, and is interpreted by one loop in the launcher. A new
 * facility is one operation type here and one function there.
 *
 * The operations belong to four stages:
 *
 *   tree    once per template, by the launcher in its own mount namespace M0: the read-only tree
 *   late    once per crate, by the launcher, into the crate's mount namespace: what needs the
 *           crate's id map, or lies below such
 *   net     once per crate, by the launcher, in the crate's net namespace, before there is an init
 *   crate   once per crate, by its init, before the seal
 *
 * Paths are absolute, normalised (no "//", "." or "..", no trailing "/"), at most PLAN_PATH_MAX
 * bytes; they are looked up inside of the new root only. Sources are host paths, looked up in the
 * launcher's view of the host.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "basic/macros.h"

/* What hide covers a path with; the tree plan makes them (mode 0000) where something is to be
 * hidden. */
#define PLAN_HIDDEN_FILE "/.hidden"
#define PLAN_HIDDEN_DIR "/.hidden.d"
/* What makes names be looked up with the stub, where /etc is not the crate's own. */
#define PLAN_RESOLV_FILE "/.resolv.conf"
#define PLAN_NSSWITCH_FILE "/.nsswitch.conf"

#define PLAN_PATH_MAX 1023U
#define PLAN_OPS_MAX 1024U
#define PLAN_SIZE_MAX (1U << 20)
#define PLAN_LISTENS_MAX 512U

/* Where a crate's own network ends and what is served from outside begins: addresses that are local
 * in each crate's net namespace. */
#define PLAN_NET4 "198.18.0.0"
#define PLAN_NET4_PREFIX 15U
#define PLAN_NET6 "fd00:ac::"
#define PLAN_NET6_PREFIX 64U

typedef enum PlanOpType {
        _PLAN_OP_INVALID,

        /* tree */
        PLAN_OP_DIR,     /* path, mode; with its parents */
        PLAN_OP_FILE,    /* path, mode, data; with its parents */
        PLAN_OP_SYMLINK, /* path, source = target */
        PLAN_OP_BIND,    /* path, source, flags */
        PLAN_OP_DEVICE,  /* path; the host's device node of the same name, checked to be that device
                          */
        PLAN_OP_HOST_PROC, /* path; one whole /proc, which the kernel asks for before it allows a
                              crate's own */
        PLAN_OP_HIDE, /* path; covered by something empty that nobody may open (tree and late) */

        /* late */
        PLAN_OP_LATE_BIND,    /* path, source, flags; id-mapped in root mode when writable */
        PLAN_OP_LATE_HIDE,    /* path */
        PLAN_OP_LATE_PRIVATE, /* path; as PRIVATE, below a late bind */

        /* crate */
        PLAN_OP_HOSTNAME,    /* source */
        PLAN_OP_PROC,        /* path; flags SUBSET_PID */
        PLAN_OP_PROC_MASK,   /* path; skipped where missing */
        PLAN_OP_PROC_RDONLY, /* path; skipped where missing */
        PLAN_OP_TMPFS, /* path, a = bytes, b = inodes: the one private tmpfs; a PRIVATE covers it at
                          path */
        PLAN_OP_PRIVATE,    /* path, mode, a = index of its directory in the tmpfs; flags NOEXEC */
        PLAN_OP_MOUNTPOINT, /* path, flags DIRECTORY; made in a private place, for a late bind onto
                               it */
        PLAN_OP_DEVPTS,     /* path */
        PLAN_OP_MQUEUE,     /* path */
        PLAN_OP_RLIMIT,     /* a = RLIMIT_X, b = soft and hard value; of init and what it starts */
        PLAN_OP_USERNS_MAX, /* a = user.max_user_namespaces inside, 0 */
        PLAN_OP_LANDLOCK_PATH,  /* path, flags RDONLY or none: a rule of the strict profile */
        PLAN_OP_LANDLOCK_SCOPE, /* scope bits where the ABI has them */
        PLAN_OP_SECCOMP,        /* data = struct sock_filter[]; source = profile name */
        PLAN_OP_INOTIFY_MAX,    /* a = user.max_inotify_instances inside, b = ..._watches */

        /* net */
        PLAN_OP_LISTEN, /* source = address, a = port, flags DATAGRAM and OPTIONAL, data = what it
                           is for; a socket that the host is given */

        /* late */
        PLAN_OP_LATE_COVER, /* path, source = a file of the tree that is shown there, read-only */
        _PLAN_OP_MAX,
} PlanOpType;

typedef enum PlanStage {
        PLAN_STAGE_TREE,
        PLAN_STAGE_LATE,
        PLAN_STAGE_CRATE,
        PLAN_STAGE_NET,
} PlanStage;

enum {
        PLAN_RDONLY = 1U << 0,
        PLAN_NOEXEC = 1U << 1,
        PLAN_OPTIONAL = 1U << 2, /* what is missing when the launcher looks is skipped */
        PLAN_RECURSIVE = 1U << 3,
        PLAN_SUBSET_PID = 1U << 4,
        PLAN_DIRECTORY = 1U << 5, /* the source is a directory; else a file */
        PLAN_DATAGRAM = 1U << 6,  /* UDP; else TCP */
        _PLAN_FLAGS_ALL = (1U << 7) - 1,
};

typedef struct PlanOp {
        PlanOpType type;
        uint32_t flags;
        uint32_t mode;
        uint64_t a, b;
        const char *path;   /* "" if the type has none */
        const char *source; /* "" if the type has none */
        const void *data;
        size_t data_size;
} PlanOp;

/* A plan under construction, already in wire form. */
typedef struct CratePlan CratePlan;

CratePlan *plan_free(CratePlan *plan);
DEFINE_CLEANUP(CratePlan, plan_free);
int plan_new(CratePlan **ret_plan);
/* Copies the operation. -EINVAL if it is not what its type asks for (see plan_op_check()), -E2BIG
 * beyond the maxima. */
int plan_add(CratePlan *plan, const PlanOp *op);
/* Whether any operation belongs to that stage. */
bool plan_has_stage(const CratePlan *plan, PlanStage stage);
const void *plan_data(const CratePlan *plan, size_t *ret_size);
/* A sealed memfd with the wire form. */
int plan_to_memfd(const CratePlan *plan, int *ret_fd);
/* One line an operation, as --print-plan shows it. */
int plan_print(const CratePlan *plan, FILE *out);
/* "sha256:" and 64 hex digits over the wire forms of the plans, in order. Needs PLAN_DIGEST_SIZE
 * bytes. */
#define PLAN_DIGEST_SIZE (7 + 64 + 1)
void plan_digest(const CratePlan *const *plans, size_t n_plans, char *ret_digest);

/* --- reading, without heap: for the launcher and init --- */

typedef struct PlanReader {
        const uint8_t *data;
        size_t size, position;
        uint32_t n_ops, i_op;
} PlanReader;

enum {
        _PLAN_E_SUCCESS,
        PLAN_E_END,       /* no further operation */
        PLAN_E_MALFORMED, /* not a plan: nothing of it is to be carried out */
};

/* Checks the whole plan first, so that nothing is half done because of a bad tail. 0 or
 * PLAN_E_MALFORMED. Bytes are borrowed. */
int plan_reader_init(PlanReader *reader, const void *data, size_t size);
/* 0, PLAN_E_END or PLAN_E_MALFORMED. The op's strings and data point into the bytes. */
int plan_reader_next(PlanReader *reader, PlanOp *ret_op);
/* Maps a plan memfd, read-only and private, after checking that it is sealed against every change.
 */
int plan_map(int memfd, const void **ret_data, size_t *ret_size);

const char *plan_op_type_to_string(PlanOpType type);
PlanStage plan_op_stage(PlanOpType type);
/* Whether fields and paths are what the type asks for: 0 or PLAN_E_MALFORMED. */
int plan_op_check(const PlanOp *op);
