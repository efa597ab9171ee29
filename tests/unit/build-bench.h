/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the plan builder share: a template from JSON, a request, the plans as text. */

#include "crate/build.h"
#include "tests/unit/plan-text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

static Scratch host;

/* What a test builds from and into. */
typedef struct Bench {
        Template *template;
        Limits limits;
        CrateRequest request;
        CratePlans plans;
        CrateError error;
        char *tree, *crate; /* as text */
} Bench;

static inline void set_up(void) {
        scratch_init(&host);
}

static inline void tear_down(void) {
        scratch_done(&host);
}

/* HOST in the text stands for the scratch folder. */
static inline void bench_init(Bench *bench, const char *json) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        for (const char *p = json; *p;)
                if (string_after(p, "HOST")) {
                        ck_assert_int_eq(strbuf_append_string(&text, host.path), 0);
                        p += 4;
                } else
                        ck_assert_int_eq(strbuf_append_byte(&text, *p++), 0);
        *bench = (Bench){};
        ck_assert_int_eq(
                template_parse("test", "test.json", text.data, text.size, &diags, &bench->template),
                0);
        limits_init(&bench->limits);
        bench->request = (CrateRequest){.template = bench->template, .limits = &bench->limits};
}

static inline void bench_clear(Bench *bench) {
        crate_plans_done(&bench->plans);
        crate_error_done(&bench->error);
        free(TAKE_PTR(bench->tree));
        free(TAKE_PTR(bench->crate));
}

static inline void bench_done(Bench *bench) {
        bench_clear(bench);
        bench->template = template_free(bench->template);
}

static inline void assert_stages(const CratePlan *plan, bool tree) {
        PlanReader reader;
        const void *data;
        size_t size;
        PlanOp op;

        data = plan_data(plan, &size);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        while (plan_reader_next(&reader, &op) == 0)
                ck_assert_int_eq(plan_op_stage(op.type) == PLAN_STAGE_TREE, tree);
}

static inline void bench_build(Bench *bench) {
        int r;

        bench_clear(bench);
        r = crate_build_plans(&bench->request, &bench->plans, &bench->error);
        ck_assert_msg(r == 0, "%d: %s", r, bench->error.text ?: "");
        assert_stages(bench->plans.tree, true);
        assert_stages(bench->plans.crate, false);
        bench->tree = plan_text(bench->plans.tree);
        bench->crate = plan_text(bench->plans.crate);
}

static inline void bench_refuse(Bench *bench, int want_errno, const char *part) {
        bench_clear(bench);
        ck_assert_int_eq(crate_build_plans(&bench->request, &bench->plans, &bench->error),
                         CRATE_BUILD_E_INVALID);
        ck_assert_ptr_null(bench->plans.tree);
        ck_assert_ptr_null(bench->plans.crate);
        ck_assert_int_eq(bench->error.error, want_errno);
        ck_assert_ptr_nonnull(bench->error.remedy);
        ck_assert_msg(strstr(bench->error.text, part), "no \"%s\" in \"%s\"", part,
                      bench->error.text);
}

#define assert_line(text, line) ck_assert_msg(text_has_line(text, line), "no %s in\n%s", line, text)
#define assert_no(text, part) ck_assert_msg(!strstr(text, part), "%s in\n%s", part, text)

static inline bool has_op(const CratePlan *plan, PlanOpType type, const char *path) {
        PlanOp op;

        return plan_find(plan, type, path, &op);
}

static inline size_t count_ops(const CratePlan *plan, PlanOpType type) {
        PlanReader reader;
        const void *data;
        size_t size, n = 0;
        PlanOp op;

        data = plan_data(plan, &size);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        while (plan_reader_next(&reader, &op) == 0)
                n += op.type == type;
        return n;
}
