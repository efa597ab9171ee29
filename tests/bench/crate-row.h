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
typedef enum CrateRowLimits {
        CRATE_ROW_LIMITS_DEFAULT, /* those of a job that comes by MCP, without controllers */
        CRATE_ROW_LIMITS_OFF,     /* as few as a crate can have */
        CRATE_ROW_LIMITS_ON,      /* every one that this host holds without looking */
} CrateRowLimits;

typedef struct CrateRowSpec {
        const char *profile;
        CrateRowLimits limits;
        CgroupTree *cgroups; /* NULL for none */
        bool egress; /* it may reach one name, served by an agentcrate-egress that runs already */
} CrateRowSpec;

/* On failure *ret_text says why, if there is something to say. */
int crate_row_new(const CrateRowSpec *spec, CrateRow **ret_row, char **ret_text);
/* Once the tree of cgroups is enabled: what is there to hold the row's limits. */
int crate_row_take_limits(CrateRow *row);
/* The limits that the host cannot hold, "" if there are none. */
const char *crate_row_missing(const CrateRow *row);
/* For BenchRow: from asking to the result; userdata is the CrateRow. */
int crate_row_measure(void *userdata, uint64_t *ret_nsec);
/* Nanoseconds of the last run. */
const uint64_t *crate_row_phases(const CrateRow *row);
