/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan as --print-plan shows it, for tests that look for lines. */

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

/* Owned by the caller. */
static inline char *plan_text(const CratePlan *plan) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        ck_assert_ptr_nonnull(out);
        ck_assert_int_eq(plan_print(plan, out), 0);
        ck_assert_int_eq(fclose(out), 0);
        return text;
}

/* Where in the text that whole line begins; NULL if there is none. */
static inline const char *text_find_line(const char *text, const char *line) {
        size_t n = strlen(line);

        for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
                if (strncmp(p, line, n) == 0 && p[n] == '\n')
                        return p;
        return NULL;
}

static inline bool text_has_line(const char *text, const char *line) {
        return text_find_line(text, line) != NULL;
}

/* The first operation of that type, and of that path unless it is NULL. False if there is none. */
static inline bool plan_find(const CratePlan *plan, PlanOpType type, const char *path,
                             PlanOp *ret_op) {
        PlanReader reader;
        const void *data;
        size_t size;

        data = plan_data(plan, &size);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        while (plan_reader_next(&reader, ret_op) == 0)
                if (ret_op->type == type && (!path || strcmp(ret_op->path, path) == 0))
                        return true;
        return false;
}
