/* SPDX-License-Identifier: Apache-2.0 */

/* What a job does with its own processes and its output. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "probe.h"

/* Bytes on stdout, as fast as they are taken. */
static void answer_flood(char *const *args) {
        static char chunk[1 << 16];
        unsigned long long left = number(args[0]);

        for (size_t i = 0; i < sizeof(chunk); i++)
                chunk[i] = i % 64 == 63 ? '\n' : 'y';
        while (left > 0) {
                ssize_t n = write(STDOUT_FILENO, chunk,
                                  left < sizeof(chunk) ? (size_t) left : sizeof(chunk));

                if (n <= 0)
                        return;
                left -= (unsigned long long) n;
        }
}

/* A process that has left its parent, its session and all signals that can be ignored, and that
 * holds stdout and stderr. */
static void answer_daemon(char *const *args) {
        unsigned seconds = (unsigned) number(args[0]);
        pid_t pid = fork();

        if (pid < 0)
                exit(1);
        if (pid > 0) {
                (void) waitpid(pid, NULL, 0);
                say("OK");
                return;
        }
        (void) setsid();
        if (fork() != 0)
                _exit(0);
        (void) setsid();
        for (int i = 1; i < NSIG; i++)
                (void) sigaction(i, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
        (void) sleep(seconds);
        _exit(0);
}

static size_t count_zombies(void) {
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        size_t n = 0;

        if (!proc)
                return SIZE_MAX;
        while ((entry = readdir(proc))) {
                char path[512], text[512] = "", *state;
                _cleanup_(fd_closep) int fd = -EBADF;

                (void) snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
                if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name))
                        continue;
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                        continue;
                state = strrchr(text, ')');
                if (state && strncmp(state, ") Z", 3) == 0)
                        n++;
        }
        (void) closedir(proc);
        return n;
}

/* Orphans that end at once are init's to reap: how many lie about when all had time to. */
static void answer_orphans(char *const *args) {
        unsigned long long n = number(args[0]);
        size_t zombies = 0;

        for (unsigned long long i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid < 0) {
                        say("fork ");
                        say_result(-errno);
                        return;
                }
                if (pid == 0) {
                        (void) fork();
                        _exit(0);
                }
                (void) waitpid(pid, NULL, 0);
        }
        for (int tries = 0; tries < 100; tries++) {
                zombies = count_zombies();
                if (zombies == 0)
                        break;
                (void) usleep(50000);
        }
        say("%zu zombies", zombies);
}

/* Children that nobody waits for; they stay until the job ends. */
static void answer_zombies(char *const *args) {
        unsigned long long n = number(args[0]), i;

        for (i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        break;
                if (pid == 0)
                        _exit(0);
        }
        say("%llu", i);
}

/* This program once more, from a file that has no name. */
static void answer_fileless(char *const *args _unused_) {
        _cleanup_(fd_closep) int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_(fd_closep) int copy = memfd_create("probe", MFD_CLOEXEC);
        char *const argv[] = {(char *) "crate-probe", (char *) "splice", NULL};
        struct stat st;

        if (self < 0 || copy < 0 || fstat(self, &st) < 0 ||
            sendfile(copy, self, NULL, (size_t) st.st_size) != st.st_size) {
                say("copy ");
                say_result(-errno);
                return;
        }
        (void) fexecve(copy, argv, (char *const[]){NULL});
        say_result(-errno);
}

const Question probe_job[] = {
        {"flood", 1, false, answer_flood},       {"daemon", 1, false, answer_daemon},
        {"orphans", 1, false, answer_orphans},   {"zombies", 1, true, answer_zombies},
        {"fileless", 0, false, answer_fileless}, {},
};
