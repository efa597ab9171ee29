/* SPDX-License-Identifier: Apache-2.0 */

#include "floor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench.h"
#include "seccomp/profile.h"

#define INNER_ID 1000U
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
#define BASE "/tmp" /* the new root is mounted here, in the child's own view */

/* Shared between the measuring process, its children and the owner. */
typedef struct Shared {
        uint64_t begin, end;
        uint64_t stamps[_FLOOR_STEP_MAX]; /* when the step was done */
        uint64_t net;                     /* nanoseconds for a net namespace made ahead */
        int error;                        /* errno of what failed */
        char what[64];
} Shared;

struct Floor {
        FloorKind kind;
        pid_t pid;
        int fd; /* a byte asks for a run, a byte answers */
        Shared *shared;
        uint64_t steps[_FLOOR_STEP_MAX];
};

static const char *const step_names[_FLOOR_STEP_MAX] = {
        [FLOOR_STEP_CLONE] = "clone3, all namespaces, until the child runs",
        [FLOOR_STEP_IDS] = "id maps, written by the parent",
        [FLOOR_STEP_PRIVATE] = "mounts made private",
        [FLOOR_STEP_ROOT] = "tmpfs root, folders and links",
        [FLOOR_STEP_USR] = "/usr, read-only",
        [FLOOR_STEP_DEV] = "/dev: tmpfs and six nodes",
        [FLOOR_STEP_PROC] = "/proc",
        [FLOOR_STEP_TMP] = "tmpfs for /tmp",
        [FLOOR_STEP_DEVPTS] = "devpts",
        [FLOOR_STEP_PIVOT] = "pivot_root",
        [FLOOR_STEP_UMOUNT] = "old root unmounted",
        [FLOOR_STEP_LO] = "lo up",
        [FLOOR_STEP_CAPS] = "capabilities dropped",
        [FLOOR_STEP_SECCOMP] = "the default filter loaded",
        [FLOOR_STEP_COMMAND] = "exec, run, exit, namespaces gone",
        [FLOOR_STEP_NET] = "a net namespace made ahead, lo up",
};

const char *floor_step_to_string(FloorStep step) {
        return step_names[step];
}

static _noreturn_ void give_up(Shared *shared, const char *what) {
        shared->error = errno;
        (void) snprintf(shared->what, sizeof(shared->what), "%s", what);
        _exit(111);
}

