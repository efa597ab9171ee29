/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's floor: the same walls as a crate's, put up by as little code as it takes, with no
 * checks, no links, no result. It is no sandbox, only a ruler: what a crate costs above it is ours.
 */

#include <stdint.h>
#include <sys/types.h>

#include "basic/macros.h"

typedef enum FloorKind {
        FLOOR_NAMESPACES, /* clone3 with all namespaces, then the command */
        FLOOR_WHOLE,      /* namespaces, ids, a tree of its own, pivot, the seal, the command */
        FLOOR_TREE,       /* the same from a parent that lives in the tree; net namespace ready */
        FLOOR_INIT,       /* as that, with an init between that starts the command and waits */
        _FLOOR_KIND_MAX,
} FloorKind;

typedef enum FloorStep {
        FLOOR_STEP_CLONE,
        FLOOR_STEP_IDS,
        FLOOR_STEP_PRIVATE,
        FLOOR_STEP_ROOT,
        FLOOR_STEP_USR,
        FLOOR_STEP_DEV,
        FLOOR_STEP_PROC,
        FLOOR_STEP_TMP,
        FLOOR_STEP_DEVPTS,
        FLOOR_STEP_PIVOT,
        FLOOR_STEP_UMOUNT,
        FLOOR_STEP_LO,
        FLOOR_STEP_CAPS,
        FLOOR_STEP_SECCOMP,
        FLOOR_STEP_COMMAND,
        FLOOR_STEP_NET, /* not between the others: made before the clock starts */
        _FLOOR_STEP_MAX,
} FloorStep;

const char *floor_step_to_string(FloorStep step);

/* A process that measures on request: rows of different kinds must not share their parent's state.
 */
typedef struct Floor Floor;

Floor *floor_free(Floor *floor);
DEFINE_CLEANUP(Floor, floor_free);
int floor_new(FloorKind kind, Floor **ret_floor);
/* For BenchRow: userdata is the Floor. */
int floor_measure(void *userdata, uint64_t *ret_nsec);
/* Nanoseconds of each step of the last run; 0 where the kind has no such step. */
const uint64_t *floor_steps(const Floor *floor);
