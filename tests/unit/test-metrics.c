/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "basic/time-util.h"
#include "record/metrics.h"
#include "tests/unit/suite.h"

#define MSEC(n) ((n) *USEC_PER_MSEC * NSEC_PER_USEC)

static Metrics *make(const char *tool) {
        _cleanup_(strv_done) StrV tools = STRV_NULL, limits = STRV_NULL, kinds = STRV_NULL;
        _cleanup_(strv_done) StrV records = STRV_NULL;
        const MetricsNames names = {
                .tools = &tools, .limits = &limits, .denials = &kinds, .records = &records};
        Metrics *metrics = NULL;

        ck_assert_int_eq(strv_append(&tools, tool), 0);
        ck_assert_int_eq(strv_append(&limits, "memory"), 0);
        ck_assert_int_eq(strv_append(&kinds, "tenant"), 0);
        ck_assert_int_eq(strv_append(&records, "audit"), 0);
        ck_assert_int_eq(metrics_new(&names, &metrics), 0);
        return metrics;
}

/* The text, with nothing alive and seven records of the audit log dropped. */
static char *text_of(const Metrics *metrics) {
        uint64_t crates[METRICS_TEMPLATES_MAX + 1][_METRICS_STATE_MAX] = {};
        const uint64_t dropped[] = {7};
        StrBuf out = STRBUF_NULL;

        crates[0][METRICS_RUNNING] = 3;
        ck_assert_int_eq(metrics_append_text(metrics,
                                             &(MetricsNow){.crates = crates, .dropped = dropped},
                                             "1.2", &out),
                         0);
        return strbuf_steal(&out);
}

static bool has_line(const char *text, const char *line) {
        size_t n = strlen(line);

        for (const char *s = strstr(text, line); s; s = strstr(s + 1, line))
                if ((s == text || s[-1] == '\n') && s[n] == '\n')
                        return true;
        return false;
}

#define ck_assert_line(text, line)                                                                 \
        ck_assert_msg(has_line((text), (line)), "there is no line %s in\n%s", (line), (text))

START_TEST(test_counts) {
        _cleanup_(metrics_freep) Metrics *metrics = make("exec");
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(metrics_add_template(metrics, "host"), 0);
        metrics_count_call(metrics, "exec", METRICS_OK, MSEC(2));
        metrics_count_call(metrics, "exec", METRICS_LOST, MSEC(70000));
        metrics_count_call(metrics, "nope", METRICS_DENIED, 1);
        metrics_count_call(metrics, NULL, METRICS_DENIED, 1);
        metrics_count_authorize(metrics, 1500);
        metrics_count_start(metrics, "host", METRICS_COLD, MSEC(4));
        metrics_count_limit(metrics, "memory", 2);
        metrics_count_denial(metrics, "tenant");
        metrics_count_denial(metrics, "what");
        text = text_of(metrics);

        ck_assert_line(text, "agentcrate_calls_total{tool=\"exec\",outcome=\"ok\"} 1");
        ck_assert_line(text, "agentcrate_calls_total{tool=\"exec\",outcome=\"lost\"} 1");
        ck_assert_line(text, "agentcrate_calls_total{tool=\"exec\",outcome=\"denied\"} 0");
        ck_assert_line(text, "agentcrate_calls_total{tool=\"other\",outcome=\"denied\"} 2");
        ck_assert_line(text,
                       "agentcrate_call_duration_seconds_bucket{tool=\"exec\",le=\"0.001\"} 0");
        ck_assert_line(text,
                       "agentcrate_call_duration_seconds_bucket{tool=\"exec\",le=\"0.0025\"} 1");
        ck_assert_line(text, "agentcrate_call_duration_seconds_bucket{tool=\"exec\",le=\"60\"} 1");
        ck_assert_line(text,
                       "agentcrate_call_duration_seconds_bucket{tool=\"exec\",le=\"+Inf\"} 2");
        ck_assert_line(text, "agentcrate_call_duration_seconds_sum{tool=\"exec\"} 70.002000000");
        ck_assert_line(text, "agentcrate_call_duration_seconds_count{tool=\"exec\"} 2");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_bucket{le=\"0.0001\"} 1");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_sum 0.000001500");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_count 1");
        ck_assert_line(text, "agentcrate_crates{template=\"host\",state=\"running\"} 3");
        ck_assert_line(text, "agentcrate_crates{template=\"other\",state=\"running\"} 0");
        ck_assert_line(
                text,
                "agentcrate_crate_start_seconds_count{template=\"host\",temperature=\"cold\"} 1");
        ck_assert_line(text, "agentcrate_limit_hits_total{limit=\"memory\"} 2");
        ck_assert_line(text, "agentcrate_denials_total{kind=\"tenant\"} 1");
        ck_assert_line(text, "agentcrate_denials_total{kind=\"other\"} 1");
        ck_assert_line(text, "agentcrate_records_dropped_total{kind=\"audit\"} 7");
        ck_assert_line(text, "agentcrate_build_info{version=\"1.2\"} 1");
}
END_TEST

