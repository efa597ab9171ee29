/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "crate/result.h"

static CrateResult result_new(CrateOutcome outcome) {
        CrateResult result;

        crate_result_init(&result);
        result.outcome = outcome;
        result.template = strdup("host");
        return result;
}

static const char *record_string(const json_t *record, const char *key) {
        return json_string_value(json_object_get(record, key));
}

START_TEST(test_record_exited) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_EXITED);
        json_t *record, *limit;

        result.exit_code = 4;
        result.wall_usec = 3999;
        result.cpu_usec = 2000;
        result.memory_peak_bytes = 1048576;
        result.pids_peak = 3;
        result.limits_known = true;
        result.limits[LIMIT_WALL_TIME] =
                (CrateLimitState){.max = 120000000, .peak = 3999, .enforced_by = "timer"};
        result.limits[LIMIT_FILE_SIZE] =
                (CrateLimitState){.max = LIMIT_UNLIMITED, .enforced_by = "rlimit"};
        capture_init(&result.out, 100);
        capture_init(&result.err, 100);
        ck_assert_int_eq(capture_add(&result.out, "out\n", 4), 0);
        ck_assert_int_eq(capture_add(&result.err, "e\0r\n", 4), 0);
        ck_assert_int_eq(crate_result_add_evidence(&result, 812345, "note", "pid %d", 7), 0);

        record = crate_result_to_json(&result, true);
        ck_assert_ptr_nonnull(record);
        ck_assert_int_eq(strncmp(record_string(record, "job"), "j-", 2), 0);
        ck_assert(json_is_null(json_object_get(record, "sandbox")));
        ck_assert_str_eq(record_string(record, "tenant"), "owner");
        ck_assert_str_eq(record_string(record, "template"), "host");
        ck_assert_str_eq(record_string(record, "outcome"), "exited");
        ck_assert_int_eq(json_integer_value(json_object_get(record, "exit_code")), 4);
        ck_assert(json_is_null(json_object_get(record, "signal")));
        ck_assert(json_is_null(json_object_get(record, "error")));
        ck_assert(json_is_null(json_object_get(record, "limit")));
        ck_assert_str_eq(record_string(record, "stdout"), "out\n");
        ck_assert_int_eq(json_integer_value(json_object_get(record, "stdout_bytes")), 4);
        ck_assert(json_is_false(json_object_get(record, "stdout_truncated")));
        ck_assert_uint_eq(json_string_length(json_object_get(record, "stderr")), 4);
        ck_assert_str_eq(record_string(record, "stderr_encoding"), "utf-8");
        ck_assert_uint_eq(json_array_size(json_object_get(record, "denied")), 0);

        ck_assert_uint_eq(json_array_size(json_object_get(record, "limits")), _LIMIT_MAX);
        limit = json_array_get(json_object_get(record, "limits"), LIMIT_WALL_TIME);
        ck_assert_str_eq(record_string(limit, "name"), "wall_time");
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "max")), 120000);
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "peak")), 3);
        limit = json_array_get(json_object_get(record, "limits"), LIMIT_FILE_SIZE);
        ck_assert(json_is_null(json_object_get(limit, "max")));
        limit = json_array_get(json_object_get(record, "limits"), LIMIT_CPUS);
        ck_assert(json_is_null(json_object_get(limit, "enforced_by")));

        limit = json_array_get(json_object_get(record, "evidence"), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "ms")), 812);
        ck_assert_str_eq(record_string(limit, "text"), "pid 7");
        limit = json_object_get(record, "usage");
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "wall_ms")), 3);
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "cpu_ms")), 2);
        json_decref(record);
}
END_TEST

START_TEST(test_record_without_output) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_EXITED);
        json_t *record;

        result.exit_code = 0;
        capture_init(&result.out, 100);
        ck_assert_int_eq(capture_add(&result.out, "out\n", 4), 0);
        record = crate_result_to_json(&result, false);
        ck_assert_str_eq(record_string(record, "stdout"), "");
        ck_assert_int_eq(json_integer_value(json_object_get(record, "stdout_bytes")), 4);
        ck_assert(json_is_true(json_object_get(record, "stdout_truncated")));
        ck_assert(json_is_false(json_object_get(record, "stderr_truncated")));
        json_decref(record);
}
END_TEST

