/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The shipped profiles, as the programs that come out of them: against a table of what must happen,
 * against a second, direct reading of their rules for every number, and in the kernel.
 */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/string-util.h"
#include "bpf-interpreter.h"
#include "seccomp/emit.h"
#include "seccomp/load.h"
#include "seccomp/profile.h"
#include "seccomp/words.h"

#define NEWEST 450
#define X32_BIT 0x40000000

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define ERR(e) (SECCOMP_RET_ERRNO | (e))

enum {
        DEBUG,
        DEFAULT,
        STRICT,
        N_PROFILES,
};

static const char *const profile_names[N_PROFILES] = {"debug", "default", "strict"};
static const uint32_t audit_arch[_SECCOMP_ARCH_MAX] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};

typedef struct Program {
        SeccompSource *source;
        struct sock_filter *code[_SECCOMP_ARCH_MAX];
        size_t n_code[_SECCOMP_ARCH_MAX];
} Program;

static Program programs[N_PROFILES];

static void programs_load(void) {
        const char *dir = secure_getenv("AGENTCRATE_SOURCE_DIR") ?: secure_getenv("srcdir") ?: ".";

        for (size_t i = 0; i < N_PROFILES; i++) {
                _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
                _cleanup_(freep) char *path = NULL;

                ck_assert_int_gt(
                        asprintf(&path, "%s/policies/seccomp/%s.profile", dir, profile_names[i]),
                        0);
                ck_assert_int_eq(seccomp_load(path, &diags, &programs[i].source), 0);
                for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++)
                        ck_assert_int_eq(seccomp_emit(programs[i].source, arch,
                                                      &programs[i].code[arch],
                                                      &programs[i].n_code[arch]),
                                         0);
        }
}

static void programs_done(void) {
        for (size_t i = 0; i < N_PROFILES; i++) {
                for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++)
                        free(programs[i].code[arch]);
                programs[i].source = seccomp_source_free(programs[i].source);
        }
}

static uint32_t run(size_t profile, SeccompArch arch, const struct seccomp_data *data) {
        uint32_t action = 0;

        ck_assert(bpf_run(programs[profile].code[arch], programs[profile].n_code[arch], data,
                          &action));
        return action;
}

/* --- the table --- */

typedef struct Row {
        const char *call;
        uint64_t args[4];
        uint32_t action; /* in debug and default; in strict, too, unless it says otherwise */
        uint32_t strict; /* 0: the same */
        uint32_t debug;  /* 0: the same */
} Row;

/* What a call gets, with these arguments. */
#define ROW(name, what, ...)                                                                       \
        { .call = (name), .args = {__VA_ARGS__}, .action = (what) }
/* Strict does not allow it at all. */
#define ROW_NOT_STRICT(name, what)                                                                 \
        { .call = (name), .action = ALLOW, .strict = (what) }
/* Debug allows it. */
#define ROW_NOT_DEBUG(name, what, ...)                                                             \
        { .call = (name), .args = {__VA_ARGS__}, .action = (what), .debug = ALLOW }

#define INET_ROWS(family)                                                                          \
        ROW("socket", ALLOW, family, SOCK_STREAM, 0), ROW("socket", ALLOW, family, SOCK_DGRAM, 0), \
                ROW("socket", ALLOW, family, SOCK_STREAM, IPPROTO_TCP),                            \
                ROW("socket", ALLOW, family, SOCK_DGRAM, IPPROTO_UDP),                             \
                ROW("socket", ALLOW, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),       \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_RAW, IPPROTO_TCP),                \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_RAW | SOCK_CLOEXEC, 0),           \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_SEQPACKET, 0),                    \
                ROW("socket", ERR(EPROTONOSUPPORT), family, 10 /* SOCK_PACKET */, 0),              \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_DGRAM, IPPROTO_ICMP),             \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_STREAM, 262 /* MPTCP */),         \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_STREAM, IPPROTO_SCTP),            \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_DGRAM, IPPROTO_UDPLITE),          \
                ROW("socket", ERR(EPROTONOSUPPORT), family, SOCK_STREAM | 0x10, 0)

#define CLONE_ROWS(flag)                                                                           \
        ROW("clone", ERR(EPERM), (flag) | SIGCHLD), ROW("clone", ERR(EPERM), (flag) | CLONE_VM)

