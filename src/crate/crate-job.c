/* SPDX-License-Identifier: Apache-2.0 */

/* What is handed to init for a job: its argv and environment, its script. */

#include "crate/crate-state.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "plan/job-wire.h"

void crate_job_init(CrateJob *job) {
        *job = (CrateJob){.capture = CAPTURE_DEFAULT};
        limits_init(&job->limits);
}

void crate_job_done(CrateJob *job) {
        strv_done(&job->argv);
        strv_done(&job->env);
        free(job->command);
        free(job->cwd);
        free(job->stdin_data);
        *job = (CrateJob){};
}

static int memdup(const char *data, size_t size, char **ret_copy) {
        char *copy;

        if (!data)
                return 0;
        copy = malloc(size + 1);
        if (!copy)
                return error_origin(-ENOMEM);
        memcpy(copy, data, size);
        copy[size] = 0;
        *ret_copy = copy;
        return 0;
}

/* What is needed after the job's memfds are made: not its argv and environment. */
int crate_copy_job(Crate *crate, const CrateJob *job) {
        crate->job = (CrateJob){
                .stdin_mode = job->stdin_mode,
                .stdin_size = job->stdin_size,
                .tty = job->tty,
                .rows = job->rows,
                .columns = job->columns,
                .limits = job->limits,
                .on_hit = job->on_hit,
                .capture = job->capture,
        };
        return memdup(job->stdin_data, job->stdin_size, &crate->job.stdin_data);
}

/*
 * The shell text goes in a memfd that becomes fd 3 of the shell. Its first words close that fd
 * again: the shell reads the text through a descriptor of its own, and nothing that it starts
 * inherits one.
 */
static int crate_make_script(Crate *crate, const CrateJob *job, StrV *argv) {
        static const char prefix[] = "exec 3<&-; ";
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        r = strbuf_append_string(&text, prefix);
        if (r == 0)
                r = strbuf_append(&text, job->command, job->command_size);
        if (r == 0)
                r = memfd_new_sealed("command", text.data, text.size, &crate->script_fd);
        if (r == 0)
                r = strv_append(argv, "/bin/sh");
        if (r == 0)
                r = strv_append(argv, "/dev/fd/3");
        return r < 0 ? error_trace(r) : 0;
}

int crate_make_job(Crate *crate, const CrateJob *job) {
        char *no_env[] = {NULL};
        int r;

        r = job->command ? crate_make_script(crate, job, &crate->job.argv)
                         : strv_copy(&crate->job.argv, &job->argv);
        if (r < 0)
                return error_trace(r);
        crate->job.cwd = strdup(job->cwd ?: "/workspace");
        if (!crate->job.cwd)
                return error_origin(-ENOMEM);
        return job_wire_to_memfd(crate->job.argv.items, job->env.items ?: no_env, crate->job.cwd,
                                 &crate->job_fd);
}