START_TEST(test_record_limit) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_LIMIT);
        json_t *record, *limit;

        result.limit = (CrateBreach){
                .name = LIMIT_OUTPUT,
                .max = 1000,
                .observed = 1001,
                .enforced_by = "broker",
        };
        result.limits[LIMIT_OUTPUT] =
                (CrateLimitState){.max = 1000, .peak = 1001, .hits = 1, .enforced_by = "broker"};
        result.signal = SIGKILL;
        record = crate_result_to_json(&result, true);
        limit = json_object_get(record, "limit");
        ck_assert_str_eq(record_string(limit, "name"), "output");
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "max")), 1000);
        ck_assert_int_eq(json_integer_value(json_object_get(limit, "observed")), 1001);
        ck_assert_str_eq(record_string(limit, "level"), "job");
        ck_assert_str_eq(record_string(limit, "enforced_by"), "broker");
        ck_assert(json_is_null(json_object_get(record, "exit_code")));
        ck_assert_str_eq(record_string(record, "signal"), "SIGKILL");
        json_decref(record);
}
END_TEST

/* A path is any bytes; the record stays JSON. */
START_TEST(test_record_error) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_EXEC_FAILED);
        json_t *record, *error;

        ck_assert_int_eq(crate_error_set(&result.error, "exec", ENOENT, "/x/\xff", "install it",
                                         "no %s", "such file"),
                         0);
        record = crate_result_to_json(&result, true);
        ck_assert_ptr_nonnull(record);
        error = json_object_get(record, "error");
        ck_assert_str_eq(record_string(error, "step"), "exec");
        ck_assert_str_eq(record_string(error, "errno"), "ENOENT");
        ck_assert_str_eq(record_string(error, "path"), "/x/\xef\xbf\xbd");
        ck_assert_str_eq(record_string(error, "text"), "no such file");
        ck_assert_str_eq(record_string(error, "remedy"), "install it");
        json_decref(record);
}
END_TEST

/* The disk of a writable host folder is not limited, and the record does not pretend. */
START_TEST(test_record_workspace) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_EXITED);
        json_t *record, *limit;

        result.workspace_rw = true;
        record = crate_result_to_json(&result, true);
        ck_assert_uint_eq(json_array_size(json_object_get(record, "limits")), 1);
        limit = json_array_get(json_object_get(record, "limits"), 0);
        ck_assert_str_eq(record_string(limit, "name"), "workspace_disk");
        ck_assert_str_eq(record_string(limit, "enforced_by"), "none");
        ck_assert(json_is_null(json_object_get(limit, "max")));
        json_decref(record);
}
END_TEST

typedef struct StatusCase {
        CrateOutcome outcome;
        int exit_code, signal;
        LimitName limit;
        const char *step;
        int error;
        int status;
        const char *verdict; /* its beginning; NULL: none at all */
} StatusCase;

static const StatusCase status_cases[] = {
        {CRATE_EXITED, 0, 0, _LIMIT_INVALID, NULL, 0, 0, NULL},
        {CRATE_EXITED, 9, 0, _LIMIT_INVALID, NULL, 0, 9, "exited with status 9"},
        {CRATE_SIGNALED, -1, SIGKILL, _LIMIT_INVALID, NULL, 0, 137,
         "signaled: the command was ended by SIGKILL"},
        {CRATE_SIGNALED, -1, SIGSEGV, _LIMIT_INVALID, NULL, 0, 139, "signaled: "},
        {CRATE_LIMIT, -1, SIGKILL, LIMIT_WALL_TIME, NULL, 0, 124,
         "limit wall_time: 1.5s passed before the command ended, the job was ended; "},
        {CRATE_LIMIT, -1, SIGKILL, LIMIT_OUTPUT, NULL, 0, 137,
         "limit output: 1500000 bytes of output were reached, the job was ended; "},
        {CRATE_EXEC_FAILED, -1, 0, _LIMIT_INVALID, "exec", ENOENT, 127,
         "exec_failed: text of it (ENOENT); remedy of it"},
        {CRATE_EXEC_FAILED, -1, 0, _LIMIT_INVALID, "exec", EACCES, 126, "exec_failed: "},
        {CRATE_EXEC_FAILED, -1, 0, _LIMIT_INVALID, "exec", ENOEXEC, 126, "exec_failed: "},
        {CRATE_EXEC_FAILED, -1, 0, _LIMIT_INVALID, "cwd", ENOENT, 125, "exec_failed: "},
        {CRATE_CANCELLED, -1, SIGINT, _LIMIT_INVALID, NULL, 0, 130,
         "cancelled: the job was ended by SIGINT"},
        {CRATE_CANCELLED, -1, 0, _LIMIT_INVALID, NULL, 0, 143, "cancelled: the job was ended"},
        {CRATE_LOST, -1, 0, _LIMIT_INVALID, "setup", EPERM, 125,
         "lost: text of it (EPERM); remedy of it"},
        {CRATE_LOST, -1, 0, _LIMIT_INVALID, "egress", 0, 125, "text of it; remedy of it"},
        {CRATE_LOST, -1, 0, _LIMIT_INVALID, NULL, 0, 125, "lost: "},
};

