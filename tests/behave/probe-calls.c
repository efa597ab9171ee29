/* SPDX-License-Identifier: Apache-2.0 */

/*
 * System calls that the filter refuses, by name. The arguments are such that a kernel which does
 * not refuse answers something else, and that nothing happens if it obeys.
 */

#include <asm/ldt.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "probe.h"

/* Newer than the headers that this is built with may be. */
#define NR_FCHMODAT2 452
#define NR_MAP_SHADOW_STACK 453
#define NR_STATMOUNT 457
#define NR_LISTMOUNT 458
#define NR_OPEN_TREE_ATTR 467
#define NR_UNKNOWN 999

static struct io_uring_params uring;
static struct perf_event_attr perf = {
        .size = sizeof(perf),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
};
static union bpf_attr bpf_map = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
static char byte;
static struct iovec byte_vector = {&byte, 1};
static struct timex timex;
static unsigned long nodes;
static struct user_desc ldt[1];
static char buffer[256];
static int handle[40];

#define ADDRESS(x) ((long) (x))

typedef struct Call {
        const char *name;
        long number;
        long args[6];
} Call;

static const Call calls[] = {
        /* those for which runtimes have a fall-back */
        {"clone3", SYS_clone3, {}},
        {"io_uring_setup", SYS_io_uring_setup, {1, ADDRESS(&uring)}},
        {"io_uring_enter", SYS_io_uring_enter, {-1}},
        {"io_uring_register", SYS_io_uring_register, {-1}},
        {"open_tree", SYS_open_tree, {AT_FDCWD, ADDRESS("/"), 0}},
        {"open_tree_attr", NR_OPEN_TREE_ATTR, {AT_FDCWD, ADDRESS("/"), 0}},
        {"move_mount", SYS_move_mount, {-1, ADDRESS("x"), -1, ADDRESS("x"), 0}},
        {"fsopen", SYS_fsopen, {ADDRESS("tmpfs"), 0}},
        {"fsconfig", SYS_fsconfig, {-1}},
        {"fsmount", SYS_fsmount, {-1}},
        {"fspick", SYS_fspick, {-1, ADDRESS("x"), 0}},
        {"mount_setattr", SYS_mount_setattr, {-1, ADDRESS("x"), 0, 0, 0}},
        {"userfaultfd", SYS_userfaultfd, {O_CLOEXEC}},
        {"userfaultfd_user", SYS_userfaultfd, {O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */}},
        {"bpf", SYS_bpf, {BPF_MAP_CREATE, ADDRESS(&bpf_map), sizeof(bpf_map)}},
        {"perf_event_open", SYS_perf_event_open, {ADDRESS(&perf), 0, -1, -1, 0}},
        {"fanotify_init", SYS_fanotify_init, {0x200, O_RDONLY}},
        {"fanotify_mark", SYS_fanotify_mark, {-1, 1, 1, AT_FDCWD, ADDRESS("/")}},
        {"name_to_handle_at",
         SYS_name_to_handle_at,
         {AT_FDCWD, ADDRESS("/"), ADDRESS(handle), ADDRESS(handle + 39), 0}},
        {"open_by_handle_at", SYS_open_by_handle_at, {AT_FDCWD, ADDRESS(handle), O_RDONLY}},
        {"kcmp", SYS_kcmp, {-1, -1, 0, 0, 0}},
        {"pidfd_getfd", SYS_pidfd_getfd, {-1, 0, 0}},
        {"process_madvise", SYS_process_madvise, {-1, ADDRESS(&byte_vector), 1, MADV_COLD, 0}},
        {"memfd_secret", SYS_memfd_secret, {-1}},
        {"statmount", NR_STATMOUNT, {}},
        {"listmount", NR_LISTMOUNT, {}},
        {"fchmodat2", NR_FCHMODAT2, {-1, ADDRESS("x"), 0, 0}},
        {"unknown", NR_UNKNOWN, {}},

        /* those that nothing ordinary needs */
        {"acct", SYS_acct, {ADDRESS("/proc/self/none")}},
        {"add_key", SYS_add_key, {ADDRESS("user"), ADDRESS("probe"), ADDRESS("x"), 1, -1}},
        {"request_key", SYS_request_key, {ADDRESS("user"), ADDRESS("probe"), 0, 0}},
        {"keyctl", SYS_keyctl, {0 /* KEYCTL_GET_KEYRING_ID */, -1, 0}},
        {"adjtimex", SYS_adjtimex, {ADDRESS(&timex)}},
        {"clock_adjtime", SYS_clock_adjtime, {CLOCK_REALTIME, ADDRESS(&timex)}},
        {"chroot", SYS_chroot, {ADDRESS("/")}},
        {"pivot_root", SYS_pivot_root, {ADDRESS("/proc/self/none"), ADDRESS("/proc/self/none")}},
        {"mount", SYS_mount, {ADDRESS("x"), ADDRESS("/proc/self/none"), ADDRESS("tmpfs"), 0, 0}},
        {"umount2", SYS_umount2, {ADDRESS("/proc/self/none"), 0}},
        {"unshare", SYS_unshare, {0}},
        {"setns", SYS_setns, {-1, 0}},
        {"init_module", SYS_init_module, {0, 0, ADDRESS("")}},
        {"finit_module", SYS_finit_module, {-1, ADDRESS(""), 0}},
        {"delete_module", SYS_delete_module, {ADDRESS("no-such-module"), O_NONBLOCK}},
        {"kexec_load", SYS_kexec_load, {0, 0, 0, ~0L}},
        {"kexec_file_load", SYS_kexec_file_load, {-1, -1, 0, ADDRESS(""), ~0L}},
        {"reboot", SYS_reboot, {0, 0, 0, 0}},
        {"swapon", SYS_swapon, {ADDRESS("/proc/self/none"), 0}},
        {"swapoff", SYS_swapoff, {ADDRESS("/proc/self/none")}},
        {"ioperm", SYS_ioperm, {0, 1, 0}},
        {"iopl", SYS_iopl, {0}},
        {"modify_ldt", SYS_modify_ldt, {0, ADDRESS(ldt), sizeof(ldt)}},
        {"ptrace", SYS_ptrace, {0 /* PTRACE_TRACEME */}},
        {"ptrace_attach", SYS_ptrace, {16 /* PTRACE_ATTACH */, 0x3fffffff}},
        {"process_vm_readv",
         SYS_process_vm_readv,
         {1, ADDRESS(&byte_vector), 1, ADDRESS(&byte_vector), 1, 0}},
        {"process_vm_writev",
         SYS_process_vm_writev,
         {1, ADDRESS(&byte_vector), 1, ADDRESS(&byte_vector), 1, 0}},
        {"lookup_dcookie", SYS_lookup_dcookie, {0, ADDRESS(buffer), sizeof(buffer)}},
        {"mbind", SYS_mbind, {0, 0, 0, 0, 0, 0}},
        {"get_mempolicy", SYS_get_mempolicy, {0, 0, 0, 0, 0}},
        {"set_mempolicy", SYS_set_mempolicy, {0, 0, 0}},
        {"set_mempolicy_home_node", 450, {0, 0, 0, 0}},
        {"migrate_pages", SYS_migrate_pages, {0, 0, ADDRESS(&nodes), ADDRESS(&nodes)}},
        {"move_pages", SYS_move_pages, {0, 0, 0, 0, 0, 0}},
        {"quotactl", SYS_quotactl, {0, ADDRESS("/proc/self/none"), 0, 0}},
        {"quotactl_fd", SYS_quotactl_fd, {-1, 0, 0, 0}},
        {"syslog", SYS_syslog, {3 /* read all */, ADDRESS(buffer), sizeof(buffer)}},
        {"vhangup", SYS_vhangup, {}},
        {"ustat", SYS_ustat, {0, ADDRESS(buffer)}},
        {"sysfs", SYS_sysfs, {3}},
        {"uselib", SYS_uselib, {ADDRESS("/proc/self/none")}},
        {"nfsservctl", SYS_nfsservctl, {}},
        {"vmsplice", SYS_vmsplice, {-1, ADDRESS(&byte_vector), 1, 0}},
        {"seccomp", SYS_seccomp, {SECCOMP_GET_ACTION_AVAIL, 0, 0}},
        {"personality_no_randomize", SYS_personality, {0x0040000}},
        {"personality_read_implies_exec", SYS_personality, {0x0400000}},
        {"personality_query", SYS_personality, {0xffffffff}},
        {"personality_none", SYS_personality, {0}},
};

