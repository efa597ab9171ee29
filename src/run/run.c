/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "crate/launcher.h"
#include "crate/run-cgroups.h"
#include "launcher/launcher-run.h"
#include "run/prepare.h"
#include "run/pump.h"
#include "run/record-file.h"
#include "run/report.h"
#include "run/tell.h"
#include "run/terminal.h"

/* How long a reader that has stopped may hold back our end once the job was ended by force. */
#define FLUSH_GRACE_MSEC 500
/* The same for the rest of a terminal's output, which the kernel hands over from a work queue. */
#define MASTER_GRACE_MSEC 500
/* For a crate's init to be gone after it has answered. */
#define DEAD_GRACE_MSEC 5000
#define MASTER_CHUNK 16384U

typedef struct Runner {
        const RunOptions *options;
        const char **step; /* what is being done, for main to say if it fails */
        RunSetup setup;
        RecordFile record;
        Terminal terminal;
        Launcher *launcher;
        bool launcher_gone;
        RunCgroups cgroups;
        CgroupCrate *cgroup; /* of the crate */
        Crate *crate;
        Egress *egress; /* NULL: the command reaches nothing */
        int signal_fd;
        int master;           /* of the job's terminal */
        OutputPump output[2]; /* by CrateStream */
        InputPump input;
        bool is_ended;
        bool is_cancelled;
        int failure; /* RUN_E_REPORTED: we could not do our part, whatever the job did */
} Runner;

static void runner_done(Runner *runner) {
        terminal_restore(&runner->terminal);
        if (runner->crate) {
                /* Whoever called us may count on nothing being left: no process, and no mount that
                 * pins a folder. */
                if (runner->is_ended)
                        crate_wait_dead(runner->crate, DEAD_GRACE_MSEC);
                runner->crate = crate_free(runner->crate);
        }
        if (runner->launcher)
                runner->launcher = launcher_free(runner->launcher);
        runner->egress = egress_free(runner->egress);
        /* The launcher has gone, and the crate too unless something holds it up. */
        if (runner->cgroups.tree)
                cgroup_tree_leave(runner->cgroups.tree);
        runner->cgroup = cgroup_crate_free(runner->cgroup);
        run_cgroups_done(&runner->cgroups);
        /* The launcher ends before its crate, so init has become our child. */
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        for (size_t i = 0; i < ELEMENTSOF(runner->output); i++)
                output_pump_done(&runner->output[i]);
        input_pump_done(&runner->input);
        runner->master = fd_close(runner->master);
        runner->signal_fd = fd_close(runner->signal_fd);
        record_file_done(&runner->record);
        run_setup_done(&runner->setup);
}

/* The first request asks politely, a second one insists. */
static void runner_cancel(Runner *runner, int signal, bool grace) {
        if (runner->is_ended)
                return;
        crate_cancel(runner->crate, signal, grace && !runner->is_cancelled);
        runner->is_cancelled = true;
}

/* --- output --- */

/* Our reader is gone or our file is full: the job's output has no place to go. */
static void output_failed(Runner *runner, CrateStream stream, int r) {
        if (r != PUMP_E_BROKEN) {
                report("cannot write standard %s: %s; the job was ended",
                       stream == CRATE_STDOUT ? "output" : "error", strerror(-r));
                runner->failure = RUN_E_REPORTED;
        }
        runner_cancel(runner, SIGPIPE, false);
}

static void output_take(Runner *runner, CrateStream stream, const void *data, size_t size) {
        OutputPump *pump = &runner->output[stream];
        int r;

        r = output_pump_write(pump, data, size);
        if (r != 0)
                output_failed(runner, stream, r);
        else if (output_pump_is_pending(pump) && runner->master < 0)
                (void) crate_pause_output(runner->crate, stream, true);
}

static void output_flush(Runner *runner, CrateStream stream) {
        OutputPump *pump = &runner->output[stream];
        int r;

        r = output_pump_flush(pump);
        if (!output_pump_is_pending(pump) && runner->master < 0 && !runner->is_ended)
                (void) crate_pause_output(runner->crate, stream, false);
        if (r != 0)
                output_failed(runner, stream, r);
}

