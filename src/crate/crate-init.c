/* SPDX-License-Identifier: Apache-2.0 */

/* What init says, by the permit table of its link. */

#include "crate/crate-state.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "basic/error.h"

/* What there is room for beyond the limit, to be found there. */
#define SPARE_PROCESSES 8U
#define SPARE_PROCESSES_PART 8U

static int on_init_failed(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        ProtoFailure failure;

        memcpy(&failure, frame->payload, sizeof(failure));
        failure.step[sizeof(failure.step) - 1] = 0;
        failure.path[sizeof(failure.path) - 1] = 0;
        crate_fail(crate, &failure);
        return 0;
}

/*
 * Where the cgroup counts, it alone does: a fork that another limit refuses first is none of its
 * events. Else the kernel's refusal is an event of nobody's: where the job is to end for it, there
 * are some places more, and whoever is found there has gone too far. One would not be enough: of a
 * fork bomb, whose processes end as fast as they come, a look finds some less than there may be.
 * init is counted as well.
 */
static uint32_t crate_max_processes(const Crate *crate) {
        uint64_t max = crate->job.limits.max[LIMIT_PIDS];

        if (crate->means.of[LIMIT_PIDS] != LIMIT_BY_RLIMIT || max >= UINT32_MAX / 2)
                return 0;
        if (crate->job.on_hit == ON_HIT_END)
                max += max / SPARE_PROCESSES_PART + SPARE_PROCESSES;
        return (uint32_t) max + 1;
}

int crate_send_job(Crate *crate) {
        InitJob message = {.rows = crate->job.rows, .columns = crate->job.columns};
        int fds[3], r;
        size_t n = 0;

        if (crate->state != CRATE_STATE_READY || crate->job_sent ||
            (crate->egress.wanted && !crate->egress.ready))
                return 0;
        crate->job_sent = true;
        fds[n++] = crate->job_fd;
        message.max_processes = crate_max_processes(crate);
        if (crate->job.stdin_mode != CRATE_STDIN_NULL)
                message.flags |= INIT_JOB_STDIN_PIPE;
        if (crate->job.tty)
                message.flags |= INIT_JOB_TTY;
        if (crate->script_fd >= 0) {
                message.flags |= INIT_JOB_SCRIPT;
                fds[n++] = crate->script_fd;
        }
        if (crate->cgroup) {
                message.flags |= INIT_JOB_CGROUP;
                fds[n++] = cgroup_crate_exec_fd(crate->cgroup);
        }
        r = link_send(&crate->init, INIT_JOB, crate->id, &message, sizeof(message), fds, n);
        crate->job_fd = fd_close(crate->job_fd);
        crate->script_fd = fd_close(crate->script_fd);
        return r != 0 ? error_origin(-ECONNABORTED) : 0;
}

/* init has checked itself; what it reports is compared once more, since a crate weaker than its
 * plan is never used. */
static bool report_is_sound(const InitReport *report) {
        return (report->cap_effective | report->cap_permitted | report->cap_inheritable |
                report->cap_bounding | report->cap_ambient) == 0 &&
               report->no_new_privs == 1 && report->seccomp_mode == 2 && report->uid == 1000 &&
               report->gid == 1000 && report->n_interfaces == 1;
}

static int on_init_ready(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        InitReport report;

        memcpy(&report, frame->payload, sizeof(report));
        if (!report_is_sound(&report))
                return error_origin(-EPERM);
        crate->proc_fd = TAKE_FD(frame->fds[0]);
        if (frame->n_fds > 1)
                crate->private_fd = TAKE_FD(frame->fds[1]);
        crate->state = CRATE_STATE_READY;
        crate->init.state = CRATE_STATE_READY;
        return crate_send_job(crate);
}

static int on_init_started(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        uint64_t wall = crate->job.limits.max[LIMIT_WALL_TIME];
        int r;

        crate->state = CRATE_STATE_RUNNING;
        crate->init.state = CRATE_STATE_RUNNING;
        crate->start_usec = now_usec();
        crate->deadline_usec = wall != LIMIT_UNLIMITED ? crate->start_usec + wall : 0;
        r = crate_start_looking(crate);
        if (r < 0)
                return error_trace(r);

        if (crate->job.tty) {
                if (frame->n_fds != 1)
                        return error_origin(-EBADMSG);
                crate->stdin_fd = TAKE_FD(frame->fds[0]);
        } else {
                r = crate_take_streams(crate, frame);
                if (r < 0)
                        return error_trace(r);
        }
        if (crate->callbacks.on_started)
                crate->callbacks.on_started(crate, crate->userdata);
        if (crate->cancelled)
                crate_end_job(crate, false);
        return 0;
}

static const char *exec_step_name(uint32_t step) {
        switch (step) {
        case INIT_EXEC_STEP_EXEC:
                return "exec";
        case INIT_EXEC_STEP_CWD:
                return "cwd";
        case INIT_EXEC_STEP_STDIO:
                return "stdio";
        case INIT_EXEC_STEP_LIMITS:
                return "limits";
        default:
                return "clone";
        }
}

