/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/job.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/memfd-util.h"
#include "basic/time-util.h"
#include "plan/job-wire.h"
#include "plan/plan.h"

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

/* Fds at and above this are init's own: the child's standard streams and the script never meet
 * them. */
#define JOB_FD_FIRST 10
#define JOB_SCRIPT_FD 3

typedef struct JobStart {
        char **argv, **env;
        const char *cwd;
        int stdio[3];  /* the job's ends */
        int script_fd; /* -EBADF: none */
        int cgroup_fd; /* -EBADF: none */
        uint32_t max_processes;
        bool tty;
        bool is_closed; /* init wears the closing rules itself */
        /* Written by the child, which shares our memory until its exec. */
        int error;
        uint32_t step;
        bool file_exists;
} JobStart;

/* init has no heap; one job in a crate's life at a time. */
static char *job_pointers[JOB_WIRE_STRINGS_MAX + 2];

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* clone3 looks absent, so that libc falls back to clone, whose flags the filter sees; and no
 * further filter can be added. Another architecture has other numbers and is the plan's to refuse.
 */
const struct sock_filter job_closing_rules[JOB_CLOSING_RULES] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
};

static int job_close_filter(void) {
        struct sock_filter filter[JOB_CLOSING_RULES + 1] = {
                [JOB_CLOSING_RULES] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};

        memcpy(filter, job_closing_rules, sizeof(job_closing_rules));

        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? negative_errno()
                                                                              : 0;
}

/* Counted for each user namespace, so that nothing outside of the crate adds to it. What we may not
 * have ourselves, a job cannot be given. */
static int job_limit_processes(uint32_t max) {
        struct rlimit limit;

        if (max == 0)
                return 0;
        if (getrlimit(RLIMIT_NPROC, &limit) < 0)
                return negative_errno();
        if (limit.rlim_max > max)
                limit.rlim_max = max;
        limit.rlim_cur = limit.rlim_max;
        return setrlimit(RLIMIT_NPROC, &limit) < 0 ? negative_errno() : 0;
}

static int fd_move(int fd, int to) {
        if (fd == to)
                return fcntl(fd, F_SETFD, 0) < 0 ? negative_errno() : 0;
        return dup2(fd, to) < 0 ? negative_errno() : 0;
}

static int job_child_stdio(const JobStart *start) {
        int r;

        if (setsid() < 0)
                return negative_errno();
        if (start->tty && ioctl(start->stdio[0], TIOCSCTTY, 0) < 0)
                return negative_errno();
        for (int i = 0; i < 3; i++) {
                r = fd_move(start->stdio[i], i);
                if (r < 0)
                        return r;
        }
        return start->script_fd >= 0 ? fd_move(start->script_fd, JOB_SCRIPT_FD) : 0;
}

static const char *env_path(char *const *env) {
        for (; *env; env++)
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        return PATH_DEFAULT;
}

/* An exec that failed: remembers whether the file itself is there, since then ENOENT speaks of its
 * interpreter. */
static int try_exec(JobStart *start, const char *path) {
        int error;

        (void) execve(path, start->argv, start->env);
        error = errno;
        if (error == ENOENT && faccessat(AT_FDCWD, path, F_OK, 0) == 0)
                start->file_exists = true;
        return error;
}

/* As execvp(3), but that a file without a known format is not handed to a shell. Returns the errno.
 */
static int job_exec(JobStart *start) {
        const char *name = start->argv[0], *path = env_path(start->env);
        char candidate[PLAN_PATH_MAX + 1];
        int error, result = ENOENT;

        /* An empty name is no command; with a folder before it, it would be that folder. */
        if (!*name || strchr(name, '/'))
                return try_exec(start, name);

        for (;;) {
                size_t n = strcspn(path, ":");

                if (snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int) n, path,
                             n > 0 ? "/" : "", name) < (int) sizeof(candidate)) {
                        error = try_exec(start, candidate);
                        if (start->file_exists ||
                            (error != ENOENT && error != ENOTDIR && error != EACCES))
                                return error;
                        if (error == EACCES)
                                result = EACCES;
                }
                if (!path[n])
                        return result;
                path += n + 1;
        }
}

/* The child between clone and exec. It runs on our memory and stack: it makes system calls, and
 * leaves through _exit(). */
