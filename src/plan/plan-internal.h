/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The wire form of a plan: a header, then each operation with its path, source and data behind it,
 * every operation at a multiple of 8 bytes. Strings carry their NUL; a size of 0 means that the
 * type has no such string.
 */

#include <stdint.h>

#include "plan/plan.h"

#define PLAN_MAGIC 0x504c4e31U
#define PLAN_ALIGN 8U

typedef struct PlanHeader {
        uint32_t magic;
        uint32_t n_ops;
        uint32_t size; /* of everything behind the header */
        uint32_t reserved;
} PlanHeader;

typedef struct PlanRecord {
        uint16_t type;
        uint16_t reserved;
        uint32_t flags;
        uint32_t mode;
        uint32_t path_size, source_size, data_size;
        uint64_t a, b;
} PlanRecord;

_Static_assert(sizeof(PlanHeader) == 16, "no padding");
_Static_assert(sizeof(PlanRecord) == 40, "no padding");

/* What a type consists of. */
typedef struct PlanOpInfo {
        const char *name;
        PlanStage stage;
        uint32_t flags; /* flags that it may carry */
        bool has_path, has_source, has_data;
        bool may_have_data; /* data may be empty */
} PlanOpInfo;

/* NULL for a number that is no type. */
const PlanOpInfo *plan_op_info(PlanOpType type);