static void answer_call(char *const *args) {
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (strcmp(calls[i].name, args[0]) == 0) {
                        const long *a = calls[i].args;

                        say_result(result_of(
                                syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5])));
                        return;
                }
        say("unknown call");
}

/* Each namespace flag by itself, with the child ending at once if there is one. */
static void answer_clone(char *const *args) {
        unsigned long flags = number(args[0]);
        long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

        if (pid == 0)
                _exit(0);
        say_result(result_of(pid));
        if (pid > 0)
                (void) waitpid((pid_t) pid, NULL, 0);
}

static void answer_unshare(char *const *args) {
        say_result(result_of(syscall(SYS_unshare, number(args[0]))));
}

/* To what they are already, so that obeying changes nothing. */
static void answer_settimeofday(char *const *args _unused_) {
        struct timeval now;

        (void) gettimeofday(&now, NULL);
        say_result(result_of(syscall(SYS_settimeofday, &now, NULL)));
}

static void answer_clock_settime(char *const *args _unused_) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        say_result(result_of(syscall(SYS_clock_settime, CLOCK_REALTIME, &now)));
}

static void answer_sethostname(char *const *args _unused_) {
        struct utsname names;

        (void) uname(&names);
        say_result(result_of(syscall(SYS_sethostname, names.nodename, strlen(names.nodename))));
}

