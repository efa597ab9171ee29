/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this host can do for crates, and what not, with cause and remedy. Gathers facts, which
 * starts child processes and one crate but leaves nothing behind, and concludes from them.
 */

#include <jansson.h>
#include <stdio.h>

#include "doctor/check.h"

typedef struct DoctorReport {
        DoctorCheck *checks;
        size_t n_checks;
        DoctorLimit limits[_LIMIT_MAX];
        DoctorSecret *secrets;
        size_t n_secrets;
        bool can_run;
        char user[64], kernel[65];
} DoctorReport;

void doctor_report_done(DoctorReport *report);

/* Both, on this host. */
int doctor_run(DoctorReport *ret_report);
/* The second part alone. */
int doctor_judge(const DoctorFacts *facts, DoctorReport *ret_report);
enum {
        DOCTOR_EXIT_GOOD = 0,    /* crates run, and no limit that jobs have by default is sampled */
        DOCTOR_EXIT_LIMITED = 1, /* crates run, but some of those are sampled or refused */
        DOCTOR_EXIT_NO_CRATES = 2,
};

int doctor_exit_status(const DoctorReport *report);
/* Colour by escape sequences, if color is set. */
int doctor_print(const DoctorReport *report, bool color, FILE *file);
/* NULL: out of memory. */
json_t *doctor_to_json(const DoctorReport *report);
