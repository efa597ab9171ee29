/* SPDX-License-Identifier: Apache-2.0 */
#include "record/trace.h"

#include <stdio.h>

#include "basic/macros.h"
#include "tests/unit/suite.h"

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define SPAN_ID "b7ad6b7169203331"
#define ZERO_ID "00000000000000000000000000000000"

static const char good[] = "00-" TRACE_ID "-" SPAN_ID "-01";

START_TEST(test_parent) {
        static const uint8_t trace_id[] = {0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
                                           0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};
        static const uint8_t span_id[] = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
        TraceParent parent;

        ck_assert_int_eq(trace_parent_parse(good, strlen(good), &parent), 0);
        ck_assert_mem_eq(parent.trace_id, trace_id, sizeof(trace_id));
        ck_assert_mem_eq(parent.span_id, span_id, sizeof(span_id));
        ck_assert_uint_eq(parent.flags, 1);
        /* Flags that nobody has given a meaning yet are no fault. */
        ck_assert_int_eq(
                trace_parent_parse("00-" TRACE_ID "-" SPAN_ID "-fe", TRACE_PARENT_SIZE, &parent),
                0);
        ck_assert_uint_eq(parent.flags, 0xfe);
}
END_TEST

static const char *const malformed[] = {
        "",
        "00",
        "00-",
        "00-" TRACE_ID,
        "00-" TRACE_ID "-" SPAN_ID,
        "00-" TRACE_ID "-" SPAN_ID "-",
        "00-" TRACE_ID "-" SPAN_ID "-0",
        "00-" TRACE_ID "-" SPAN_ID "-011",
        "00-" TRACE_ID "-" SPAN_ID "-01-",
        "00-" TRACE_ID "-" SPAN_ID "-01-more",
        "00-" TRACE_ID "-" SPAN_ID "-01 ",
        "00-" TRACE_ID "-" SPAN_ID "-01\n",
        " 00-" TRACE_ID "-" SPAN_ID "-01",
        "0-" TRACE_ID "-" SPAN_ID "-01",
        "01-" TRACE_ID "-" SPAN_ID "-01",
        "cc-" TRACE_ID "-" SPAN_ID "-01",
        "ff-" TRACE_ID "-" SPAN_ID "-01",
        "0x-" TRACE_ID "-" SPAN_ID "-01",
        "00_" TRACE_ID "-" SPAN_ID "-01",
        "00-" TRACE_ID "_" SPAN_ID "-01",
        "00-" TRACE_ID "-" SPAN_ID "_01",
        "00-" ZERO_ID "-" SPAN_ID "-01",
        "00-" TRACE_ID "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN_ID "-01",
        "00-" TRACE_ID "-B7AD6B7169203331-01",
        "00-" TRACE_ID "-" SPAN_ID "-0A",
        "00-0af7651916cd43dd8448eb211c80319g-" SPAN_ID "-01",
        "00-0af7651916cd43dd8448eb211c80319-" SPAN_ID "-001",
        "00-" TRACE_ID "-b7ad6b716920333-001",
        "00-" TRACE_ID "-b7ad6b716920333/-01",
        "00-" TRACE_ID "-" SPAN_ID "-x1",
        "00-" TRACE_ID "-" SPAN_ID "-\xc3\xa9",
        "00-\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90"
        "\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90\xef\xbc\x90zz-" SPAN_ID "-01",
        "00-" TRACE_ID "-" SPAN_ID "-01,00-" TRACE_ID "-" SPAN_ID "-01",
};

START_TEST(test_malformed) {
        TraceParent parent = {.flags = 42};

        ck_assert_int_eq(trace_parent_parse(malformed[_i], strlen(malformed[_i]), &parent),
                         TRACE_E_MALFORMED);
        ck_assert_uint_eq(parent.flags, 42);
}
END_TEST

START_TEST(test_nul) {
        char text[sizeof(good)];
        TraceParent parent;

        for (size_t i = 0; i < TRACE_PARENT_SIZE; i++) {
                memcpy(text, good, sizeof(good));
                text[i] = 0;
                ck_assert_int_eq(trace_parent_parse(text, TRACE_PARENT_SIZE, &parent),
                                 TRACE_E_MALFORMED);
        }
}
END_TEST