/* A bound belongs to its bucket. */
START_TEST(test_operations) {
        _cleanup_(metrics_freep) Metrics *metrics = make("exec");
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(metrics_add_tool(metrics, "a_b"), 0);
        metrics_count_call(metrics, "exec", METRICS_OK, 1);
        ck_assert_int_eq(metrics_add_tool(metrics, "a_c"), 0);
        ck_assert_int_eq(metrics_add_tool(metrics, "exec"), 0);
        metrics_count_call(metrics, "a_c", METRICS_OK, 1);
        metrics_count_operation(metrics, "a", "b", METRICS_REQUEST_DENIED);
        ck_assert_int_eq(metrics_add_operation(metrics, "a", "b"), 0);
        ck_assert_int_eq(metrics_add_operation(metrics, "a-b", "b"), 0);
        ck_assert_int_eq(metrics_add_operation(metrics, "a", "b"), 0);
        metrics_count_operation(metrics, "a", "b", METRICS_REQUEST_OK);
        metrics_count_operation(metrics, "a-b", "b", METRICS_REQUEST_ERROR);
        metrics_count_operation(metrics, "a", "", METRICS_REQUEST_DENIED);
        text = text_of(metrics);
        ck_assert_line(text, "agentcrate_calls_total{tool=\"exec\",outcome=\"ok\"} 1");
        ck_assert_line(text, "agentcrate_calls_total{tool=\"a_b\",outcome=\"ok\"} 0");
        ck_assert_line(text, "agentcrate_calls_total{tool=\"a_c\",outcome=\"ok\"} 1");
        ck_assert_line(text, "agentcrate_operations_total{credential=\"a\",operation=\"b\","
                             "outcome=\"ok\"} 1");
        ck_assert_line(text, "agentcrate_operations_total{credential=\"a-b\",operation=\"b\","
                             "outcome=\"error\"} 1");
        ck_assert_line(text, "agentcrate_operations_total{credential=\"other\",operation="
                             "\"other\",outcome=\"denied\"} 2");
}
END_TEST

START_TEST(test_bounds) {
        _cleanup_(metrics_freep) Metrics *metrics = make("exec");
        _cleanup_(freep) char *text = NULL;

        metrics_count_authorize(metrics, MSEC(1) / 10);
        metrics_count_authorize(metrics, MSEC(1) / 10 + 1);
        metrics_count_authorize(metrics, MSEC(60000));
        metrics_count_authorize(metrics, MSEC(60000) + 1);
        text = text_of(metrics);
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_bucket{le=\"0.0001\"} 1");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_bucket{le=\"0.00025\"} 2");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_bucket{le=\"60\"} 3");
        ck_assert_line(text, "agentcrate_authorize_duration_seconds_bucket{le=\"+Inf\"} 4");
}
END_TEST

START_TEST(test_escapes) {
        _cleanup_(metrics_freep) Metrics *metrics = make("a\"b\\c\nd");
        _cleanup_(freep) char *text = text_of(metrics);

        ck_assert_line(text, "agentcrate_calls_total{tool=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 0");
}
END_TEST

/* Templates keep their counts when others come, and there is an end of them. */
START_TEST(test_templates) {
        _cleanup_(metrics_freep) Metrics *metrics = make("exec");
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(metrics_add_template(metrics, "a"), 0);
        metrics_count_start(metrics, "a", METRICS_COLD, 1);
        metrics_count_start(metrics, "later", METRICS_COLD, 1);
        for (size_t i = 0; i < 2 * METRICS_TEMPLATES_MAX; i++) {
                _cleanup_(strbuf_done) StrBuf name = STRBUF_NULL;

                ck_assert_int_eq(strbuf_appendf(&name, "t%zu", i), 0);
                ck_assert_int_eq(metrics_add_template(metrics, "a"), 0);
                ck_assert_int_eq(metrics_add_template(metrics, name.data), 0);
        }
        ck_assert_uint_eq(metrics_n_templates(metrics), METRICS_TEMPLATES_MAX);
        ck_assert_uint_eq(metrics_template(metrics, "t511"), METRICS_TEMPLATES_MAX);
        metrics_count_start(metrics, "t511", METRICS_COLD, 1);
        text = text_of(metrics);
        ck_assert_line(
                text,
                "agentcrate_crate_start_seconds_count{template=\"a\",temperature=\"cold\"} 1");
        ck_assert_line(
                text,
                "agentcrate_crate_start_seconds_count{template=\"other\",temperature=\"cold\"} 2");
}
END_TEST

/* Whatever clients name, the text has the same lines. */
START_TEST(test_bounded) {
        _cleanup_(metrics_freep) Metrics *metrics = make("exec");
        _cleanup_(freep) char *before = text_of(metrics), *after = NULL;
        size_t n[2] = {};

        for (size_t i = 0; i < 1000; i++) {
                _cleanup_(strbuf_done) StrBuf name = STRBUF_NULL;

                ck_assert_int_eq(strbuf_appendf(&name, "tool-%zu", i), 0);
                metrics_count_call(metrics, name.data, METRICS_ERROR, i);
        }
        after = text_of(metrics);
        for (const char *s = before; *s; s++)
                n[0] += *s == '\n';
        for (const char *s = after; *s; s++)
                n[1] += *s == '\n';
        ck_assert_uint_eq(n[0], n[1]);
        ck_assert_line(after, "agentcrate_calls_total{tool=\"other\",outcome=\"error\"} 1000");
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("metrics");

        tcase_add_test(tcase, test_counts);
        tcase_add_test(tcase, test_operations);
        tcase_add_test(tcase, test_bounds);
        tcase_add_test(tcase, test_escapes);
        tcase_add_test(tcase, test_templates);
        tcase_add_test(tcase, test_bounded);
        return suite_run("metrics", tcase);
}