#define MUST(shared, call)                                                                         \
        do {                                                                                       \
                if ((long) (call) < 0)                                                             \
                        give_up(shared, #call);                                                    \
        } while (0)

static void stamp(Shared *shared, FloorStep step) {
        shared->stamps[step] = bench_now();
}

/* --- the tree --- */

static void make_private(Shared *shared) {
        MUST(shared, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static void make_root(Shared *shared) {
        static const char *const folders[] = {"usr", "dev", "proc", "tmp", "workspace", "etc"};
        static const char *const links[] = {"bin", "sbin", "lib", "lib64"};

        MUST(shared, mount("root", BASE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"));
        MUST(shared, chdir(BASE));
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                MUST(shared, mkdir(folders[i], 0755));
        for (size_t i = 0; i < ELEMENTSOF(links); i++) {
                char target[16];

                (void) snprintf(target, sizeof(target), "usr/%s", links[i]);
                MUST(shared, symlink(target, links[i]));
        }
}

static void make_usr(Shared *shared) {
        MUST(shared, mount("/usr", "usr", NULL, MS_BIND, NULL));
        MUST(shared, mount(NULL, "usr", NULL,
                           MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL));
}

static void make_dev(Shared *shared) {
        static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};

        MUST(shared, mount("dev", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755"));
        MUST(shared, mkdir("dev/pts", 0755));
        for (size_t i = 0; i < ELEMENTSOF(nodes); i++) {
                char from[32], to[32];
                int fd;

                (void) snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
                (void) snprintf(to, sizeof(to), "dev/%s", nodes[i]);
                fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                MUST(shared, fd);
                (void) close(fd);
                MUST(shared, mount(from, to, NULL, MS_BIND, NULL));
        }
}

static void make_proc(Shared *shared, const char *path) {
        MUST(shared, mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
}

static void make_tmp(Shared *shared, const char *path) {
        MUST(shared, mount("tmp", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m"));
}

static void make_devpts(Shared *shared, const char *path) {
        MUST(shared, mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC,
                           "newinstance,ptmxmode=0666,mode=0620"));
}

static void pivot(Shared *shared) {
        MUST(shared, syscall(SYS_pivot_root, ".", "."));
        stamp(shared, FLOOR_STEP_PIVOT);
        MUST(shared, umount2(".", MNT_DETACH));
        MUST(shared, chdir("/"));
        stamp(shared, FLOOR_STEP_UMOUNT);
}

static void lo_up(Shared *shared) {
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        int fd;

        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        MUST(shared, fd);
        MUST(shared, ioctl(fd, SIOCSIFFLAGS, &request));
        (void) close(fd);
}

/* --- the seal --- */

static void drop_caps(Shared *shared) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};

        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                MUST(shared, prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
        MUST(shared, syscall(SYS_capset, &header, data));
}

static void load_filter(Shared *shared) {
        const SeccompProfile *profile = seccomp_profile_find("default");
        struct sock_fprog program = {
                .len = (unsigned short) profile->n_filter,
                .filter = (struct sock_filter *) profile->filter,
        };

        MUST(shared, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        MUST(shared, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

/* --- the child --- */

static _noreturn_ void run_command(Shared *shared) {
        static char *const argv[] = {(char *) "/usr/bin/true", NULL};
        static char *const env[] = {NULL};

        (void) execve(argv[0], argv, env);
        give_up(shared, "execve");
}

static _noreturn_ void run_init(Shared *shared) {
        int status = -1;
        pid_t pid;

        pid = vfork();
        if (pid == 0)
                run_command(shared);
        MUST(shared, pid);
        MUST(shared, waitpid(pid, &status, 0));
        _exit(status == 0 ? 0 : 111);
}

static void build_whole(Shared *shared) {
        make_private(shared);
        stamp(shared, FLOOR_STEP_PRIVATE);
        make_root(shared);
        stamp(shared, FLOOR_STEP_ROOT);
        make_usr(shared);
        stamp(shared, FLOOR_STEP_USR);
        make_dev(shared);
        stamp(shared, FLOOR_STEP_DEV);
        make_proc(shared, "proc");
        stamp(shared, FLOOR_STEP_PROC);
        make_tmp(shared, "tmp");
        stamp(shared, FLOOR_STEP_TMP);
        make_devpts(shared, "dev/pts");
        stamp(shared, FLOOR_STEP_DEVPTS);
        pivot(shared);
        lo_up(shared);
        stamp(shared, FLOOR_STEP_LO);
}

static void build_over_tree(Shared *shared) {
        make_proc(shared, "/proc");
        stamp(shared, FLOOR_STEP_PROC);
        make_tmp(shared, "/tmp");
        stamp(shared, FLOOR_STEP_TMP);
        make_devpts(shared, "/dev/pts");
        stamp(shared, FLOOR_STEP_DEVPTS);
}

static _noreturn_ void child(Shared *shared, FloorKind kind, int go_fd) {
        char byte;

        stamp(shared, FLOOR_STEP_CLONE);
        MUST(shared, read(go_fd, &byte, 1) == 1 ? 0 : -1);
        MUST(shared, setresgid(INNER_ID, INNER_ID, INNER_ID));
        MUST(shared, setresuid(INNER_ID, INNER_ID, INNER_ID));
        stamp(shared, FLOOR_STEP_IDS);
        if (kind == FLOOR_NAMESPACES)
                run_command(shared);

        if (kind == FLOOR_WHOLE)
                build_whole(shared);
        else
                build_over_tree(shared);
        drop_caps(shared);
        stamp(shared, FLOOR_STEP_CAPS);
        load_filter(shared);
        stamp(shared, FLOOR_STEP_SECCOMP);

        if (kind == FLOOR_INIT)
                run_init(shared);
        run_command(shared);
}

/* --- the parent --- */

static void write_file(Shared *shared, const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        MUST(shared, fd);
        MUST(shared, write(fd, text, strlen(text)));
        (void) close(fd);
}

/* As root some other id stands behind the inner one: root itself never does. */
static void write_maps(Shared *shared, pid_t pid, unsigned inner_uid, unsigned inner_gid) {
        unsigned uid = geteuid() == 0 ? 65534 : geteuid();
        unsigned gid = geteuid() == 0 ? 65534 : getegid();
        char path[64], line[64];

        (void) snprintf(path, sizeof(path), "/proc/%i/setgroups", pid);
        write_file(shared, path, "deny");
        (void) snprintf(path, sizeof(path), "/proc/%i/uid_map", pid);
        (void) snprintf(line, sizeof(line), "%u %u 1", inner_uid, uid);
        write_file(shared, path, line);
        (void) snprintf(path, sizeof(path), "/proc/%i/gid_map", pid);
        (void) snprintf(line, sizeof(line), "%u %u 1", inner_gid, gid);
        write_file(shared, path, line);
}

/* What a launcher does once and not for each crate. */
static void enter_tree(Shared *shared) {
        unsigned uid = geteuid(), gid = getegid();

        if (uid != 0) {
                char line[64];

                MUST(shared, unshare(CLONE_NEWUSER));
                write_file(shared, "/proc/self/setgroups", "deny");
                (void) snprintf(line, sizeof(line), "%u %u 1", uid, uid);
                write_file(shared, "/proc/self/uid_map", line);
                (void) snprintf(line, sizeof(line), "%u %u 1", gid, gid);
                write_file(shared, "/proc/self/gid_map", line);
        }
        MUST(shared, unshare(CLONE_NEWNS));
        make_private(shared);
        make_root(shared);
        make_usr(shared);
        make_dev(shared);
        MUST(shared, mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL));
        pivot(shared);
}

static void run_once(Shared *shared, FloorKind kind) {
        bool ready_net = kind == FLOOR_TREE || kind == FLOOR_INIT;
        struct clone_args args = {
                .flags = NAMESPACES | (ready_net ? 0 : CLONE_NEWNET),
                .exit_signal = SIGCHLD,
        };
        int go[2], status;
        pid_t pid;

        memset(shared, 0, sizeof(*shared));
        if (ready_net) {
                uint64_t begin = bench_now();

                MUST(shared, unshare(CLONE_NEWNET));
                lo_up(shared);
                shared->net = bench_now() - begin;
        }
        MUST(shared, pipe2(go, O_CLOEXEC));

        shared->begin = bench_now();
        pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
        MUST(shared, pid);
        if (pid == 0)
                child(shared, kind, go[0]);
        write_maps(shared, pid, INNER_ID, INNER_ID);
        MUST(shared, write(go[1], "", 1));
        MUST(shared, waitpid(pid, &status, 0));
        shared->end = bench_now();
        stamp(shared, FLOOR_STEP_COMMAND);

        (void) close(go[0]);
        (void) close(go[1]);
        if (status != 0 && shared->error == 0)
                shared->error = EIO;
}

static _noreturn_ void serve(Shared *shared, FloorKind kind, int fd) {
        char byte;

        if (kind == FLOOR_TREE || kind == FLOOR_INIT)
                enter_tree(shared);
        while (read(fd, &byte, 1) == 1) {
                run_once(shared, kind);
                MUST(shared, write(fd, "", 1));
        }
        _exit(0);
}

Floor *floor_free(Floor *floor) {
        if (!floor)
                return NULL;

        /* Other floors' processes hold copies of it: closing alone would not be seen. */
        if (floor->fd >= 0)
                (void) shutdown(floor->fd, SHUT_RDWR);
        (void) fd_close(floor->fd);
        if (floor->pid > 0)
                (void) waitpid(floor->pid, NULL, 0);
        if (floor->shared != MAP_FAILED)
                (void) munmap(floor->shared, sizeof(Shared));
        free(floor);
        return NULL;
}

int floor_new(FloorKind kind, Floor **ret_floor) {
        _cleanup_(floor_freep) Floor *floor = NULL;
        int pair[2];

        floor = malloc(sizeof(Floor));
        if (!floor)
                return -ENOMEM;
        *floor = (Floor){.kind = kind, .fd = -EBADF, .shared = MAP_FAILED};

        floor->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (floor->shared == MAP_FAILED ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;

        floor->pid = fork();
        if (floor->pid == 0) {
                (void) close(pair[0]);
                serve(floor->shared, kind, pair[1]);
        }
        floor->fd = pair[0];
        (void) close(pair[1]);
        if (floor->pid < 0)
                return -errno;

        *ret_floor = TAKE_PTR(floor);
        return 0;
}

static void take_steps(Floor *floor) {
        uint64_t last = floor->shared->begin;

        for (size_t i = 0; i < _FLOOR_STEP_MAX; i++) {
                uint64_t at = floor->shared->stamps[i];

                floor->steps[i] = at > last ? at - last : 0;
                last = at > last ? at : last;
        }
        floor->steps[FLOOR_STEP_NET] = floor->shared->net;
}

int floor_measure(void *userdata, uint64_t *ret_nsec) {
        Floor *floor = userdata;
        char byte;

        if (write(floor->fd, "", 1) != 1 || read(floor->fd, &byte, 1) != 1 ||
            floor->shared->error != 0) {
                fprintf(stderr, "floor: %s: %s\n", floor->shared->what,
                        strerror(floor->shared->error));
                return -(floor->shared->error ?: EPIPE);
        }
        take_steps(floor);
        *ret_nsec = floor->shared->end - floor->shared->begin;
        return 0;
}

const uint64_t *floor_steps(const Floor *floor) {
        return floor->steps;
}