static _noreturn_ void job_child(JobStart *start) {
        const struct sigaction by_default = {.sa_handler = SIG_DFL};
        sigset_t none;

        start->step = INIT_EXEC_STEP_STDIO;
        start->error = -job_child_stdio(start);
        if (start->error != 0)
                _exit(127);
        if (chdir(start->cwd) < 0) {
                start->step = INIT_EXEC_STEP_CWD;
                start->error = errno;
                _exit(127);
        }
        (void) umask(0022);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) sigaction(SIGXFSZ, &by_default, NULL);
        start->step = INIT_EXEC_STEP_LIMITS;
        start->error = -job_limit_processes(start->max_processes);
        if (start->error == 0 && !start->is_closed)
                start->error = -job_close_filter();
        if (start->error != 0)
                _exit(127);
        start->step = INIT_EXEC_STEP_EXEC;
        start->error = job_exec(start);
        _exit(127);
}

#if defined(__x86_64__)
static _always_inline_ long clone3_inline(struct clone_args *args) {
        register long result __asm__("rax") = SYS_clone3;

        __asm__ volatile("syscall"
                         : "+r"(result)
                         : "D"(args), "S"(sizeof(*args))
                         : "rcx", "r11", "memory");
        return result;
}

static _always_inline_ long clone_inline(unsigned long flags) {
        register long result __asm__("rax") = SYS_clone;
        register long thread __asm__("r8") = 0;
        register long child __asm__("r10") = 0;

        __asm__ volatile("syscall"
                         : "+r"(result)
                         : "D"(flags), "S"(0L), "d"(0L), "r"(child), "r"(thread)
                         : "rcx", "r11", "memory");
        return result;
}
#elif defined(__aarch64__)
static _always_inline_ long clone3_inline(struct clone_args *args) {
        register long x8 __asm__("x8") = SYS_clone3;
        register long x0 __asm__("x0") = (long) args;
        register long x1 __asm__("x1") = sizeof(*args);

        __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
        return x0;
}

static _always_inline_ long clone_inline(unsigned long flags) {
        register long x8 __asm__("x8") = SYS_clone;
        register long x0 __asm__("x0") = (long) flags;
        register long x1 __asm__("x1") = 0;
        register long x2 __asm__("x2") = 0;
        register long x3 __asm__("x3") = 0;
        register long x4 __asm__("x4") = 0;

        __asm__ volatile("svc 0"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                         : "memory");
        return x0;
}
#endif

/*
 * Like vfork(2): the child borrows our memory and stack until it execs, so it must not return from
 * here. The system call is inlined because the child would otherwise overwrite the return address
 * that we still need.
 */
static __attribute__((noinline)) pid_t job_clone(JobStart *start) {
        struct clone_args args = {
                .flags = CLONE_VM | CLONE_VFORK | (start->cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
                .exit_signal = SIGCHLD,
                .cgroup = start->cgroup_fd >= 0 ? (uint64_t) start->cgroup_fd : 0,
        };
        long pid;

#if defined(__x86_64__) || defined(__aarch64__)
        pid = start->is_closed ? -ENOSYS : clone3_inline(&args);
        /* It may be closed to us. Or the filter of an outer container may hide it; the old call
         * cannot enter a cgroup. */
        if (pid == -ENOSYS && start->cgroup_fd < 0)
                pid = clone_inline(CLONE_VM | CLONE_VFORK | SIGCHLD);
        if (pid == 0)
                job_child(start);
        if (pid < 0) {
                errno = (int) -pid;
                pid = -1;
        }
#else
        args.flags &= ~(uint64_t) CLONE_VM;
        pid = start->is_closed ? syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL)
                               : syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0)
                job_child(start);
#endif
        return (pid_t) pid;
}

/* A pipe whose ends lie above the job's fds. */
static int make_pipe(int *ret_read, int *ret_write) {
        int fds[2], ends[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return negative_errno();
        for (int i = 0; i < 2; i++) {
                ends[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, JOB_FD_FIRST);
                (void) close(fds[i]);
        }
        if (ends[0] < 0 || ends[1] < 0)
                return negative_errno();
        *ret_read = ends[0];
        *ret_write = ends[1];
        return 0;
}

static int open_null(void) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int high;

        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        high = fcntl(fd, F_DUPFD_CLOEXEC, JOB_FD_FIRST);
        return high < 0 ? negative_errno() : high;
}

/* Pipes for what is piped. host receives stdin's write end if there is one, then the read ends of
 * stdout and stderr. */
static int make_pipes(JobStart *start, bool pipe_stdin, int *host, size_t *ret_n_host) {
        size_t n = 0;
        int r;

        if (pipe_stdin) {
                r = make_pipe(&start->stdio[0], &host[n]);
                if (r < 0)
                        return r;
                n++;
        } else {
                start->stdio[0] = open_null();
                if (start->stdio[0] < 0)
                        return start->stdio[0];
        }
        for (int i = 1; i < 3; i++) {
                r = make_pipe(&host[n], &start->stdio[i]);
                if (r < 0)
                        return r;
                n++;
        }
        *ret_n_host = n;
        return 0;
}

