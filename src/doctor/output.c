/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "doctor/doctor.h"

#define ANSWER_WIDTH 8
#define TITLE_WIDTH 34
#define LIMIT_WIDTH 14
#define INDENT "          "

/* --- text --- */

typedef struct Printer {
        FILE *file;
        bool color;
} Printer;

static const char *answer_color(DoctorAnswer answer, DoctorNeed need) {
        if (answer == DOCTOR_YES)
                return "\033[32m";
        return answer == DOCTOR_NO && need == DOCTOR_REQUIRED ? "\033[1;31m" : "\033[33m";
}

static void print_answer(const Printer *printer, const char *text, const char *color) {
        fprintf(printer->file, "%s%-*s%s", printer->color ? color : "", ANSWER_WIDTH, text,
                printer->color ? "\033[0m" : "");
}

static void print_check(const Printer *printer, const DoctorCheck *check) {
        const char *text =
                check->answer == DOCTOR_YES ? "ok" : doctor_answer_to_string(check->answer);

        print_answer(printer, text, answer_color(check->answer, check->need));
        if (check->found)
                fprintf(printer->file, "  %-*s %s\n", TITLE_WIDTH, check->title, check->found);
        else
                fprintf(printer->file, "  %s\n", check->title);
        if (check->cause)
                fprintf(printer->file, INDENT "%s\n", check->cause);
        if (check->remedy)
                fprintf(printer->file, INDENT "-> %s\n", check->remedy);
}

static void print_checks(const Printer *printer, const DoctorReport *report, DoctorNeed need) {
        static const char *const heads[] = {
                [DOCTOR_REQUIRED] = "What crates cannot do without",
                [DOCTOR_LIMITS] = "What carries limits",
                [DOCTOR_OPTIONAL] = "What else there is to know",
        };

        fprintf(printer->file, "%s\n", heads[need]);
        for (size_t i = 0; i < report->n_checks; i++)
                if (report->checks[i].need == need)
                        print_check(printer, &report->checks[i]);
        fputc('\n', printer->file);
}

static void print_limits(const Printer *printer, const DoctorReport *report) {
        fputs("By what limits are enforced\n", printer->file);
        for (size_t i = 0; i < _LIMIT_MAX; i++) {
                const DoctorLimit *limit = &report->limits[i];
                bool weak = string_equal(limit->enforced_by, "sampler") ||
                            string_equal(limit->enforced_by, "refused");

                print_answer(printer, limit->enforced_by,
                             answer_color(weak ? DOCTOR_LIMITED : DOCTOR_YES, DOCTOR_LIMITS));
                fprintf(printer->file, "  %s\n", limit->name);
                if (limit->reason)
                        fprintf(printer->file, INDENT "%s\n", limit->reason);
        }
        fputc('\n', printer->file);
}

static void print_secret(const Printer *printer, const DoctorSecret *secret) {
        print_answer(printer,
                     secret->answer == DOCTOR_YES ? "ok" : doctor_answer_to_string(secret->answer),
                     answer_color(secret->answer, DOCTOR_OPTIONAL));
        fprintf(printer->file, "  %s, of ", secret->name);
        for (size_t i = 0; i < secret->credentials.n_items; i++)
                fprintf(printer->file, "%s%s", i > 0 ? ", " : "", secret->credentials.items[i]);
        fputc('\n', printer->file);
        if (secret->cause)
                fprintf(printer->file, INDENT "%s\n", secret->cause);
        if (secret->remedy)
                fprintf(printer->file, INDENT "-> %s\n", secret->remedy);
}

static void print_secrets(const Printer *printer, const DoctorReport *report) {
        if (report->n_secrets == 0)
                return;
        fputs("Secrets that credentials need\n", printer->file);
        for (size_t i = 0; i < report->n_secrets; i++)
                print_secret(printer, &report->secrets[i]);
        fputc('\n', printer->file);
}

