/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What depends on the machine's instruction set: other ways into the kernel than the native system
 * call, and signals of the processor.
 */

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "probe.h"

#if defined(__x86_64__)

#define X32_BIT 0x40000000L

/* getpid by the 32-bit gate. */
static void answer_int80(char *const *args _unused_) {
        long result;

        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "a"(20L)
                         : "memory", "cc", "r8", "r9", "r10", "r11");
        say_result(result);
}

static void answer_x32(char *const *args _unused_) {
        say_result(result_of(syscall(SYS_getpid | X32_BIT)));
}

#else

static void answer_int80(char *const *args _unused_) {
        say("no such gate");
}

static void answer_x32(char *const *args _unused_) {
        say("no such gate");
}

#endif

static void answer_segv(char *const *args _unused_) {
        (void) raise(SIGSEGV);
        say("survived");
}

static void answer_rlimit(char *const *args) {
        struct rlimit limit;

        if (getrlimit((__rlimit_resource_t) number(args[0]), &limit) < 0) {
                say_result(-errno);
                return;
        }
        if (limit.rlim_cur == RLIM_INFINITY)
                say("unlimited");
        else
                say("%llu", (unsigned long long) limit.rlim_cur);
        if (limit.rlim_max == RLIM_INFINITY)
                say(" unlimited");
        else
                say(" %llu", (unsigned long long) limit.rlim_max);
}

const Question probe_machine[] = {
        {"int80", 0, false, answer_int80},
        {"x32", 0, false, answer_x32},
        {"segv", 0, false, answer_segv},
        {"rlimit", 1, false, answer_rlimit},
        {},
};