static void crate_explain_exec(Crate *crate, const InitExited *exited) {
        const char *step = exec_step_name(exited->step), *remedy = NULL;
        const char *what =
                exited->step == INIT_EXEC_STEP_CWD ? crate->job.cwd : crate->job.argv.items[0];
        const char *text = strerror(exited->error);

        if (exited->step == INIT_EXEC_STEP_CWD)
                remedy = "give a folder that exists in the crate; the workspace is /workspace";
        else if (exited->file_exists)
                text = "its interpreter (the #! line or the dynamic loader) is missing in the "
                       "crate",
                remedy = "use an interpreter below /usr, or a template that has it";
        else if (exited->error == ENOENT)
                text = "no such command in the crate",
                remedy = "only what the template shows is there: the host's /usr and the "
                         "workspace, not your home";
        else if (exited->error == EACCES)
                text = "it is not executable",
                remedy = "set its execute bit, or run it by its interpreter";
        else if (exited->error == ENOEXEC)
                text = "it is no program and has no #! line",
                remedy = "give it a #! line, or run it by its interpreter";
        else if (exited->error == E2BIG)
                text = "arguments and environment are too large together",
                remedy = "pass large data by stdin or a file";

        (void) crate_error_set(&crate->result.error, step, exited->error, what, remedy,
                               "%s%s cannot be %s: %s",
                               exited->step == INIT_EXEC_STEP_CWD ? "the working directory " : "",
                               what, exited->step == INIT_EXEC_STEP_CWD ? "entered" : "run", text);
}

/* The kernel ends all of a job that is out of memory, and tells nobody for whose sake. */
static void crate_name_killed(Crate *crate, const InitExited *exited) {
        char rss[LIMIT_TEXT_SIZE], name[PROTO_NAME_MAX] = "";

        if (crate->result.limit.name != LIMIT_MEMORY || exited->killed_pid == 0)
                return;
        for (size_t i = 0; i < sizeof(name) - 1 && exited->killed_name[i]; i++) {
                char c = exited->killed_name[i];

                name[i] = c >= ' ' && c <= '~' ? c : '?';
        }
        limit_format(LIMIT_MEMORY, exited->killed_rss_bytes, rss, sizeof(rss));
        (void) crate_result_add_evidence(
                &crate->result, crate_age_usec(crate), "oom_kill",
                "%s (pid %u) was the largest process that was killed, with up to %s in memory",
                name, exited->killed_pid, rss);
}

static int on_init_exited(void *userdata, Frame *frame) {
        Crate *crate = userdata;
        CrateResult *result = &crate->result;
        InitExited exited;

        memcpy(&exited, frame->payload, sizeof(exited));
        crate->dead = true;
        result->cpu_usec = exited.utime_usec + exited.stime_usec;
        result->memory_peak_bytes = exited.max_rss_bytes;
        result->wall_usec = exited.wall_usec;
        crate_note_processes(crate, exited.n_processes);

        if (exited.what == INIT_EXITED_EXEC_FAILED) {
                result->outcome = CRATE_EXEC_FAILED;
                crate_explain_exec(crate, &exited);
        } else if (WIFSIGNALED(exited.wait_status)) {
                result->outcome = CRATE_SIGNALED;
                result->signal = WTERMSIG(exited.wait_status);
        } else {
                result->outcome = CRATE_EXITED;
                result->exit_code = WEXITSTATUS(exited.wait_status);
                result->ended_itself = crate->ladder == LADDER_NONE;
        }

        result->n_refused = exited.net_refused;
        result->n_unrouted = exited.net_unrouted;
        result->n_missed = exited.net_missed;
        crate_look_back(crate);
        /* init has waited for that: it was the last one to hold the cgroup. */
        (void) shutdown(crate->init.fd, SHUT_WR);
        crate_name_killed(crate, &exited);
        crate_end(crate);
        crate->init.state = CRATE_STATE_ENDED;
        return 0;
}

const LinkPermit crate_init_permits[] = {
        {INIT_READY, CRATE_STATE_MAKING, sizeof(InitReport), sizeof(InitReport), 1, 2,
         on_init_ready},
        {INIT_FAILED, CRATE_STATE_MAKING, sizeof(ProtoFailure), sizeof(ProtoFailure), 0, 0,
         on_init_failed},
        {INIT_STARTED, CRATE_STATE_READY, sizeof(InitStarted), sizeof(InitStarted), 1, 3,
         on_init_started},
        {INIT_EXITED, CRATE_STATE_READY | CRATE_STATE_RUNNING, sizeof(InitExited),
         sizeof(InitExited), 0, 0, on_init_exited},
};

const size_t crate_n_init_permits = ELEMENTSOF(crate_init_permits);

void crate_on_init(Crate *crate) {
        int r;

        do
                r = link_dispatch(&crate->init, MSG_DONTWAIT);
        while (r == 0 && crate->init.fd >= 0);
        if (r == LINK_E_AGAIN || crate->init.fd < 0)
                return;

        crate_unwatch(crate, &crate->init.fd);
        if (r != LINK_E_EOF) {
                /* The peer is not what it should be. */
                crate_kill_init(crate);
                crate_lose(crate, "the crate's init broke the protocol and was killed");
        } else
                crate_lose(crate, "the crate's init was killed");
}

/* Nothing of the crate runs any more. init's last words may still be in its link, output in its
 * pipes. */
void crate_on_dead(Crate *crate) {
        crate->dead = true;
        if (crate->init.fd >= 0)
                crate_on_init(crate);
        crate_lose(crate, "the crate's init was killed");
}