/* A terminal of the crate's own; the host gets the master. */
static int make_terminal(JobStart *start, const InitJob *message, int *host, size_t *ret_n_host) {
        struct winsize size = {.ws_row = message->rows, .ws_col = message->columns};
        _cleanup_(fd_closep) int master = -EBADF;
        int zero = 0, slave;

        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) < 0)
                return negative_errno();
        if (size.ws_row > 0 && size.ws_col > 0 && ioctl(master, TIOCSWINSZ, &size) < 0)
                return negative_errno();
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return negative_errno();
        start->tty = true;
        for (int i = 0; i < 3; i++) {
                start->stdio[i] = fcntl(slave, F_DUPFD_CLOEXEC, JOB_FD_FIRST);
                if (start->stdio[i] < 0)
                        return negative_errno();
        }
        (void) close(slave);
        host[0] = TAKE_FD(master);
        *ret_n_host = 1;
        return 0;
}

static void close_all(int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                fds[i] = fd_close(fds[i]);
}

/* The fds that the frame says to carry, in their order. */
static int job_take_fds(JobStart *start, const InitJob *message, Frame *frame) {
        size_t i = 1;

        if (message->flags & INIT_JOB_SCRIPT) {
                if (i >= frame->n_fds)
                        return -EBADMSG;
                start->script_fd = fcntl(frame->fds[i++], F_DUPFD_CLOEXEC, JOB_FD_FIRST);
                if (start->script_fd < 0)
                        return negative_errno();
        }
        if (message->flags & INIT_JOB_CGROUP) {
                if (i >= frame->n_fds)
                        return -EBADMSG;
                start->cgroup_fd = frame->fds[i++]; /* borrowed from the frame */
        }
        return i == frame->n_fds ? 0 : -EBADMSG;
}

static int job_fail(InitExited *ret_exited, uint32_t step, int error, bool file_exists) {
        *ret_exited = (InitExited){
                .what = INIT_EXITED_EXEC_FAILED,
                .step = step,
                .error = error,
                .file_exists = file_exists,
        };
        return JOB_E_EXEC_FAILED;
}

static int job_run(Job *job, JobStart *start, InitExited *ret_exited) {
        pid_t pid;

        job->start_usec = now_usec();
        job->has_cgroup = start->cgroup_fd >= 0;
        pid = job_clone(start);
        if (pid < 0)
                return job_fail(ret_exited, INIT_EXEC_STEP_CLONE, errno, false);
        if (start->error != 0)
                /* The child is a zombie or about to be one; the loop's reaping takes it. */
                return job_fail(ret_exited, start->step, start->error, start->file_exists);
        job->pid = pid;
        return 0;
}

int job_start(Job *job, int control_fd, Frame *frame, InitExited *ret_exited) {
        JobStart start = {
                .stdio = {-EBADF, -EBADF, -EBADF}, .script_fd = -EBADF, .cgroup_fd = -EBADF};
        InitStarted started = {};
        int host[3] = {-EBADF, -EBADF, -EBADF};
        const void *wire = NULL;
        size_t size, n_host = 0;
        InitJob message;
        int r;

        memcpy(&message, frame->payload, sizeof(message));
        start.max_processes = message.max_processes;
        start.is_closed = job->is_closed;
        r = memfd_map_sealed(frame->fds[0], sizeof(JobWire) + JOB_WIRE_SIZE_MAX, &wire, &size);
        if (r == 0)
                r = job_wire_parse(wire, size, job_pointers, ELEMENTSOF(job_pointers), &start.argv,
                                   &start.env, &start.cwd);
        if (r == 0)
                r = job_take_fds(&start, &message, frame);
        if (r != 0)
                return job_fail(ret_exited, INIT_EXEC_STEP_CLONE, r < 0 ? -r : EBADMSG, false);

        if (message.flags & INIT_JOB_TTY)
                r = make_terminal(&start, &message, host, &n_host);
        else
                r = make_pipes(&start, message.flags & INIT_JOB_STDIN_PIPE, host, &n_host);
        if (r == 0) {
                started.n_stdio = (uint32_t) n_host;
                r = frame_send(control_fd, INIT_STARTED, frame->header.id, &started,
                               sizeof(started), host, n_host);
        }
        /* Our copies of the host's ends must be gone before the job runs: they would keep its pipes
         * open. */
        close_all(host, ELEMENTSOF(host));
        r = r != 0 ? job_fail(ret_exited, INIT_EXEC_STEP_STDIO, r < 0 ? -r : EPIPE, false)
                   : job_run(job, &start, ret_exited);

        close_all(start.stdio, ELEMENTSOF(start.stdio));
        start.script_fd = fd_close(start.script_fd);
        if (wire)
                (void) munmap((void *) wire, size);
        return r;
}