START_TEST(test_set_parent) {
        char text[TRACE_ID_TEXT_SIZE], state[TRACE_STATE_MAX + 1];
        Trace trace;

        ck_assert_int_eq(trace_begin(&trace), 0);
        trace_set_parent(&trace, good, strlen(good), "a=1,b=2", 7);
        ck_assert(trace.has_parent && !trace.parent_malformed);
        ck_assert_str_eq(trace.state, "a=1,b=2");
        trace_format_id(&trace, text);
        ck_assert_str_eq(text, TRACE_ID);

        /* Its own ids stay, and no state without a parent. */
        ck_assert_int_eq(trace_begin(&trace), 0);
        trace_set_parent(&trace, "x", 1, "a=1", 3);
        ck_assert(!trace.has_parent && trace.parent_malformed);
        ck_assert_str_eq(trace.state, "");
        trace_format_id(&trace, text);
        ck_assert_str_ne(text, TRACE_ID);
        ck_assert_str_ne(text, ZERO_ID);

        memset(state, 's', sizeof(state));
        trace_set_parent(&trace, good, strlen(good), state, sizeof(state));
        ck_assert_str_eq(trace.state, "");
        trace_set_parent(&trace, good, strlen(good), state, TRACE_STATE_MAX);
        ck_assert_uint_eq(strlen(trace.state), TRACE_STATE_MAX);
        ck_assert_int_eq(trace_begin(&trace), 0);
        trace_set_parent(&trace, good, strlen(good), "a=\n", 3);
        ck_assert_str_eq(trace.state, "");
        trace_set_parent(&trace, NULL, 0, NULL, 0);
        ck_assert(trace.parent_malformed);
}
END_TEST

START_TEST(test_ids_differ) {
        Trace a, b;

        ck_assert_int_eq(trace_begin(&a), 0);
        ck_assert_int_eq(trace_begin(&b), 0);
        ck_assert_mem_ne(a.trace_id, b.trace_id, sizeof(a.trace_id));
        for (size_t i = 0; i < _TRACE_STEP_MAX; i++)
                for (size_t j = 0; j < i; j++)
                        ck_assert_mem_ne(a.spans[i].id, a.spans[j].id, TRACE_SPAN_ID_SIZE);
}
END_TEST

START_TEST(test_steps) {
        Trace trace;

        ck_assert_int_eq(trace_begin(&trace), 0);
        trace_step_end(&trace, TRACE_CREATE); /* was never begun */
        ck_assert_uint_eq(trace.spans[TRACE_CREATE].end_nsec, 0);
        trace_step_begin(&trace, TRACE_RUN);
        /* It cannot have taken longer than it is ago. */
        trace_step_split(&trace, TRACE_RUN, UINT64_MAX / 2, TRACE_DRAIN);
        ck_assert_uint_ge(trace.spans[TRACE_RUN].end_nsec, trace.spans[TRACE_RUN].begin_nsec);
        ck_assert_uint_eq(trace.spans[TRACE_RUN].end_nsec, trace.spans[TRACE_DRAIN].begin_nsec);
        trace_end(&trace);
        ck_assert_uint_ge(trace.spans[TRACE_DRAIN].end_nsec, trace.spans[TRACE_DRAIN].begin_nsec);
        ck_assert_uint_ge(trace.spans[TRACE_ROOT].end_nsec, trace.spans[TRACE_DRAIN].end_nsec);
        ck_assert_uint_eq(trace.spans[TRACE_EXEC].begin_nsec, 0);

        ck_assert_int_eq(trace_begin(&trace), 0);
        trace_step_split(&trace, TRACE_RUN, 1, TRACE_DRAIN); /* was never begun */
        ck_assert_uint_eq(trace.spans[TRACE_DRAIN].begin_nsec, 0);
        trace_step_begin(&trace, TRACE_RUN);
        trace_step_split(&trace, TRACE_RUN, 0, TRACE_DRAIN);
        ck_assert_uint_eq(trace.spans[TRACE_RUN].end_nsec, trace.spans[TRACE_RUN].begin_nsec);
}
END_TEST

START_TEST(test_copy) {
        char text[6];

        trace_set(text, "abcde");
        ck_assert_str_eq(text, "abcde");
        trace_set(text, "abcdef");
        ck_assert_str_eq(text, "abcde");
        trace_set(text, "abcd\xc3\xa9");
        ck_assert_str_eq(text, "abcd");
        trace_set(text, "ab\xf0\x9f\x98\x80");
        ck_assert_str_eq(text, "ab");
        trace_set(text, NULL);
        ck_assert_str_eq(text, "");
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("trace");

        tcase_add_test(tcase, test_parent);
        tcase_add_loop_test(tcase, test_malformed, 0, ELEMENTSOF(malformed));
        tcase_add_test(tcase, test_nul);
        tcase_add_test(tcase, test_set_parent);
        tcase_add_test(tcase, test_ids_differ);
        tcase_add_test(tcase, test_steps);
        tcase_add_test(tcase, test_copy);
        return suite_run("trace", tcase);
}