/* The set-id bits, in the argument that the call has its mode in. */
#define MODE_ROWS(name, ...)                                                                       \
        ROW(name, ALLOW, __VA_ARGS__, 0755), ROW(name, ALLOW, __VA_ARGS__, 01777),                 \
                ROW(name, ERR(EPERM), __VA_ARGS__, 04755),                                         \
                ROW(name, ERR(EPERM), __VA_ARGS__, 02755),                                         \
                ROW(name, ERR(EPERM), __VA_ARGS__, 06000)

static const Row rows[] = {
        /* open for init, closed behind it */
        ROW("clone3", ALLOW),
        ROW("seccomp", ALLOW),
        /* refused as unknown */
        ROW("io_uring_setup", ERR(ENOSYS)),
        ROW("io_uring_enter", ERR(ENOSYS)),
        ROW("io_uring_register", ERR(ENOSYS)),
        ROW("io_setup", ERR(ENOSYS)),
        ROW("open_tree", ERR(ENOSYS)),
        ROW("move_mount", ERR(ENOSYS)),
        ROW("fsopen", ERR(ENOSYS)),
        ROW("fsconfig", ERR(ENOSYS)),
        ROW("fsmount", ERR(ENOSYS)),
        ROW("fspick", ERR(ENOSYS)),
        ROW("mount_setattr", ERR(ENOSYS)),
        ROW("userfaultfd", ERR(ENOSYS)),
        ROW("bpf", ERR(ENOSYS)),
        ROW("perf_event_open", ERR(ENOSYS)),
        ROW("fanotify_init", ERR(ENOSYS)),
        ROW("fanotify_mark", ERR(ENOSYS)),
        ROW("name_to_handle_at", ERR(ENOSYS)),
        ROW("open_by_handle_at", ERR(ENOSYS)),
        ROW("kcmp", ERR(ENOSYS)),
        ROW("pidfd_getfd", ERR(ENOSYS)),
        ROW("process_madvise", ERR(ENOSYS)),
        ROW("memfd_secret", ERR(ENOSYS)),
        ROW("openat2", ERR(ENOSYS)),
        /* refused */
        ROW("acct", ERR(EPERM)),
        ROW("add_key", ERR(EPERM)),
        ROW("request_key", ERR(EPERM)),
        ROW("keyctl", ERR(EPERM)),
        ROW("adjtimex", ERR(EPERM)),
        ROW("clock_adjtime", ERR(EPERM)),
        ROW("clock_settime", ERR(EPERM)),
        ROW("settimeofday", ERR(EPERM)),
        ROW("chroot", ERR(EPERM)),
        ROW("pivot_root", ERR(EPERM)),
        ROW("mount", ERR(EPERM)),
        ROW("umount2", ERR(EPERM)),
        ROW("unshare", ERR(EPERM)),
        ROW("setns", ERR(EPERM)),
        ROW("init_module", ERR(EPERM)),
        ROW("finit_module", ERR(EPERM)),
        ROW("delete_module", ERR(EPERM)),
        ROW("kexec_load", ERR(EPERM)),
        ROW("kexec_file_load", ERR(EPERM)),
        ROW("reboot", ERR(EPERM)),
        ROW("swapon", ERR(EPERM)),
        ROW("swapoff", ERR(EPERM)),
        ROW("ioperm", ERR(EPERM)),
        ROW("iopl", ERR(EPERM)),
        ROW("modify_ldt", ERR(EPERM)),
        ROW_NOT_DEBUG("ptrace", ERR(EPERM), 0),
        ROW_NOT_DEBUG("process_vm_readv", ERR(EPERM), 0),
        ROW_NOT_DEBUG("process_vm_writev", ERR(EPERM), 0),
        ROW("lookup_dcookie", ERR(EPERM)),
        ROW("mbind", ERR(EPERM)),
        ROW("get_mempolicy", ERR(EPERM)),
        ROW("set_mempolicy", ERR(EPERM)),
        ROW("set_mempolicy_home_node", ERR(EPERM)),
        ROW("migrate_pages", ERR(EPERM)),
        ROW("move_pages", ERR(EPERM)),
        ROW("quotactl", ERR(EPERM)),
        ROW("quotactl_fd", ERR(EPERM)),
        ROW("syslog", ERR(EPERM)),
        ROW("sethostname", ERR(EPERM)),
        ROW("setdomainname", ERR(EPERM)),
        ROW("vhangup", ERR(EPERM)),
        ROW("ustat", ERR(EPERM)),
        ROW("sysfs", ERR(EPERM)),
        ROW("uselib", ERR(EPERM)),
        ROW("vmsplice", ERR(EPERM)),
        ROW("nfsservctl", ERR(EPERM)),
        /* what a job and its init live on */
        ROW("read", ALLOW),
        ROW("close", ALLOW),
        ROW("execve", ALLOW),
        ROW("vfork", ALLOW),
        ROW("wait4", ALLOW),
        ROW("waitid", ALLOW),
        ROW("kill", ALLOW),
        ROW("pipe2", ALLOW),
        ROW("dup3", ALLOW),
        ROW("poll", ALLOW),
        ROW("ppoll", ALLOW),
        ROW("signalfd4", ALLOW),
        ROW("recvmsg", ALLOW),
        ROW("sendmsg", ALLOW),
        ROW("prctl", ALLOW),
        ROW("fstatfs", ALLOW),
        ROW("statfs", ALLOW),
        ROW("setsid", ALLOW),
        ROW("chdir", ALLOW),
        ROW("mmap", ALLOW),
        ROW("munmap", ALLOW),
        ROW("exit_group", ALLOW),
        ROW("getpid", ALLOW),
        ROW("futex", ALLOW),
        ROW("memfd_create", ALLOW),
        ROW("execveat", ALLOW),
        ROW("splice", ALLOW),
        ROW("landlock_restrict_self", ALLOW),
        /* what only strict closes */
        ROW_NOT_STRICT("remap_file_pages", ERR(EPERM)),
        /* namespaces */
        ROW("clone", ALLOW, SIGCHLD),
        ROW("clone", ALLOW, CLONE_VM | CLONE_VFORK | SIGCHLD),
        ROW("clone", ALLOW,
            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                    CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID),
        CLONE_ROWS(CLONE_NEWNS),
        CLONE_ROWS(CLONE_NEWCGROUP),
        CLONE_ROWS(CLONE_NEWUTS),
        CLONE_ROWS(CLONE_NEWIPC),
        CLONE_ROWS(CLONE_NEWUSER),
        CLONE_ROWS(CLONE_NEWPID),
        CLONE_ROWS(CLONE_NEWNET),
        /* terminals */
        ROW("ioctl", ERR(EPERM), 0, TIOCSTI),
        ROW("ioctl", ERR(EPERM), 0, TIOCLINUX),
        ROW("ioctl", ALLOW, 0, TIOCGWINSZ),
        ROW("ioctl", ALLOW, TIOCSTI, TCGETS),
        /* personality */
        ROW("personality", ALLOW, 0),
        ROW("personality", ALLOW, 0xffffffff),
        ROW_NOT_DEBUG("personality", ERR(EPERM), 0x0040000 /* ADDR_NO_RANDOMIZE */),
        ROW_NOT_DEBUG("personality", ERR(EPERM), 0x0400000 /* READ_IMPLIES_EXEC */),
        ROW_NOT_DEBUG("personality", ERR(EPERM), 0xfffffffe),
        /* sockets */
        ROW("socket", ALLOW, AF_UNIX, SOCK_STREAM, 0),
        ROW("socket", ALLOW, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
        INET_ROWS(AF_INET),
        INET_ROWS(AF_INET6),
        ROW("socket", ALLOW, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
        ROW("socket", ALLOW, AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_XFRM),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_AUDIT),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_GENERIC),
        ROW("socket", ERR(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO),
        ROW("socket", ERR(EAFNOSUPPORT), AF_PACKET, SOCK_RAW, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_VSOCK, SOCK_STREAM, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_ALG, SOCK_SEQPACKET, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_XDP, SOCK_RAW, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_KEY, SOCK_RAW, 2),
        ROW("socket", ERR(EAFNOSUPPORT), AF_KCM, SOCK_DGRAM, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_TIPC, SOCK_DGRAM, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_RDS, SOCK_SEQPACKET, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_SMC, SOCK_STREAM, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_BLUETOOTH, SOCK_RAW, 0),
        ROW("socket", ERR(EAFNOSUPPORT), AF_UNSPEC, SOCK_STREAM, 0),
        ROW("socket", ERR(EAFNOSUPPORT), 0xffffffff, SOCK_STREAM, 0),
        ROW("socketpair", ALLOW, AF_UNIX, SOCK_STREAM, 0),
        ROW("socketpair", ERR(EAFNOSUPPORT), AF_INET, SOCK_STREAM, 0),
        ROW("socketpair", ERR(EAFNOSUPPORT), AF_TIPC, SOCK_SEQPACKET, 0),
        /* set-id bits */
        MODE_ROWS("chmod", 0),
        MODE_ROWS("fchmod", 0),
        MODE_ROWS("creat", 0),
        MODE_ROWS("mkdir", 0),
        MODE_ROWS("mknod", 0),
        MODE_ROWS("fchmodat", 0, 0),
        MODE_ROWS("mkdirat", 0, 0),
        MODE_ROWS("mknodat", 0, 0),
        MODE_ROWS("open", 0, O_CREAT | O_WRONLY),
        MODE_ROWS("open", 0, O_TMPFILE | O_RDWR),
        MODE_ROWS("openat", 0, 0, O_CREAT | O_WRONLY | O_EXCL),
        MODE_ROWS("openat", 0, 0, O_TMPFILE | O_RDWR),
        ROW("mknod", ALLOW, 0, S_IFIFO | 0644),
        ROW("mknodat", ERR(EPERM), 0, 0, S_IFREG | 04644),
        ROW("open", ALLOW, 0, O_RDONLY, 04755), /* no mode is taken */
        ROW("openat", ALLOW, 0, 0, O_RDONLY | O_DIRECTORY, 06000),
        /* pid 1 */
        ROW("prlimit64", ERR(EPERM), 1, RLIMIT_CPU),
        ROW("prlimit64", ALLOW, 0, RLIMIT_CPU),
        ROW("prlimit64", ALLOW, 11, RLIMIT_CPU),
        ROW("sched_setaffinity", ERR(EPERM), 1, 8),
        ROW("sched_setaffinity", ALLOW, 0, 8),
        ROW("sched_setscheduler", ERR(EPERM), 1),
        ROW("sched_setscheduler", ALLOW, 2),
        ROW("sched_setparam", ERR(EPERM), 1),
        ROW("sched_setparam", ALLOW, 2),
        ROW("sched_setattr", ERR(EPERM), 1),
        ROW("sched_setattr", ALLOW, 0),
        ROW("setpriority", ERR(EPERM), PRIO_PROCESS, 1),
        ROW("setpriority", ERR(EPERM), PRIO_PGRP, 1),
        ROW("setpriority", ERR(EPERM), PRIO_USER, 0),
        ROW("setpriority", ERR(EPERM), PRIO_USER, 1000),
        ROW("setpriority", ALLOW, PRIO_PROCESS, 0),
        ROW("ioprio_set", ERR(EPERM), 1 /* process */, 1),
        ROW("ioprio_set", ERR(EPERM), IOPRIO_WHO_USER, 1000),
        ROW("ioprio_set", ALLOW, 1, 0),
};

static uint32_t row_action(const Row *row, size_t profile) {
        if (profile == STRICT && row->strict != 0)
                return row->strict;
        if (profile == DEBUG && row->debug != 0)
                return row->debug;
        return row->action;
}

/* Also with rubbish in the upper half of each argument, which the kernel does not look at. */
static void check_row(const Row *row, size_t profile, SeccompArch arch, int nr) {
        static const uint64_t upper[] = {0, 1ULL << 32, 0xffffffffULL << 32, 0x8000000000000000};

        for (size_t i = 0; i < ELEMENTSOF(upper); i++) {
                struct seccomp_data data = {.nr = nr, .arch = audit_arch[arch]};

                for (size_t j = 0; j < ELEMENTSOF(row->args); j++)
                        data.args[j] = row->args[j] | upper[i];
                ck_assert_msg(run(profile, arch, &data) == row_action(row, profile),
                              "%s: row %zu, %s, upper half %zu: got %#x", profile_names[profile],
                              (size_t) (row - rows), row->call, i, run(profile, arch, &data));
        }
}

START_TEST(test_rows) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int nr[_SECCOMP_ARCH_MAX];

                ck_assert_int_eq(seccomp_call_lookup(rows[i].call, nr), 0);
                for (size_t profile = 0; profile < N_PROFILES; profile++)
                        for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++)
                                if (nr[arch] != SECCOMP_NR_NONE)
                                        check_row(&rows[i], profile, arch, nr[arch]);
        }
}
END_TEST

