/* SPDX-License-Identifier: Apache-2.0 */

/* Other processes: who is seen, who can be signalled or changed; what this process is. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "probe.h"

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_BEST_EFFORT_4 ((2 << 13) | 4)

static void answer_status(char *const *args) {
        _cleanup_(freep) char *line = NULL;
        FILE *status = fopen("/proc/self/status", "re");
        size_t n = strlen(args[0]), size = 0;

        if (!status) {
                say_result(-errno);
                return;
        }
        while (getline(&line, &size, status) > 0)
                if (strncmp(line, args[0], n) == 0 && line[n] == ':') {
                        line[strcspn(line, "\n")] = '\0';
                        for (char *c = line; *c; c++)
                                if (*c == '\t')
                                        *c = ' ';
                        say("%s", line + n + 2);
                }
        (void) fclose(status);
}

/* Who else is seen in /proc. The questioner's own parent is one of the job. */
static void answer_pids(char *const *args _unused_) {
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        size_t n = 0;

        if (!proc) {
                say_result(-errno);
                return;
        }
        while ((entry = readdir(proc))) {
                char *end;
                long pid = strtol(entry->d_name, &end, 10);

                if (*end || pid == getpid() || pid == getppid())
                        continue;
                say("%s%ld", n++ > 0 ? " " : "", pid);
        }
        if (n == 0)
                say("none");
        (void) closedir(proc);
}

static void answer_fds(char *const *args _unused_) {
        DIR *fds = opendir("/proc/self/fd");
        struct dirent *entry;
        size_t n = 0;

        if (!fds) {
                say_result(-errno);
                return;
        }
        while ((entry = readdir(fds))) {
                char *end;
                long fd = strtol(entry->d_name, &end, 10);

                if (!*end && fd != dirfd(fds))
                        say("%s%ld", n++ > 0 ? " " : "", fd);
        }
        (void) closedir(fds);
}

static void answer_kill(char *const *args) {
        say_result(result_of(kill((pid_t) number(args[0]), (int) number(args[1]))));
}

static void answer_kill_all(char *const *args _unused_) {
        say_result(result_of(kill(-1, 0)));
}

/* Each sets what is so already, or only asks; pid as all 64 bits. */
static long act_on(const char *how, unsigned long long pid) {
        struct {
                unsigned size, policy;
                unsigned long long flags;
                int nice;
                unsigned priority;
                unsigned long long runtime, deadline, period;
        } attr = {.size = 48};
        struct sched_param param = {};
        struct rlimit limit;
        unsigned long cpus[16];

        memset(cpus, 0xff, sizeof(cpus));
        if (strcmp(how, "prlimit64") == 0)
                return syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, &limit);
        if (strcmp(how, "sched_setaffinity") == 0)
                return syscall(SYS_sched_setaffinity, pid, sizeof(cpus), cpus);
        if (strcmp(how, "sched_setscheduler") == 0)
                return syscall(SYS_sched_setscheduler, pid, SCHED_OTHER, &param);
        if (strcmp(how, "sched_setparam") == 0)
                return syscall(SYS_sched_setparam, pid, &param);
        if (strcmp(how, "sched_setattr") == 0)
                return syscall(SYS_sched_setattr, pid, &attr, 0);
        if (strcmp(how, "setpriority") == 0)
                return syscall(SYS_setpriority, PRIO_PROCESS, pid, getpriority(PRIO_PROCESS, 0));
        if (strcmp(how, "ioprio_set") == 0)
                return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, pid, IOPRIO_BEST_EFFORT_4);
        errno = EBADRQC;
        return -1;
}

static void answer_act_on(char *const *args) {
        say_result(result_of(act_on(args[0], number(args[1]))));
}

/* A job that makes all processes of its user nicer must not reach the crate's init. */
static void answer_nice_init(char *const *args) {
        int which = strcmp(args[0], "user") == 0 ? PRIO_USER : PRIO_PGRP;
        int before, after;

        errno = 0;
        before = getpriority(PRIO_PROCESS, 1);
        if (errno != 0) {
                say_result(-errno);
                return;
        }
        (void) setpriority(which, 0, before + 1 > 19 ? 19 : before + 1);
        after = getpriority(PRIO_PROCESS, 1);
        say(after == before ? "unchanged" : "changed");
}

static void answer_oom_lower(char *const *args _unused_) {
        _cleanup_(fd_closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        if (fd < 0) {
                say("open ");
                say_result(-errno);
                return;
        }
        say_result(result_of(write(fd, "-1000", 5)));
}

const Question probe_proc[] = {
        {"status", 1, false, answer_status},
        {"pids", 0, false, answer_pids},
        {"fds", 0, false, answer_fds},
        {"kill", 2, false, answer_kill},
        {"kill-all", 0, true, answer_kill_all},
        {"act-on", 2, false, answer_act_on},
        {"nice-init", 1, false, answer_nice_init},
        {"oom-lower", 0, false, answer_oom_lower},
        {},
};
