/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "basic/error.h"
#include "basic/macros.h"

/* What the child and this process share. */
typedef struct Shared {
        Probe probe;
        bool is_through;
} Shared;

void probe_begin(Probe *probe, const char *step, const char *path) {
        (void) snprintf(probe->step, sizeof(probe->step), "%s", step);
        (void) snprintf(probe->path, sizeof(probe->path), "%s", path);
}

bool probe_check(Probe *probe, bool ok) {
        if (!ok)
                probe->error = errno > 0 ? errno : EIO;
        return ok;
}

void probe_die_with_parent(void) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The parent may have died before this was said. */
        if (getppid() == 1)
                _exit(EXIT_FAILURE);
}

static _noreturn_ void run_child(ProbeFunction function, const void *userdata, Shared *shared,
                                 pid_t parent) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(EXIT_FAILURE);
        function(&shared->probe, userdata);
        shared->is_through = true;
        _exit(EXIT_SUCCESS);
}

/* Nobody writes: the end comes when the child and all that it has started are gone. */
static bool wait_for_end(int fd) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int n;

        do
                n = poll(&poll_fd, 1, PROBE_TIMEOUT_MSEC);
        while (n < 0 && errno == EINTR);
        return n > 0;
}

static void await_child(pid_t pid, int fd, Shared *shared) {
        bool in_time = wait_for_end(fd);
        int status = 0;

        if (!in_time)
                (void) kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (shared->is_through)
                return;
        shared->probe.error = in_time ? EINTR : ETIMEDOUT;
        shared->probe.signal = in_time && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int fork_child(ProbeFunction function, const void *userdata, Shared *shared) {
        _cleanup_(fd_closep) int read_fd = -EBADF, write_fd = -EBADF;
        pid_t pid, parent = getpid();
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return negative_errno();
        read_fd = fds[0];
        write_fd = fds[1];
        pid = fork();
        if (pid < 0)
                return negative_errno();
        if (pid == 0)
                run_child(function, userdata, shared, parent);
        write_fd = fd_close(write_fd);
        await_child(pid, read_fd, shared);
        return 0;
}

void probe_run(ProbeFunction function, const void *userdata, Probe *ret_probe) {
        Shared *shared;
        int r;

        *ret_probe = (Probe){.done = true};
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0);
        if (shared == MAP_FAILED) {
                probe_begin(ret_probe, "probe", "");
                (void) probe_check(ret_probe, false);
                return;
        }
        shared->probe.done = true;
        r = fork_child(function, userdata, shared);
        if (r < 0) {
                probe_begin(&shared->probe, "fork", "");
                shared->probe.error = -r;
        }
        *ret_probe = shared->probe;
        (void) munmap(shared, sizeof(*shared));
}
