/* SPDX-License-Identifier: Apache-2.0 */
#include "run/tell.h"

#include "basic/error.h"
#include "run/record-file.h"
#include "run/refusals.h"
#include "run/report.h"

static int print_record(const CrateResult *result) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int r;

        r = record_format(result, true, &text, &size);
        if (r < 0)
                return error_trace(r);
        r = write_all(STDOUT_FILENO, text, size);
        if (r < 0)
                return report_failure("cannot write the record to standard output: %s",
                                      strerror(-r));
        return 0;
}

/* A command that ended by itself has said what it had to say, and an interrupted runner's caller
 * knows. */
static void print_verdict(const CrateResult *result) {
        _cleanup_(freep) char *verdict = NULL;

        if (result->outcome != CRATE_LIMIT && result->outcome != CRATE_EXEC_FAILED &&
            result->outcome != CRATE_LOST)
                return;
        verdict = crate_result_verdict(result);
        report("%s", verdict ?: "out of memory");
}

/* A person reads them as they come; anybody else gets no more than the job wrote, unless it went
 * wrong, for which they may be why. With --json the record has them. */
static int print_refusals(const RunOptions *options, const DestinationList *egress,
                          const CrateResult *result) {
        bool failed = crate_result_exit_status(result) != EXIT_SUCCESS;
        _cleanup_(strv_done) StrV lines = STRV_NULL;
        int r;

        if (options->json || (!failed && !isatty(STDERR_FILENO)))
                return 0;
        r = refusals_describe(result, egress, failed, &lines);
        for (size_t i = 0; i < lines.n_items; i++)
                report("%s", lines.items[i]);
        return error_trace(r);
}

int tell_end(const RunOptions *options, const DestinationList *egress, const CrateResult *result) {
        print_verdict(result);
        (void) print_refusals(options, egress, result);
        return options->json ? print_record(result) : 0;
}
