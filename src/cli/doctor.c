/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate doctor: what this host can do for crates. Needs no broker.
 */

#include <jansson.h>
#include <stdio.h>

#include "basic/error.h"
#include "cli/command.h"
#include "doctor/doctor.h"

static int print_json(const DoctorReport *report) {
        json_t *json = doctor_to_json(report);
        int r;

        if (!json)
                return error_origin(-ENOMEM);
        r = json_dumpf(json, stdout, JSON_INDENT(2));
        json_decref(json);
        if (r == 0)
                putchar('\n');
        return r == 0 ? 0 : error_origin(-EIO);
}

static bool wants_color(void) {
        return isatty(STDOUT_FILENO) && string_empty(secure_getenv("NO_COLOR")) &&
               !string_equal(secure_getenv("TERM"), "dumb");
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(common_options_done) CommonOptions options = {};
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 0, 0, &options, &words, &status);
        /* 2 is an answer here. */
        if (r == COMMAND_E_DONE)
                return status == EXIT_USAGE ? EXIT_NO_BROKER : status;
        if (r == 0)
                r = doctor_run(&report);
        if (r == 0)
                r = options.json ? print_json(&report)
                                 : doctor_print(&report, wants_color(), stdout);
        return r < 0 ? error_trace(r) : doctor_exit_status(&report);
}

static const Option option_rows[] = {
        OPTION_ROW_JSON("print one JSON object"),
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

const Command command_doctor = {
        .name = "doctor",
        .arguments = "",
        .summary = "tell what this host lacks for crates, why, and what to do",
        .options = &option_table,
        .run = run,
};