/* --- what is the same for all --- */

START_TEST(test_borders) {
        static const struct {
                uint32_t nr, action;
        } numbers[] = {
                {NEWEST + 1, ERR(ENOSYS)},    {457 /* statmount */, ERR(ENOSYS)},
                {999, ERR(ENOSYS)},           {X32_BIT, ERR(ENOSYS)},
                {X32_BIT | 520, ERR(ENOSYS)}, {X32_BIT | SYS_getpid, ERR(ENOSYS)},
                {0x7fffffff, ERR(ENOSYS)},    {0xffffffff, ERR(ENOSYS)},
                {0x80000000, ERR(ENOSYS)},
        };
        static const uint32_t foreign[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0};

        for (size_t profile = 0; profile < N_PROFILES; profile++)
                for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++) {
                        struct seccomp_data data = {.arch = audit_arch[arch]};

                        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                                data.nr = (int) numbers[i].nr;
                                ck_assert_uint_eq(run(profile, arch, &data), numbers[i].action);
                        }
                        data.nr = 0;
                        for (size_t i = 0; i < ELEMENTSOF(foreign); i++) {
                                data.arch = foreign[i];
                                ck_assert_uint_eq(run(profile, arch, &data), KILL);
                        }
                        data.arch = audit_arch[1 - arch];
                        ck_assert_uint_eq(run(profile, arch, &data), KILL);
                }
}
END_TEST

