/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes that the reader takes for a plan are one: each operation is sound, can be added to a plan
 * again, and prints as one line. */

#include "tests/fuzz/fuzz.h"

#include "plan/plan-internal.h"

static void check_inside(const void *p, size_t n, const uint8_t *data, size_t size) {
        const uint8_t *byte = p;

        FUZZ_ASSERT(byte >= data && byte + n <= data + size);
}

static void check_op(const PlanOp *op, const uint8_t *data, size_t size) {
        FUZZ_ASSERT(plan_op_check(op) == 0);
        FUZZ_ASSERT(plan_op_type_to_string(op->type));
        if (*op->path)
                check_inside(op->path, strlen(op->path) + 1, data, size);
        if (*op->source)
                check_inside(op->source, strlen(op->source) + 1, data, size);
        if (op->data_size > 0)
                check_inside(op->data, op->data_size, data, size);
}

static void check_same(const PlanOp *a, const PlanOp *b) {
        FUZZ_ASSERT(a->type == b->type && a->flags == b->flags && a->mode == b->mode);
        FUZZ_ASSERT(a->a == b->a && a->b == b->b && a->data_size == b->data_size);
        FUZZ_ASSERT(strcmp(a->path, b->path) == 0 && strcmp(a->source, b->source) == 0);
        FUZZ_ASSERT(a->data_size == 0 || memcmp(a->data, b->data, a->data_size) == 0);
}

static void check_print(const CratePlan *plan, size_t n_ops) {
        size_t size = 0, n_lines = 0;
        char *text = NULL;
        FILE *out = open_memstream(&text, &size);

        FUZZ_ASSERT(out && plan_print(plan, out) == 0 && fclose(out) == 0);
        for (size_t i = 0; i < size; i++) {
                n_lines += text[i] == '\n';
                FUZZ_ASSERT(text[i] == '\n' ||
                            ((unsigned char) text[i] >= 0x20 && text[i] != 0x7f));
        }
        FUZZ_ASSERT(n_lines == n_ops);
        free(text);
}

/* Reads both plans side by side. */
static void check_copy(PlanReader *reader, const CratePlan *copy) {
        PlanReader other;
        const void *data;
        PlanOp a, b;
        size_t size;
        int r;

        data = plan_data(copy, &size);
        FUZZ_ASSERT(plan_reader_init(&other, data, size) == 0);
        while ((r = plan_reader_next(reader, &a)) == 0) {
                FUZZ_ASSERT(plan_reader_next(&other, &b) == 0);
                check_same(&a, &b);
        }
        FUZZ_ASSERT(r == PLAN_E_END && plan_reader_next(&other, &b) == PLAN_E_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(plan_freep) CratePlan *copy = NULL;
        PlanReader reader, again;
        size_t n_ops = 0;
        PlanOp op;
        int r;

        r = plan_reader_init(&reader, data, size);
        FUZZ_ASSERT(r == 0 || r == PLAN_E_MALFORMED);
        if (r != 0)
                return 0;

        FUZZ_ASSERT(plan_new(&copy) == 0);
        again = reader;
        while ((r = plan_reader_next(&reader, &op)) == 0) {
                check_op(&op, data, size);
                FUZZ_ASSERT(plan_add(copy, &op) == 0);
                n_ops++;
        }
        FUZZ_ASSERT(r == PLAN_E_END && n_ops <= PLAN_OPS_MAX);
        check_copy(&again, copy);
        check_print(copy, n_ops);
        return 0;
}