static void answer_setdomainname(char *const *args _unused_) {
        struct utsname names;

        (void) uname(&names);
        say_result(
                result_of(syscall(SYS_setdomainname, names.domainname, strlen(names.domainname))));
}

static void answer_mount_type(char *const *args) {
        say_result(result_of(syscall(SYS_mount, "none", args[1], args[0], 0, NULL)));
}

/* A filter of the job's own is allowed to add itself; what ours refuses must stay refused. */
static void answer_filter_stack(char *const *args _unused_) {
        struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {.len = ELEMENTSOF(allow), .filter = allow};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
                say("no_new_privs ");
                say_result(-errno);
                return;
        }
        say("prctl ");
        say_result(result_of(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)));
        say(" clone3 ");
        say_result(result_of(syscall(SYS_clone3, 0, 0)));
}

static void answer_filter_listener(char *const *args _unused_) {
        struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {.len = ELEMENTSOF(allow), .filter = allow};

        (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        say_result(result_of(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                     SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)));
}

static void answer_splice(char *const *args _unused_) {
        int from[2], to[2];

        if (pipe(from) < 0 || pipe(to) < 0 || write(from[1], "x", 1) != 1) {
                say("no pipe");
                return;
        }
        say_result(result_of(splice(from[0], NULL, to[1], NULL, 1, 0)));
}

const Question probe_calls[] = {
        {"call", 1, false, answer_call},
        {"clone", 1, false, answer_clone},
        {"unshare", 1, false, answer_unshare},
        {"settimeofday", 0, false, answer_settimeofday},
        {"clock_settime", 0, false, answer_clock_settime},
        {"sethostname", 0, false, answer_sethostname},
        {"setdomainname", 0, false, answer_setdomainname},
        {"mount-type", 2, false, answer_mount_type},
        {"filter-stack", 0, false, answer_filter_stack},
        {"filter-listener", 0, false, answer_filter_listener},
        {"splice", 0, false, answer_splice},
        {},
};