/* --- every number, against the rules read directly --- */

static bool cond_holds(const SeccompCond *cond, const __u64 *args) {
        uint32_t value = (uint32_t) args[cond->arg] & cond->mask;
        bool among = false;

        for (size_t i = 0; i < cond->n_values; i++)
                among = among || (cond->test == SECCOMP_TEST_HAS ? (value & cond->values[i]) != 0
                                                                 : value == cond->values[i]);
        return cond->test == SECCOMP_TEST_NOT ? !among : among;
}

static uint32_t expected(const SeccompSource *source, SeccompArch arch,
                         const struct seccomp_data *data) {
        if (data->nr > source->newest)
                return ERR(ENOSYS);

        for (size_t i = 0; i < source->n_calls; i++) {
                const SeccompCall *call = &source->calls[i];

                for (size_t j = 0; call->nr[arch] == data->nr && j < call->n_rules; j++) {
                        const SeccompRule *rule = &call->rules[j];
                        bool holds = true;

                        for (size_t k = 0; k < rule->n_conds; k++)
                                holds = holds && cond_holds(&rule->conds[k], data->args);
                        if (holds)
                                return rule->action;
                }
        }
        return source->otherwise;
}

/* A value such as profiles ask for, or next to one. */
static uint64_t pick(uint64_t *seed) {
        static const uint32_t near[] = {
                0,
                1,
                2,
                3,
                10,
                16,
                IPPROTO_UDP,
                TIOCSTI,
                TIOCLINUX,
                O_CREAT,
                CLONE_NEWNS,
                S_ISUID,
                S_ISGID,
                0xffffffff,
                SOCK_CLOEXEC,
                SOCK_CLOEXEC | SOCK_NONBLOCK | SOCK_STREAM,
                020000000,
        };
        uint64_t value;

        /* xorshift: the same on every run */
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        value = near[*seed % ELEMENTSOF(near)];
        if (*seed & 0x1000)
                value += (*seed >> 20) % 3 - 1;
        if (*seed & 0x2000)
                value ^= *seed & 0xffffffff00000000;
        return value;
}

