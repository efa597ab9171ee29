/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate-run: one job in a crate of its own, from start to end, without a daemon.
 */

#include <fcntl.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "run/report.h"
#include "run/run.h"

/* Started with a standard file closed, the next file that we open would take its place, and the job
 * would write into it. */
static int fill_standard_fds(void) {
        int fd;

        do {
                fd = open("/dev/null", O_RDWR);
                if (fd < 0)
                        return error_origin(negative_errno());
        } while (fd <= STDERR_FILENO);
        (void) fd_close(fd);
        return 0;
}

int main(int argc, char *argv[]) {
        _cleanup_(run_options_done) RunOptions options = {};
        _cleanup_(freep) char *text = NULL;
        int r;

        r = fill_standard_fds();
        if (r >= 0)
                r = run_options_parse(argc, argv, &options, &text);
        if (r == RUN_OPTIONS_E_INVALID) {
                report("%s", text);
                return EXIT_RUNNER_FAILED;
        }
        if (r >= 0)
                r = run_command(&options);
        if (r < 0) {
                report("%s", strerror(-r));
                return EXIT_RUNNER_FAILED;
        }
        return r;
}
