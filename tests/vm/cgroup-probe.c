/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A tree of cgroups on a leash: takes commands on stdin, one a line, and answers each with one line
 * that begins with "ok", "refused REASON" or "failed FAILURE".
 *
 *   usage: cgroup-probe own | plain | scope FOLDER | service FOLDER
 *
 *   enable [LIMIT=N]…                    second step, with the instance's ceiling
 *   ceiling [LIMIT=N]…                   the instance's ceiling anew
 *   crate NAME [tenant=N] [t.LIMIT=N | c.LIMIT=N | j.LIMIT=N]…
 *   job NAME [LIMIT=N]…                  the job's limits anew
 *   run NAME COMMAND                     by a shell in the leaf, in the background; its pid
 *   init NAME COMMAND                    the same in init/
 *   poll NAME MSEC | check NAME | usage NAME | kill NAME | kill-job NAME | populated NAME
 *   watch-end NAME | free NAME | sweep | missing | wait PID | quit
 *
 * LIMIT is memory, pids, cpus, rbps or wbps.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/parse-util.h"
#include "basic/string-util.h"
#include "cgroup/cgroup.h"

#define CRATES_MAX 16U

typedef struct Probe {
        CgroupTree *tree;
        struct {
                char name[16];
                CgroupCrate *crate;
        } crates[CRATES_MAX];
} Probe;

static void answer_failure(const CgroupFailure *failure) {
        char *text = cgroup_failure_format(failure);

        printf("failed %s\n", text ?: "?");
        free(text);
}

static void answer(int r, const CgroupFailure *failure) {
        if (r == CGROUP_E_FAILED)
                answer_failure(failure);
        else if (r != 0)
                printf("failed %s\n", strerror(r < 0 ? -r : r));
        else
                puts("ok");
}

static char *next_word(char **line) {
        char *word = *line;

        word += strspn(word, " ");
        *line = word + strcspn(word, " ");
        if (**line)
                *(*line)++ = 0;
        return word;
}

static uint64_t number(const char *text) {
        uint64_t value = 0;

        return parse_uint64(text, &value) == 0 ? value : 0;
}

static void set_limit(CgroupLimits *limits, const char *word) {
        const char *value;

        if ((value = string_after(word, "memory=")))
                limits->memory = number(value);
        else if ((value = string_after(word, "pids=")))
                limits->pids = number(value);
        else if ((value = string_after(word, "cpus=")))
                limits->cpus = number(value);
        else if ((value = string_after(word, "rbps=")))
                limits->io_read_bps = number(value);
        else if ((value = string_after(word, "wbps=")))
                limits->io_write_bps = number(value);
}

static CgroupCrate **probe_find(Probe *probe, const char *name) {
        for (size_t i = 0; i < CRATES_MAX; i++)
                if (string_equal(probe->crates[i].name, name))
                        return &probe->crates[i].crate;
        return NULL;
}

static void do_enable(Probe *probe, char *line) {
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;
        int r;

        for (char *word = next_word(&line); *word; word = next_word(&line))
                set_limit(&limits, word);
        r = cgroup_tree_enable(probe->tree, &limits, &failure);
        if (r == 0)
                printf("ok %u\n", cgroup_tree_controllers(probe->tree));
        else
                answer(r, &failure);
}

static void do_ceiling(Probe *probe, char *line) {
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;

        for (char *word = next_word(&line); *word; word = next_word(&line))
                set_limit(&limits, word);
        answer(cgroup_tree_set_limits(probe->tree, &limits, &failure), &failure);
}

static void do_missing(Probe *probe) {
        printf("ok");
        for (unsigned bit = 1; bit & _CGROUP_ALL; bit <<= 1) {
                const char *reason = cgroup_tree_missing(probe->tree, (CgroupController) bit);

                if (reason)
                        printf(" %s: %s;", cgroup_controller_to_string((CgroupController) bit),
                               reason);
        }
        puts("");
}

static void do_crate(Probe *probe, const char *name, char *line) {
        CgroupLimits tenant = CGROUP_LIMITS_NONE, own = CGROUP_LIMITS_NONE,
                     job = CGROUP_LIMITS_NONE;
        CgroupCrateSpec spec = {.tenant_limits = &tenant, .crate_limits = &own, .job_limits = &job};
        CgroupFailure failure;
        const char *rest;
        size_t i = 0;
        int r;

        for (char *word = next_word(&line); *word; word = next_word(&line)) {
                if ((rest = string_after(word, "tenant=")))
                        spec.tenant = (uint32_t) number(rest);
                else if ((rest = string_after(word, "t.")))
                        set_limit(&tenant, rest);
                else if ((rest = string_after(word, "c.")))
                        set_limit(&own, rest);
                else if ((rest = string_after(word, "j.")))
                        set_limit(&job, rest);
        }
        while (i < CRATES_MAX && probe->crates[i].crate)
                i++;
        if (i == CRATES_MAX) {
                puts("failed too many crates");
                return;
        }
        r = cgroup_crate_make(probe->tree, &spec, &probe->crates[i].crate, &failure);
        if (r != 0) {
                answer(r, &failure);
                return;
        }
        (void) snprintf(probe->crates[i].name, sizeof(probe->crates[i].name), "%s", name);
        printf("ok %s\n", cgroup_crate_path(probe->crates[i].crate));
}

static void do_job(CgroupCrate *crate, char *line) {
        CgroupLimits limits = CGROUP_LIMITS_NONE;
        CgroupFailure failure;
        int r;

        for (char *word = next_word(&line); *word; word = next_word(&line))
                set_limit(&limits, word);
        r = cgroup_crate_set_job_limits(crate, &limits, &failure);
        answer(r, &failure);
}

