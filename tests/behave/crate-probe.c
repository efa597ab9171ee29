/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "probe.h"

static const Question *const tables[] = {
        probe_calls, probe_files, probe_ipc, probe_job, probe_machine, probe_proc, probe_sockets,
};

void say(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vprintf(format, ap);
        va_end(ap);
}

void say_result(long result) {
        const char *name;

        if (result >= 0) {
                say("OK");
                return;
        }
        name = strerrorname_np((int) -result);
        if (name)
                say("%s", name);
        else
                say("errno %ld", -result);
}

long result_of(long returned) {
        return returned < 0 ? -errno : returned;
}

unsigned long long number(const char *s) {
        unsigned long long value;
        char *end;

        errno = 0;
        value = strtoull(s, &end, 0);
        if (errno != 0 || end == s || *end) {
                fprintf(stderr, "crate-probe: not a number: %s\n", s);
                exit(2);
        }
        return value;
}

static const Question *question_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(tables); i++)
                for (const Question *q = tables[i]; q->name; q++)
                        if (strcmp(q->name, name) == 0)
                                return q;
        return NULL;
}

/* Splits the text after "=" at its commas, in place. Returns how many there are, or -1. */
static int args_split(char *text, char **ret_args) {
        int n = 0;

        while (text) {
                if (n == PROBE_ARGS_MAX)
                        return -1;
                ret_args[n++] = strsep(&text, ",");
        }
        return n;
}

static void answer_in_child(const Question *question, char *const *args) {
        pid_t pid;
        int status;

        pid = fork();
        if (pid < 0) {
                say("fork ");
                say_result(-errno);
                return;
        }
        if (pid == 0) {
                question->answer(args);
                (void) fflush(stdout);
                _exit(0);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR) {
                        say("lost");
                        return;
                }
        if (WIFSIGNALED(status))
                say("killed SIG%s", sigabbrev_np(WTERMSIG(status)));
        else if (WEXITSTATUS(status) != 0)
                say("exit %d", WEXITSTATUS(status));
}

static void ask(const char *asked) {
        _cleanup_(freep) char *text = NULL;
        char *args[PROBE_ARGS_MAX] = {};
        const Question *question;
        char *rest;
        int n = 0;

        text = strdup(asked);
        if (!text)
                exit(2);
        rest = strchr(text, '=');
        if (rest) {
                *rest++ = '\0';
                n = args_split(rest, args);
        }
        question = question_find(text);
        if (!question || n != question->n_args) {
                fprintf(stderr, "crate-probe: no such question, or wrong arguments: %s\n", asked);
                exit(2);
        }

        printf("%s\t", asked);
        (void) fflush(stdout);
        if (question->alone)
                question->answer(args);
        else
                answer_in_child(question, args);
        printf("\n");
        (void) fflush(stdout);
}

int main(int argc, char **argv) {
        if (argc < 2) {
                fprintf(stderr, "usage: crate-probe QUESTION[=ARG[,ARG]...]...\n");
                return 2;
        }
        for (int i = 1; i < argc; i++)
                ask(argv[i]);
        return 0;
}