START_TEST(test_every_number) {
        uint64_t seed = 88172645463325252;

        for (size_t profile = 0; profile < N_PROFILES; profile++)
                for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++)
                        for (int i = 0; i < 600 * 64; i++) {
                                struct seccomp_data data = {
                                        .nr = i / 64,
                                        .arch = audit_arch[arch],
                                };
                                uint32_t want;

                                for (size_t j = 0; j < ELEMENTSOF(data.args); j++)
                                        data.args[j] = pick(&seed);
                                want = expected(programs[profile].source, arch, &data);
                                ck_assert_msg(run(profile, arch, &data) == want,
                                              "%s: number %i: got %#x, not %#x",
                                              profile_names[profile], data.nr,
                                              run(profile, arch, &data), want);
                        }
}
END_TEST

/* --- programs that a shipped profile does not make the emitter write --- */

/* Every number with rules of its own: jumps that are too far for eight bits. */
START_TEST(test_long_program) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(freep) struct sock_filter *code = NULL;
        uint64_t seed = 1;
        size_t n_code;

        ck_assert_int_eq(strbuf_append_string(&text, "@description x\n@otherwise allow\n"
                                                     "@newest 450\n"),
                         0);
        for (int i = 0; i < 400; i += 2)
                ck_assert_int_eq(strbuf_appendf(&text,
                                                "EPERM x%i=%i if arg0 is %i,%i,0 and arg1 not 1\n",
                                                i, i, i * 7, i * 3),
                                 0);
        for (int i = 1; i < 400; i += 2)
                ck_assert_int_eq(
                        strbuf_appendf(&text, "%s x%i=%i\n", i % 4 == 1 ? "EINTR" : "kill", i, i),
                        0);

        ck_assert_int_eq(seccomp_parse("p", text.data, text.size, NULL, NULL, &diags, &source), 0);
        ck_assert_int_eq(seccomp_emit(source, SECCOMP_ARCH_X86_64, &code, &n_code), 0);
        ck_assert_uint_gt(n_code, 1000);

        for (int i = 0; i < 500 * 64; i++) {
                struct seccomp_data data = {.nr = i / 64, .arch = AUDIT_ARCH_X86_64};
                uint32_t action = 0;

                data.args[0] = pick(&seed) % 4 == 0 ? (uint64_t) data.nr * 7 : pick(&seed);
                data.args[1] = pick(&seed);
                ck_assert(bpf_run(code, n_code, &data, &action));
                ck_assert_uint_eq(action, expected(source, SECCOMP_ARCH_X86_64, &data));
        }
}
END_TEST