static void do_run(int cgroup_fd, const char *command) {
        struct clone_args args = {
                .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t) cgroup_fd};
        pid_t pid;

        (void) fflush(stdout);
        pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                int fd = open("/dev/null", O_RDWR);

                (void) dup2(fd, 0);
                (void) dup2(fd, 1);
                (void) dup2(fd, 2);
                (void) close_range(3, ~0U, 0);
                (void) execl("/bin/sh", "sh", "-c", command, NULL);
                _exit(127);
        }
        if (pid < 0)
                printf("failed clone3: %m\n");
        else
                printf("ok %d\n", pid);
}

static void print_breach(const char *name, const CgroupBreach *breach) {
        if (breach->hits > 0)
                printf(" %s=%s:%" PRIu64 ":%" PRIu64 ":%" PRIu64, name,
                       cgroup_level_to_string(breach->level), breach->max, breach->observed,
                       breach->hits);
}

static void do_check(CgroupCrate *crate) {
        CgroupBreaches breaches;
        CgroupFailure failure;

        if (cgroup_crate_check(crate, &breaches, &failure) != 0) {
                answer_failure(&failure);
                return;
        }
        printf("ok");
        print_breach("memory", &breaches.memory);
        print_breach("pids", &breaches.pids);
        puts("");
}

static void do_usage(const CgroupCrate *crate) {
        CgroupFailure failure;
        CgroupUsage usage;

        if (cgroup_crate_read_usage(crate, CGROUP_USAGE_ALL, &usage, &failure) != 0) {
                answer_failure(&failure);
                return;
        }
        printf("ok has=%u cpu=%" PRIu64 " memory=%" PRIu64 " memory_peak=%" PRIu64 " pids=%" PRIu64
               " pids_peak=%" PRIu64 " read=%" PRIu64 " write=%" PRIu64 "\n",
               usage.has, usage.cpu_usec, usage.memory_current, usage.memory_peak,
               usage.pids_current, usage.pids_peak, usage.io_read_bytes, usage.io_write_bytes);
}

static void do_poll(const CgroupCrate *crate, int msec) {
        struct pollfd poll_fd = {.fd = cgroup_crate_events_fd(crate), .events = POLLIN};

        printf("ok %d\n", poll(&poll_fd, 1, msec));
}

static void do_wait(pid_t pid) {
        int status = -1;

        (void) waitpid(pid, &status, 0);
        printf("ok %d\n", status);
}

static void with_crate(CgroupCrate **crate, const char *what, char *line) {
        if (string_equal(what, "job"))
                do_job(*crate, line);
        else if (string_equal(what, "run"))
                do_run(cgroup_crate_exec_fd(*crate), line);
        else if (string_equal(what, "init"))
                do_run(cgroup_crate_init_fd(*crate), line);
        else if (string_equal(what, "poll"))
                do_poll(*crate, (int) number(line));
        else if (string_equal(what, "check"))
                do_check(*crate);
        else if (string_equal(what, "usage"))
                do_usage(*crate);
        else if (string_equal(what, "kill"))
                answer(cgroup_crate_kill(*crate), NULL);
        else if (string_equal(what, "kill-job"))
                answer(cgroup_crate_kill_job(*crate), NULL);
        else if (string_equal(what, "watch-end"))
                answer(cgroup_crate_watch_end(*crate), NULL);
        else if (string_equal(what, "populated"))
                printf("ok %d %d\n", cgroup_crate_is_populated(*crate),
                       cgroup_crate_job_is_populated(*crate));
        else if (string_equal(what, "free")) {
                *crate = cgroup_crate_free(*crate);
                puts("ok");
        } else
                puts("failed no such command");
}

static void probe_do(Probe *probe, char *line) {
        const char *what = next_word(&line), *name;
        CgroupCrate **crate;

        if (string_equal(what, "enable"))
                do_enable(probe, line);
        else if (string_equal(what, "ceiling"))
                do_ceiling(probe, line);
        else if (string_equal(what, "missing"))
                do_missing(probe);
        else if (string_equal(what, "sweep"))
                printf("ok %zu\n", cgroup_tree_sweep(probe->tree));
        else if (string_equal(what, "wait"))
                do_wait((pid_t) number(line));
        else {
                name = next_word(&line);
                if (string_equal(what, "crate")) {
                        do_crate(probe, name, line);
                        return;
                }
                crate = probe_find(probe, name);
                if (crate && *crate)
                        with_crate(crate, what, line);
                else
                        puts("failed no such crate");
        }
}

static int probe_open(Probe *probe, int argc, char *argv[], char **ret_reason) {
        int fd = argc > 2 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -EBADF;

        if (string_equal(argv[1], "own"))
                return cgroup_tree_new_own(&probe->tree, ret_reason);
        if (string_equal(argv[1], "plain"))
                return cgroup_tree_new_plain(&probe->tree, ret_reason);
        if (string_equal(argv[1], "scope"))
                return cgroup_tree_new_scope(fd, &probe->tree, ret_reason);
        return cgroup_tree_new_service(fd, &probe->tree, ret_reason);
}

int main(int argc, char *argv[]) {
        _cleanup_(freep) char *reason = NULL;
        Probe probe = {};
        char line[4096];
        int r;

        if (argc < 2)
                return 2;
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        r = probe_open(&probe, argc, argv, &reason);
        printf(r == 0 ? "ok%s\n" : "refused %s\n", r == 0 ? "" : reason ?: strerror(-r));
        while (r == 0 && fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = 0;
                if (string_equal(line, "quit"))
                        break;
                probe_do(&probe, line);
        }
        for (size_t i = 0; i < CRATES_MAX; i++)
                cgroup_crate_free(probe.crates[i].crate);
        cgroup_tree_free(probe.tree);
        return r == 0 ? 0 : 1;
}