/* A job that met a limit and gave up was not ended by anybody. */
START_TEST(test_verdict_ended_itself) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_LIMIT);
        _cleanup_(freep) char *verdict = NULL;

        result.exit_code = 5;
        result.ended_itself = true;
        result.limit = (CrateBreach){.name = LIMIT_PIDS, .max = 7, .observed = 8};
        verdict = crate_result_verdict(&result);
        ck_assert_str_eq(verdict, "limit pids: 7 processes and threads were reached, the job ended "
                                  "with status 5; raise it or start fewer");
        ck_assert_int_eq(crate_result_exit_status(&result), 137);
}
END_TEST

START_TEST(test_status_and_verdict) {
        const StatusCase *c = &status_cases[_i];
        _cleanup_(crate_result_done) CrateResult result = result_new(c->outcome);
        _cleanup_(freep) char *verdict = NULL;

        result.exit_code = c->exit_code;
        result.signal = c->signal;
        result.limit = (CrateBreach){.name = c->limit, .max = 1500000};
        if (c->step)
                ck_assert_int_eq(crate_error_set(&result.error, c->step, c->error, NULL,
                                                 "remedy of it", "text of it"),
                                 0);

        ck_assert_int_eq(crate_result_exit_status(&result), c->status);
        verdict = crate_result_verdict(&result);
        if (!c->verdict) {
                ck_assert_ptr_null(verdict);
                return;
        }
        ck_assert_ptr_nonnull(verdict);
        ck_assert_msg(string_after(verdict, c->verdict), "verdict: %s", verdict);
        ck_assert_ptr_null(strchr(verdict, '\n'));
}
END_TEST

START_TEST(test_outcome_names) {
        for (int i = CRATE_EXITED; i <= CRATE_LOST; i++) {
                ck_assert_ptr_nonnull(crate_outcome_to_string((CrateOutcome) i));
                for (int k = CRATE_EXITED; k < i; k++)
                        ck_assert_str_ne(crate_outcome_to_string((CrateOutcome) i),
                                         crate_outcome_to_string((CrateOutcome) k));
        }
        ck_assert_ptr_null(crate_outcome_to_string((CrateOutcome) (CRATE_LOST + 1)));
}
END_TEST

START_TEST(test_evidence_is_bounded) {
        _cleanup_(crate_result_done) CrateResult result = result_new(CRATE_EXITED);

        for (unsigned i = 0; i < 2 * CRATE_EVIDENCE_MAX; i++)
                ck_assert_int_eq(crate_result_add_evidence(&result, i, "note", "%u", i), 0);
        ck_assert_uint_eq(result.n_evidence, CRATE_EVIDENCE_MAX);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("result");
        TCase *tcase = tcase_create("result");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_record_exited);
        tcase_add_test(tcase, test_record_without_output);
        tcase_add_test(tcase, test_record_limit);
        tcase_add_test(tcase, test_record_error);
        tcase_add_test(tcase, test_record_workspace);
        tcase_add_test(tcase, test_verdict_ended_itself);
        tcase_add_loop_test(tcase, test_status_and_verdict, 0, ELEMENTSOF(status_cases));
        tcase_add_test(tcase, test_outcome_names);
        tcase_add_test(tcase, test_evidence_is_bounded);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