START_TEST(test_too_long) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        struct sock_filter *code = NULL;
        size_t n_code;

        ck_assert_int_eq(strbuf_append_string(&text, "@description x\n@otherwise allow\n"
                                                     "@newest 450\n"),
                         0);
        for (int i = 0; i < 400; i++)
                ck_assert_int_eq(strbuf_appendf(&text,
                                                "EPERM x%i=%i if arg0 is %i,1,2,3,4,5,6,7,8,9,10\n",
                                                i, i, i + 11),
                                 0);
        ck_assert_int_eq(seccomp_parse("p", text.data, text.size, NULL, NULL, &diags, &source), 0);
        ck_assert_int_eq(seccomp_emit(source, SECCOMP_ARCH_X86_64, &code, &n_code),
                         SECCOMP_EMIT_E_TOO_LONG);
        ck_assert_ptr_null(code);
}
END_TEST

/* --- what the programs have linked in --- */

START_TEST(test_table_is_of_these_profiles) {
#ifdef __x86_64__
        const SeccompArch arch = SECCOMP_ARCH_X86_64;
#else
        const SeccompArch arch = SECCOMP_ARCH_AARCH64;
#endif
        const SeccompProfile *profiles;
        size_t n;

        profiles = seccomp_profiles(&n);
        ck_assert_uint_eq(n, N_PROFILES);
        ck_assert_ptr_null(seccomp_profile_find("arguments"));
        ck_assert_ptr_null(seccomp_profile_find(""));
        for (size_t i = 0; i < n; i++) {
                ck_assert_str_eq(profiles[i].name, profile_names[i]);
                ck_assert_ptr_eq(seccomp_profile_find(profile_names[i]), &profiles[i]);
                ck_assert_str_eq(profiles[i].description, programs[i].source->description);
                ck_assert_int_eq(profiles[i].landlock, i == STRICT);
                ck_assert_int_eq(profiles[i].proc_subset, i == STRICT);
                ck_assert_uint_eq(profiles[i].n_filter, programs[i].n_code[arch]);
                ck_assert_mem_eq(profiles[i].filter, programs[i].code[arch],
                                 profiles[i].n_filter * sizeof(struct sock_filter));
        }
}
END_TEST

/* --- in the kernel --- */

typedef struct Live {
        long nr;
        long args[4];
        int error; /* 0: it works */
        int debug; /* the same in debug */
} Live;

#define FAR(x) ((long) (x) | 1L << 32)

