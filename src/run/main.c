/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-run: one job in a crate of its own, from start to end, without a daemon.
 */

#include "basic/macros.h"
#include "basic/shared-fd.h"
#include "run/report.h"
#include "run/run.h"

int main(int argc, char *argv[]) {
        _cleanup_(run_options_done) RunOptions options = {};
        _cleanup_(freep) char *text = NULL;
        const char *step = "cannot open /dev/null in the place of a closed standard file";
        int r;

        r = standard_fds_fill();
        if (r >= 0) {
                step = "cannot read the command line";
                r = run_options_parse(argc, argv, &options, &text);
        }
        if (r == RUN_OPTIONS_E_INVALID) {
                report("%s", text);
                return EXIT_RUNNER_FAILED;
        }
        if (r >= 0)
                r = run_command(&options, argv, &step);
        if (r < 0) {
                report("%s: %s (%s)", step, strerror(-r), strerrorname_np(-r) ?: "?");
                return EXIT_RUNNER_FAILED;
        }
        return r;
}