/* Moves output of the job's terminal. True: there may be more. */
static bool master_read(Runner *runner) {
        char buffer[MASTER_CHUNK];
        ssize_t n;

        n = read(runner->master, buffer, sizeof(buffer));
        if (n > 0) {
                output_take(runner, CRATE_STDOUT, buffer, (size_t) n);
                return true;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return true;
        /* EIO: nobody has the terminal open any more. The input keeps it: with its last master the
         * job's session would be hung up before the job has ended by itself. */
        runner->master = fd_close(runner->master);
        return false;
}

/* --- what the crate tells --- */

static int start_input(Runner *runner, int sink) {
        return error_trace(
                input_pump_init(&runner->input, STDIN_FILENO, sink, runner->setup.job.tty));
}

static int start_terminal(Runner *runner, int master) {
        int flags = fcntl(master, F_GETFL);
        int sink;

        runner->master = master;
        if (flags < 0 || fcntl(master, F_SETFL, flags | O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        sink = fcntl(master, F_DUPFD_CLOEXEC, 3);
        if (sink < 0)
                return error_origin(negative_errno());
        terminal_copy_size(&runner->terminal, master);
        return error_trace(start_input(runner, sink));
}

static void on_started(Crate *crate, void *userdata) {
        Runner *runner = userdata;
        int fd = crate_take_stdin(crate);
        int r;

        if (fd < 0)
                return;
        r = runner->setup.job.tty ? start_terminal(runner, fd) : start_input(runner, fd);
        if (r < 0) {
                report("cannot hand over standard input: %s", strerror(-r));
                runner->failure = RUN_E_REPORTED;
                runner_cancel(runner, SIGTERM, false);
        }
}

static void on_output(Crate *crate _unused_, CrateStream stream, const void *data, size_t size,
                      void *userdata) {
        Runner *runner = userdata;

        if (!runner->options->json)
                output_take(runner, stream, data, size);
}

static void on_end(Crate *crate _unused_, void *userdata) {
        Runner *runner = userdata;

        runner->is_ended = true;
}

/* --- signals --- */

/* What was ignored when we started stays ignored: nohup and shells' background jobs rely on it. */
static void add_signal(sigset_t *set, int signal) {
        struct sigaction action;

        if (sigaction(signal, NULL, &action) >= 0 && action.sa_handler != SIG_IGN)
                (void) sigaddset(set, signal);
}

static int open_signals(Runner *runner) {
        static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigset_t set;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(ending); i++)
                add_signal(&set, ending[i]);
        (void) sigaddset(&set, SIGCONT);
        if (runner->options->tty)
                (void) sigaddset(&set, SIGWINCH);
        /* A closed reader is an outcome of write here. */
        if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return error_origin(negative_errno());
        runner->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return runner->signal_fd < 0 ? error_origin(negative_errno()) : 0;
}

static void take_signals(Runner *runner) {
        struct signalfd_siginfo info;

        while (read(runner->signal_fd, &info, sizeof(info)) == (ssize_t) sizeof(info)) {
                switch (info.ssi_signo) {
                case SIGWINCH:
                        if (runner->master >= 0)
                                terminal_copy_size(&runner->terminal, runner->master);
                        break;
                case SIGCONT:
                        runner->input.is_stopped = false;
                        break;
                default:
                        runner_cancel(runner, (int) info.ssi_signo, true);
                }
        }
}

/* --- the loop --- */

typedef enum PollSlot {
        POLL_SIGNAL,
        POLL_LAUNCHER,
        POLL_CRATE,
        POLL_EGRESS,
        POLL_STDOUT,
        POLL_STDERR,
        POLL_SOURCE,
        POLL_SINK,
        POLL_MASTER,
        _POLL_MAX,
} PollSlot;

/* A negative fd is what poll passes over. */
static void fill_polls(const Runner *runner, struct pollfd *polls) {
        const InputPump *input = &runner->input;
        bool wants_write = input_pump_wants_write(input);

        for (int i = 0; i < _POLL_MAX; i++)
                polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        polls[POLL_SIGNAL].fd = runner->signal_fd;
        if (!runner->launcher_gone)
                polls[POLL_LAUNCHER].fd = launcher_get_fd(runner->launcher);
        polls[POLL_CRATE].fd = crate_get_fd(runner->crate);
        if (runner->egress)
                polls[POLL_EGRESS].fd = egress_get_fd(runner->egress);
        for (int i = 0; i < 2; i++)
                if (output_pump_is_pending(&runner->output[i]))
                        polls[POLL_STDOUT + i] =
                                (struct pollfd){.fd = runner->output[i].file.fd, .events = POLLOUT};
        if (input_pump_wants_read(input))
                polls[POLL_SOURCE].fd = input->source.fd;
        /* Without anything to write this still tells that the job has closed its input. A terminal
         * would only tell that nobody has opened it yet. */
        if (input->sink >= 0 && (wants_write || !input->sink_is_terminal))
                polls[POLL_SINK] =
                        (struct pollfd){.fd = input->sink, .events = wants_write ? POLLOUT : 0};
        if (runner->master >= 0 && !output_pump_is_pending(&runner->output[CRATE_STDOUT]))
                polls[POLL_MASTER].fd = runner->master;
}

static int dispatch_launcher(Runner *runner) {
        int r;

        r = launcher_dispatch(runner->launcher);
        if (r == LAUNCHER_E_FAILED)
                /* A crate that was made does not need it any more, any other one has failed. */
                runner->launcher_gone = true;
        return r < 0 ? error_trace(r) : 0;
}

static void dispatch_input(Runner *runner, const struct pollfd *polls) {
        int r;

        if (polls[POLL_SINK].revents & POLLERR && !runner->input.sink_is_terminal)
                input_pump_close_sink(&runner->input);
        r = input_pump_move(&runner->input, polls[POLL_SOURCE].revents != 0);
        if (r < 0)
                report("cannot read standard input: %s; it counts as empty", strerror(-r));
}

static int runner_step(Runner *runner) {
        int timeout = runner->master >= 0 ? input_pump_repeat_msec(&runner->input) : -1;
        struct pollfd polls[_POLL_MAX];
        int r = 0;

        fill_polls(runner, polls);
        if (poll(polls, _POLL_MAX, timeout) < 0)
                return errno == EINTR ? 0 : error_origin(negative_errno());

        if (polls[POLL_SIGNAL].revents)
                take_signals(runner);
        if (polls[POLL_LAUNCHER].revents)
                r = dispatch_launcher(runner);
        if (polls[POLL_EGRESS].revents)
                egress_dispatch(runner->egress);
        /* A failure of the crate's own is a result: lost. */
        if (r >= 0 && polls[POLL_CRATE].revents && !runner->is_ended)
                (void) crate_dispatch(runner->crate);
        for (int i = 0; i < 2; i++)
                if (polls[POLL_STDOUT + i].revents)
                        output_flush(runner, (CrateStream) i);
        if (polls[POLL_SOURCE].revents || polls[POLL_SINK].revents)
                dispatch_input(runner, polls);
        if (polls[POLL_MASTER].revents && runner->master >= 0)
                (void) master_read(runner);
        if (runner->master >= 0)
                input_pump_repeat_end(&runner->input);
        return r;
}

/* The rest of what the job wrote. A job that ended by itself is waited for however slow the reader
 * is, as any program's output would be; one that was ended must not hang on a reader that stopped.
 */
static void flush_output(Runner *runner, bool by_force) {
        uint64_t deadline = now_usec() + FLUSH_GRACE_MSEC * USEC_PER_MSEC;

        for (int i = 0; i < 2; i++) {
                OutputPump *pump = &runner->output[i];

                while (output_pump_is_pending(pump)) {
                        struct pollfd polls[] = {{.fd = pump->file.fd, .events = POLLOUT},
                                                 {.fd = runner->signal_fd, .events = POLLIN}};

                        if (by_force && now_usec() >= deadline)
                                return;
                        if (poll(polls, 2, by_force ? FLUSH_GRACE_MSEC : -1) < 0 && errno != EINTR)
                                return;
                        if (polls[1].revents)
                                return;
                        if (polls[0].revents)
                                output_flush(runner, (CrateStream) i);
                }
        }
}

static void drain_master(Runner *runner) {
        while (runner->master >= 0) {
                struct pollfd poll_fd = {.fd = runner->master, .events = POLLIN};

                if (poll(&poll_fd, 1, MASTER_GRACE_MSEC) <= 0 || !master_read(runner))
                        return;
        }
}

/* --- start and end --- */

/* The kind of standard input that the job gets: an open pipe makes some tools wait for it. */
static bool stdin_is_null(void) {
        struct stat st;

        return fstat(STDIN_FILENO, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* Before there is a plan, or any of the configuration in our memory: the launcher makes its
 * namespaces while we look at templates and paths. */
static int runner_fork(Runner *runner, char **argv) {
        int r;

        *runner->step = "cannot start the launcher";
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return error_origin(negative_errno());
        r = launcher_fork(argv, launcher_run, &runner->launcher);
        if (r < 0)
                return error_trace(r);
        *runner->step = "cannot look for cgroups";
        return error_trace(run_cgroups_begin(&runner->cgroups, launcher_get_pid(runner->launcher)));
}

/* With a tree the launcher must have left its root before any limit can be written. */
static int runner_enable_cgroups(Runner *runner) {
        struct pollfd poll_fd = {.fd = launcher_get_fd(runner->launcher), .events = POLLIN};
        CgroupFailure failure;
        int r;

        while (!launcher_is_ready(runner->launcher)) {
                if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
                        return error_origin(negative_errno());
                r = launcher_dispatch(runner->launcher);
                if (r == LAUNCHER_E_FAILED)
                        return report_crate_error(launcher_get_error(runner->launcher));
                if (r < 0)
                        return error_trace(r);
        }
        r = cgroup_tree_enable(runner->cgroups.tree, NULL, &failure);
        return r < 0 ? error_trace(r) : 0;
}

/* What enforces the limits, and the job's cgroup where that is one. */
static int runner_enforce(Runner *runner) {
        RunCgroups *cgroups = &runner->cgroups;
        int r;

        if (cgroups->tree) {
                *runner->step = "cannot set up cgroups";
                r = runner_enable_cgroups(runner);
                if (r != 0)
                        return r;
        }
        *runner->step = "cannot decide how limits are enforced";
        return run_setup_enforce(&runner->setup, runner->options->enforce, cgroups->tree,
                                 cgroups->reason, &runner->cgroup);
}

static int runner_start_egress(Runner *runner) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        int r;

        *runner->step = "cannot start agentcrate-egress";
        r = egress_new(NULL, &runner->egress);
        if (r == 0)
                r = egress_start(runner->egress, &error);
        return r == EGRESS_E_FAILED ? report_crate_error(&error) : error_trace(r);
}

static int runner_start(Runner *runner) {
        static const CrateCallbacks callbacks = {on_started, on_output, on_end};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        RunSetup *setup = &runner->setup;
        LauncherConfig config = {
                .tree = setup->plans.tree,
                .net_stock = 0,
                .one_shot = true,
                .no_late = !plan_has_stage(setup->plans.crate, PLAN_STAGE_LATE),
                .subuid_base = setup->config.subuid_base,
                .subuid_count = setup->config.subuid_count,
        };
        CrateSpec spec = {
                .plan = setup->plans.crate,
                .template = setup->template->name,
                .workspace_rw = setup->plans.workspace_rw,
        };
        int r;

        if (setup->plans.egress && !runner->egress) {
                r = runner_start_egress(runner);
                if (r != 0)
                        return r;
        }
        *runner->step = "cannot look for cgroups";
        r = run_cgroups_wait(&runner->cgroups);
        if (r < 0)
                return error_trace(r);
        config.cgroups = runner->cgroups.tree;
        *runner->step = "cannot set up the launcher";
        r = launcher_set_up(runner->launcher, &config, &error);
        if (r == LAUNCHER_E_FAILED)
                return report_crate_error(&error);
        if (r < 0)
                return error_trace(r);

        r = runner_enforce(runner);
        if (r != 0)
                return r < 0 ? error_trace(r) : r;
        spec.egress_plan = &setup->plans.egress;
        spec.egress = runner->egress;
        spec.cgroup = runner->cgroup;
        spec.means = &setup->means;
        spec.notes = &setup->notes;

        *runner->step = "cannot make the crate";
        setup->job.stdin_mode = stdin_is_null() ? CRATE_STDIN_NULL : CRATE_STDIN_OWNER;
        terminal_get_size(&runner->terminal, &setup->job.rows, &setup->job.columns);
        memcpy(spec.plan_digest, setup->plans.digest, sizeof(spec.plan_digest));
        r = crate_new(runner->launcher, &spec, &setup->job, &callbacks, runner, &runner->crate,
                      &error);
        if (r > 0 || (r < 0 && error.text))
                return report_crate_error(&error);
        if (r < 0)
                return error_trace(r);

        *runner->step = "cannot watch for signals";
        r = open_signals(runner);
        if (r < 0 || !setup->job.tty)
                return error_trace(r);
        *runner->step = "cannot make the terminal raw";
        r = terminal_make_raw(&runner->terminal);
        return error_trace(r);
}

static int exit_status(int r) {
        return r == RUN_E_REPORTED ? EXIT_RUNNER_FAILED : error_trace(r);
}

static int runner_finish(Runner *runner) {
        const CrateResult *result = crate_get_result(runner->crate);
        bool by_force = result->outcome == CRATE_LIMIT || result->outcome == CRATE_CANCELLED;
        int r, q;

        drain_master(runner);
        flush_output(runner, by_force);
        terminal_restore(&runner->terminal);
        r = tell_end(runner->options, &runner->setup.egress, result);
        q = record_file_write(&runner->record, result);
        if (r < 0 || q < 0)
                return error_trace(r < 0 ? r : q);
        if (r == RUN_E_REPORTED || q == RUN_E_REPORTED || runner->failure == RUN_E_REPORTED)
                return EXIT_RUNNER_FAILED;
        return crate_result_exit_status(result);
}

static int runner_run(Runner *runner) {
        int r;

        r = runner_start(runner);
        if (r != 0)
                return exit_status(r);
        *runner->step = "cannot wait for the crate";
        while (!runner->is_ended) {
                r = runner_step(runner);
                if (r < 0)
                        return error_trace(r);
        }
        *runner->step = "cannot write the record";
        return runner_finish(runner);
}

static int print_help(void) {
        run_options_print_help(stdout);
        return 0;
}

static int print_version(void) {
        printf("agentcrate-run %s\n", PACKAGE_VERSION);
        return 0;
}

/* What meets our caller's limit on the size of files is said; the signal would say nothing. */
static void ignore_file_size(void) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};

        (void) sigaction(SIGXFSZ, &ignore, NULL);
}

static int print_plan(Runner *runner) {
        int r;

        *runner->step = "cannot read the template and plan the crate";
        r = run_setup_init(&runner->setup, runner->options);
        if (r != 0)
                return exit_status(r);
        *runner->step = "cannot print the plan";
        return exit_status(run_setup_print(&runner->setup, &runner->options->allow));
}

/* Other processes first: they start while the plan is built. */
static int runner_prepare(Runner *runner, char **argv) {
        const RunOptions *options = runner->options;
        int r;

        r = runner_fork(runner, argv);
        if (r == 0 && (options->allow.n_items > 0 || options->operations.n_items > 0))
                r = runner_start_egress(runner);
        if (r != 0)
                return r;

        *runner->step = "cannot read the template and plan the crate";
        r = run_setup_init(&runner->setup, options);
        if (r == 0 && options->result) {
                *runner->step = "cannot open the file of --result";
                r = record_file_open(&runner->record, options->result);
        }
        if (r != 0)
                return r;

        terminal_init(&runner->terminal);
        output_pump_init(&runner->output[CRATE_STDOUT], STDOUT_FILENO);
        output_pump_init(&runner->output[CRATE_STDERR], STDERR_FILENO);
        return 0;
}

int run_command(const RunOptions *options, char **argv, const char **ret_step) {
        _cleanup_(runner_done) Runner runner = {
                .options = options,
                .step = ret_step,
                .record = RECORD_FILE_NULL,
                .terminal = TERMINAL_NULL,
                .cgroups = RUN_CGROUPS_NULL,
                .signal_fd = -EBADF,
                .master = -EBADF,
                .output = {OUTPUT_PUMP_NULL, OUTPUT_PUMP_NULL},
                .input = INPUT_PUMP_NULL,
        };
        int r;

        switch (options->action) {
        case RUN_ACTION_HELP:
                return print_help();
        case RUN_ACTION_VERSION:
                return print_version();
        case RUN_ACTION_PRINT_PLAN:
                return print_plan(&runner);
        default:
                break;
        }

        ignore_file_size();
        r = runner_prepare(&runner, argv);
        return r == 0 ? runner_run(&runner) : exit_status(r);
}
