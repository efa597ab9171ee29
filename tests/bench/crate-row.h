/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A crate through the crate library, with a launcher that runs already, as a row to measure. */

#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"
#include "cgroup/cgroup.h"

typedef struct CrateRow CrateRow;

typedef enum CratePhase {
        CRATE_PHASE_MADE,  /* asked for, until its job has started */
        CRATE_PHASE_ENDED, /* until the result stands */
        CRATE_PHASE_FREED, /* until crate_free() has returned */
        _CRATE_PHASE_MAX,
} CratePhase;

CrateRow *crate_row_free(CrateRow *row);
DEFINE_CLEANUP(CrateRow, crate_row_free);
/* cgroups: NULL for none. On failure *ret_text says why, if there is something to say. */
int crate_row_new(const char *profile, CgroupTree *cgroups, CrateRow **ret_row, char **ret_text);
/* For BenchRow: from asking to the result; userdata is the CrateRow. */
int crate_row_measure(void *userdata, uint64_t *ret_nsec);
/* Nanoseconds of the last run. */
const uint64_t *crate_row_phases(const CrateRow *row);