static void print_summary(const Printer *printer, const DoctorReport *report) {
        int status = doctor_exit_status(report);

        if (status == DOCTOR_EXIT_NO_CRATES) {
                fprintf(printer->file, "Crates cannot run here as %s; what is needed first:\n",
                        report->user);
                for (size_t i = 0; i < report->n_checks; i++)
                        if (report->checks[i].need == DOCTOR_REQUIRED &&
                            report->checks[i].answer == DOCTOR_NO)
                                fprintf(printer->file, "  %s: %s\n", report->checks[i].id,
                                        report->checks[i].remedy ?: report->checks[i].cause);
                return;
        }
        fprintf(printer->file, "Crates run here as %s%s.\n", report->user,
                status == DOCTOR_EXIT_GOOD ? ", with all the limits that jobs have by default"
                                           : ", but not every limit can be relied on");
}

int doctor_print(const DoctorReport *report, bool color, FILE *file) {
        const Printer printer = {.file = file, .color = color};

        print_checks(&printer, report, DOCTOR_REQUIRED);
        print_checks(&printer, report, DOCTOR_LIMITS);
        print_checks(&printer, report, DOCTOR_OPTIONAL);
        print_limits(&printer, report);
        print_secrets(&printer, report);
        print_summary(&printer, report);
        return ferror(file) ? error_origin(-EIO) : 0;
}

/* --- JSON --- */

/* Paths of the host may hold any bytes. */
static json_t *json_text(const char *text) {
        json_t *string;

        if (!text)
                return json_null();
        string = json_string(text);
        return string ?: json_stringn_nocheck("?", 1);
}

static json_t *check_to_json(const DoctorCheck *check) {
        const char *name = check->error > 0 ? strerrorname_np(check->error) : NULL;

        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", check->id, "title",
                         check->title, "need", doctor_need_to_string(check->need), "answer",
                         doctor_answer_to_string(check->answer), "found", json_text(check->found),
                         "cause", json_text(check->cause), "step",
                         json_text(check->step[0] ? check->step : NULL), "errno", json_text(name),
                         "remedy", json_text(check->remedy));
}

static json_t *checks_to_json(const DoctorReport *report) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < report->n_checks; i++)
                if (json_array_append_new(array, check_to_json(&report->checks[i])) < 0) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

static json_t *limits_to_json(const DoctorReport *report) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < _LIMIT_MAX; i++) {
                const DoctorLimit *limit = &report->limits[i];

                if (json_array_append_new(array,
                                          json_pack("{s:s, s:s, s:b, s:o}", "name", limit->name,
                                                    "enforced_by", limit->enforced_by, "default",
                                                    limit->has_default, "reason",
                                                    json_text(limit->reason))) < 0) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *words_to_json(const StrV *words) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < words->n_items; i++)
                if (json_array_append_new(array, json_text(words->items[i])) < 0) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

static json_t *secret_to_json(const DoctorSecret *secret) {
        return json_pack("{s:s, s:o, s:s, s:o, s:s, s:o, s:o}", "name", secret->name, "credentials",
                         words_to_json(&secret->credentials), "instance",
                         secret->is_machines ? "system" : "user", "path", json_text(secret->path),
                         "answer", doctor_answer_to_string(secret->answer), "cause",
                         json_text(secret->cause), "remedy", json_text(secret->remedy));
}

static json_t *secrets_to_json(const DoctorReport *report) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < report->n_secrets; i++)
                if (json_array_append_new(array, secret_to_json(&report->secrets[i])) < 0) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

json_t *doctor_to_json(const DoctorReport *report) {
        json_t *checks = checks_to_json(report), *limits = limits_to_json(report);
        json_t *secrets = secrets_to_json(report);

        if (!checks || !limits || !secrets) {
                json_decref(checks);
                json_decref(limits);
                json_decref(secrets);
                return NULL;
        }
        return json_pack("{s:b, s:s, s:s, s:o, s:o, s:o}", "can_run", report->can_run, "user",
                         report->user, "kernel", report->kernel, "checks", checks, "limits", limits,
                         "secrets", secrets);
}