static const Live lives[] = {
        {SYS_getpid, {0}, 0, 0},
        {SYS_unshare, {0}, EPERM, EPERM}, /* works anywhere else */
        {SYS_openat2, {-1, 0, 0, 0}, ENOSYS, ENOSYS},
        {SYS_io_uring_setup, {0}, ENOSYS, ENOSYS},
        {NEWEST + 1, {0}, ENOSYS, ENOSYS},
        {SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0, 0},
        {SYS_socket, {FAR(AF_UNIX), FAR(SOCK_STREAM), FAR(0)}, 0, 0},
        {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}, 0, 0},
        {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_GENERIC}, EPROTONOSUPPORT, EPROTONOSUPPORT},
        {SYS_socket, {FAR(AF_VSOCK), SOCK_STREAM, 0}, EAFNOSUPPORT, EAFNOSUPPORT},
        {SYS_prlimit64, {0, RLIMIT_CPU, 0, 0}, 0, 0},
        {SYS_prlimit64, {1, RLIMIT_CPU, 0, 0}, EPERM, EPERM},
        {SYS_prlimit64, {FAR(1), RLIMIT_CPU, 0, 0}, EPERM, EPERM},
        {SYS_personality, {0xffffffff}, 0, 0},
        {SYS_personality, {0x0040000}, EPERM, 0},
        {SYS_fchmod, {-1, 04755}, EPERM, EPERM},
        {SYS_fchmod, {-1, 0755}, EBADF, EBADF},
        {SYS_ioctl, {-1, FAR(TIOCSTI)}, EPERM, EPERM},
        {SYS_ioctl, {-1, TCGETS}, EBADF, EBADF},
        {SYS_clone, {CLONE_NEWUSER | SIGCHLD, 0, 0, 0}, EPERM, EPERM},
        {SYS_clone3, {0, 0}, EINVAL, EINVAL}, /* open still */
#ifdef __x86_64__
        {X32_BIT | SYS_getpid, {0}, ENOSYS, ENOSYS},
#endif
};

/* Exits with 1 + the index of the first call that went wrong, or 0. */
static void live_child(const SeccompProfile *profile) {
        struct sock_fprog program = {
                .len = (unsigned short) profile->n_filter,
                .filter = (struct sock_filter *) profile->filter,
        };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                _exit(100);

        for (size_t i = 0; i < ELEMENTSOF(lives); i++) {
                const Live *live = &lives[i];
                int want = string_equal(profile->name, "debug") ? live->debug : live->error;
                long r;

                errno = 0;
                r = syscall(live->nr, live->args[0], live->args[1], live->args[2], live->args[3]);
                if (want == 0 ? r < 0 : r >= 0 || errno != want)
                        _exit((int) i + 1);
        }
        _exit(0);
}

START_TEST(test_live) {
        const SeccompProfile *profile = seccomp_profile_find(profile_names[_i]);
        int status;
        pid_t pid;

        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
                live_child(profile);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

#ifdef __x86_64__
/* The 32-bit way in has the numbers of another architecture. */
START_TEST(test_live_foreign) {
        const SeccompProfile *profile = seccomp_profile_find("default");
        struct sock_fprog program = {
                .len = (unsigned short) profile->n_filter,
                .filter = (struct sock_filter *) profile->filter,
        };
        int status;
        pid_t pid;

        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                const struct sigaction plain = {.sa_handler = SIG_DFL};
                long nr = 20; /* getpid there */

                (void) sigaction(SIGSEGV, &plain, NULL);
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
                    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                        _exit(100);
                __asm__ volatile("int $0x80" : "+a"(nr) : : "memory", "r8", "r9", "r10", "r11");
                _exit(nr == -ENOSYS ? 101 : 102);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        /* SIGSEGV: a kernel without the 32-bit way in, which is as good. */
        ck_assert(WIFSIGNALED(status));
        ck_assert(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
END_TEST
#endif

int main(void) {
        Suite *suite = suite_create("seccomp-filter");
        TCase *tcase = tcase_create("seccomp-filter");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 60);
        tcase_add_unchecked_fixture(tcase, programs_load, programs_done);
        tcase_add_test(tcase, test_rows);
        tcase_add_test(tcase, test_borders);
        tcase_add_test(tcase, test_every_number);
        tcase_add_test(tcase, test_long_program);
        tcase_add_test(tcase, test_too_long);
        tcase_add_test(tcase, test_table_is_of_these_profiles);
        tcase_add_loop_test(tcase, test_live, 0, N_PROFILES);
#ifdef __x86_64__
        tcase_add_test(tcase, test_live_foreign);
#endif
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
