/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "basic/string-util.h"
#include "plan/plan-internal.h"

struct CratePlan {
        StrBuf wire; /* begins with the PlanHeader, kept up to date by each plan_add() */
        uint32_t n_ops;
        uint32_t stages; /* a bit for each PlanStage that an operation belongs to */
};

CratePlan *plan_free(CratePlan *plan) {
        if (!plan)
                return NULL;
        strbuf_done(&plan->wire);
        free(plan);
        return NULL;
}

static void plan_update_header(CratePlan *plan) {
        PlanHeader header = {
                .magic = PLAN_MAGIC,
                .n_ops = plan->n_ops,
                .size = (uint32_t) (plan->wire.size - sizeof(header)),
        };

        memcpy(plan->wire.data, &header, sizeof(header));
}

int plan_new(CratePlan **ret_plan) {
        _cleanup_(plan_freep) CratePlan *plan = NULL;
        PlanHeader header = {};
        int r;

        plan = calloc(1, sizeof(*plan));
        if (!plan)
                return error_origin(-ENOMEM);

        r = strbuf_append(&plan->wire, &header, sizeof(header));
        if (r < 0)
                return error_trace(r);

        plan_update_header(plan);
        *ret_plan = TAKE_PTR(plan);
        return 0;
}

static uint32_t string_wire_size(const char *s) {
        return *s ? (uint32_t) strlen(s) + 1 : 0;
}

int plan_add(CratePlan *plan, const PlanOp *op) {
        static const uint8_t padding[PLAN_ALIGN] = {};
        PlanOp copy = *op;
        PlanRecord record;
        size_t size, total;
        int r;

        copy.path = copy.path ?: "";
        copy.source = copy.source ?: "";
        if (plan_op_check(&copy) != 0)
                return error_origin(-EINVAL);
        if (plan->n_ops == PLAN_OPS_MAX || copy.data_size > PLAN_SIZE_MAX)
                return error_origin(-E2BIG);

        record = (PlanRecord){
                .type = (uint16_t) copy.type,
                .flags = copy.flags,
                .mode = copy.mode,
                .path_size = string_wire_size(copy.path),
                .source_size = string_wire_size(copy.source),
                .data_size = (uint32_t) copy.data_size,
                .a = copy.a,
                .b = copy.b,
        };
        size = (size_t) record.path_size + record.source_size + record.data_size;
        total = sizeof(record) + size + PLAN_ALIGN;
        if (plan->wire.size + total > PLAN_SIZE_MAX)
                return error_origin(-E2BIG);

        /* Once there is room, the appends below cannot fail, so the plan is never left with half an
         * operation. */
        r = strbuf_reserve(&plan->wire, total);
        if (r < 0)
                return error_trace(r);
        (void) strbuf_append(&plan->wire, &record, sizeof(record));
        (void) strbuf_append(&plan->wire, copy.path, record.path_size);
        (void) strbuf_append(&plan->wire, copy.source, record.source_size);
        (void) strbuf_append(&plan->wire, copy.data, copy.data_size);
        (void) strbuf_append(&plan->wire, padding, -size & (PLAN_ALIGN - 1));

        plan->n_ops++;
        plan->stages |= 1U << plan_op_stage(copy.type);
        plan_update_header(plan);
        return 0;
}

bool plan_has_stage(const CratePlan *plan, PlanStage stage) {
        return plan->stages & 1U << stage;
}

const void *plan_data(const CratePlan *plan, size_t *ret_size) {
        *ret_size = plan->wire.size;
        return plan->wire.data;
}

int plan_to_memfd(const CratePlan *plan, int *ret_fd) {
        return memfd_new_sealed("agentcrate-plan", plan->wire.data, plan->wire.size, ret_fd);
}

void plan_digest(const CratePlan *const *plans, size_t n_plans, char *ret_digest) {
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx sha;
        char *p = ret_digest;

        sha256_init(&sha);
        for (size_t i = 0; i < n_plans; i++)
                sha256_update(&sha, plans[i]->wire.size, (const uint8_t *) plans[i]->wire.data);
        sha256_digest(&sha, sizeof(digest), digest);

        memcpy(p, "sha256:", 7);
        p += 7;
        for (size_t i = 0; i < sizeof(digest); i++) {
                *p++ = "0123456789abcdef"[digest[i] >> 4];
                *p++ = "0123456789abcdef"[digest[i] & 15];
        }
        *p = 0;
}
