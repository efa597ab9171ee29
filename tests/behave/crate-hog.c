/* SPDX-License-Identifier: Apache-2.0 */

/*
 * crate-hog: runs inside a crate and goes beyond a limit, in the way that its first argument names:
 *
 *   crate-hog WAY
 *
 * It goes on until it is ended. What is refused piecemeal is tried again, after a pause; where a
 * refusal is all that can come of it, it prints the name of the errno and exits with 7.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "basic/macros.h"
#include "basic/time-util.h"

#define CHUNK (1U << 20)
#define PAUSE_USEC 2000
#define EXIT_REFUSED 7
/* For a limit of 8M, and a look that takes a process for young up to 100 ms. */
#define YOUNG_SIZE (6U << 20)
#define YOUNG_USEC 80000

static char chunk[CHUNK];

static _noreturn_ void refused(void) {
        printf("%s\n", strerrorname_np(errno) ?: "?");
        exit(EXIT_REFUSED);
}

static _noreturn_ void wait_for_end(void) {
        for (;;)
                (void) pause();
}

/* --- memory --- */

/* Memory of its own at the pace of a program that computes it, so that a look can keep up. */
static void touch_maps(int flags) {
        for (;;) {
                char *map = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

                if (map == MAP_FAILED)
                        (void) usleep(PAUSE_USEC);
                else
                        memset(map, 1, CHUNK);
        }
}

static void hog_anonymous(void) {
        touch_maps(MAP_PRIVATE);
}

static void hog_shared(void) {
        touch_maps(MAP_SHARED);
}

static void write_on(int fd) {
        if (fd < 0)
                refused();
        for (;;)
                if (write(fd, chunk, sizeof(chunk)) < 0)
                        (void) usleep(PAUSE_USEC);
}

/*
 * Memory that is copied by children who never grow old: at each moment there is one that looks as
 * if it were about to exec, with its parent's memory and none of its own.
 */
static void hog_young(void) {
        char *map =
                mmap(NULL, YOUNG_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (map == MAP_FAILED)
                refused();
        memset(map, 1, YOUNG_SIZE);
        for (;;) {
                pid_t pid = fork();

                if (pid == 0) {
                        uint64_t end = now_usec() + YOUNG_USEC;

                        memset(map, 2, YOUNG_SIZE);
                        while (now_usec() < end)
                                (void) usleep(PAUSE_USEC);
                        _exit(0);
                }
                (void) waitpid(pid, NULL, 0);
        }
}

static void hog_tmpfs(void) {
        write_on(open("/tmp/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void hog_dev_shm(void) {
        write_on(shm_open("/file", O_CREAT | O_RDWR, 0600));
}

static void hog_memfd(void) {
        write_on(memfd_create("hog", MFD_CLOEXEC));
}

static void hog_memfd_mapped(void) {
        int fd = memfd_create("hog", MFD_CLOEXEC);

        for (off_t size = 0;; size += CHUNK) {
                char *map;

                if (fd < 0 || ftruncate(fd, size + CHUNK) < 0)
                        refused();
                map = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, size);
                if (map == MAP_FAILED)
                        refused();
                memset(map, 1, CHUNK);
        }
}

/* detached: nobody has it in his address space, it lies there all the same. */
static void fill_segments(bool detached) {
        for (;;) {
                int id = shmget(IPC_PRIVATE, CHUNK, IPC_CREAT | 0600);
                char *map = id >= 0 ? shmat(id, NULL, 0) : (char *) -1;

                if (map == (char *) -1)
                        refused();
                memset(map, 1, CHUNK);
                if (detached)
                        (void) shmdt(map);
        }
}

static void hog_sysv(void) {
        fill_segments(false);
}

static void hog_sysv_detached(void) {
        fill_segments(true);
}

/* Buffers lie in the kernel. A child holds as many files as it may; then there is the next child.
 */
static void fill_buffers(bool sockets) {
        for (;;) {
                pid_t pid = fork();

                if (pid < 0)
                        (void) usleep(PAUSE_USEC);
                if (pid != 0)
                        continue;
                for (;;) {
                        int fds[2];

                        if ((sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) < 0)
                                wait_for_end();
                        (void) fcntl(fds[1], F_SETFL, O_NONBLOCK);
                        while (write(fds[1], chunk, 65536) > 0)
                                ;
                }
        }
}

static void hog_pipes(void) {
        fill_buffers(false);
}

static void hog_sockets(void) {
        fill_buffers(true);
}

/* --- processes --- */

static void hog_fork(void) {
        for (;;)
                if (fork() < 0)
                        (void) usleep(PAUSE_USEC);
}

static void *sleep_on(void *argument) {
        wait_for_end();
        return argument;
}

static void hog_thread(void) {
        pthread_attr_t attributes;
        pthread_t thread;

        (void) pthread_attr_init(&attributes);
        (void) pthread_attr_setstacksize(&attributes, 65536);
        for (;;)
                if (pthread_create(&thread, &attributes, sleep_on, NULL) != 0)
                        (void) usleep(PAUSE_USEC);
}

/* Each parent sleeps until its child execs, which it never does. */
static void hog_vfork(void) {
        for (;;) {
                long pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);

                if (pid < 0)
                        (void) usleep(PAUSE_USEC);
        }
}

static int sleep_in_child(void *argument _unused_) {
        wait_for_end();
}

/* Processes that share one address space. */
static void hog_clone_vm(void) {
        static char stacks[256][4096];

        for (size_t i = 0;; i = (i + 1) % ELEMENTSOF(stacks))
                if (clone(sleep_in_child, stacks[i] + sizeof(stacks[i]), CLONE_VM | SIGCHLD, NULL) <
                    0)
                        (void) usleep(PAUSE_USEC);
}

static void ignore_all(void) {
        for (int i = 1; i < NSIG; i++)
                (void) sigaction(i, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* Slowly, and none of them in the family of another. */
static void hog_setsid(void) {
        ignore_all();
        for (;;) {
                pid_t pid = fork();

                if (pid == 0) {
                        (void) setsid();
                        if (fork() != 0)
                                _exit(0);
                        (void) setsid();
                        wait_for_end();
                }
                if (pid > 0)
                        (void) waitpid(pid, NULL, 0);
                (void) usleep(PAUSE_USEC);
        }
}

/* --- files --- */

static void hog_fallocate(void) {
        int fd = open("/tmp/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        for (off_t size = 0;; size += CHUNK)
                if (fallocate(fd, 0, size, CHUNK) < 0) {
                        size -= CHUNK;
                        (void) usleep(PAUSE_USEC);
                }
}

/* A file of a terabyte that holds nothing, and then ever more of it does. */
static void hog_sparse(void) {
        int fd = open("/tmp/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        if (ftruncate(fd, (off_t) 1 << 40) < 0)
                refused();
        for (off_t at = 0;; at += 1 << 30)
                if (pwrite(fd, chunk, sizeof(chunk), at % ((off_t) 1 << 40) + at / (1 << 12)) < 0)
                        (void) usleep(PAUSE_USEC);
}

static void hog_inodes(void) {
        char path[64];

        for (unsigned i = 0;; i++) {
                int fd;

                (void) snprintf(path, sizeof(path), "/tmp/file-%u", i);
                fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
                if (fd < 0)
                        (void) usleep(PAUSE_USEC);
                else
                        (void) close(fd);
        }
}

static void hog_tree(void) {
        if (chdir("/tmp") < 0)
                refused();
        for (;;)
                if (mkdir("d", 0700) < 0 || chdir("d") < 0)
                        (void) usleep(PAUSE_USEC);
}

static void hog_file_size(void) {
        int fd = open("/tmp/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        for (;;)
                if (write(fd, chunk, sizeof(chunk)) < 0)
                        refused();
}

/* --- descriptors --- */

static void hog_fds(void) {
        while (dup(0) >= 0)
                ;
        refused();
}

static void hog_inotify(void) {
        while (inotify_init1(IN_CLOEXEC) >= 0)
                ;
        refused();
}

static void hog_epoll(void) {
        while (epoll_create1(EPOLL_CLOEXEC) >= 0)
                ;
        refused();
}

/* --- time --- */

static void hog_spin(void) {
        for (volatile unsigned i = 0;; i++)
                ;
}

/* Children that nobody waits for, so that their time is in nobody's sum. */
static void hog_spin_children(void) {
        (void) sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
        for (;;) {
                pid_t pid = fork();

                if (pid == 0) {
                        clock_t end = clock() + CLOCKS_PER_SEC / 10;

                        while (clock() < end)
                                ;
                        _exit(0);
                }
                while (waitpid(pid, NULL, 0) >= 0)
                        ;
        }
}

/* Deaf to whatever can be ignored, and alive in the family of nobody. */
static void hog_deaf(void) {
        ignore_all();
        for (unsigned i = 0; i < 4; i++)
                if (fork() == 0) {
                        (void) setsid();
                        if (fork() != 0)
                                _exit(0);
                        (void) setsid();
                        wait_for_end();
                }
        wait_for_end();
}

/* Stopped processes, the first one among them. */
static void hog_stopped(void) {
        for (unsigned i = 0; i < 4; i++)
                if (fork() == 0) {
                        (void) setsid();
                        for (;;)
                                (void) raise(SIGSTOP);
                }
        for (;;)
                (void) raise(SIGSTOP);
}

/* Memory that grows while its owner is stopped and continued again and again. */
static void hog_stop_games(void) {
        pid_t pid = fork();

        if (pid == 0)
                hog_anonymous();
        for (;;) {
                (void) kill(pid, SIGSTOP);
                (void) usleep(PAUSE_USEC);
                (void) kill(pid, SIGCONT);
                (void) usleep(PAUSE_USEC * 5);
        }
}

/* --- output --- */

static void hog_flood(void) {
        (void) fork();
        for (int fd = STDOUT_FILENO;; fd = fd == STDOUT_FILENO ? STDERR_FILENO : STDOUT_FILENO)
                (void) !write(fd, chunk, 65536);
}

static const struct {
        const char *name;
        void (*run)(void);
} ways[] = {
        {"anonymous", hog_anonymous},
        {"shared", hog_shared},
        {"young", hog_young},
        {"tmpfs", hog_tmpfs},
        {"dev-shm", hog_dev_shm},
        {"memfd", hog_memfd},
        {"memfd-mapped", hog_memfd_mapped},
        {"sysv", hog_sysv},
        {"sysv-detached", hog_sysv_detached},
        {"pipes", hog_pipes},
        {"sockets", hog_sockets},
        {"fork", hog_fork},
        {"thread", hog_thread},
        {"vfork", hog_vfork},
        {"clone-vm", hog_clone_vm},
        {"setsid", hog_setsid},
        {"fallocate", hog_fallocate},
        {"sparse", hog_sparse},
        {"inodes", hog_inodes},
        {"tree", hog_tree},
        {"file-size", hog_file_size},
        {"fds", hog_fds},
        {"inotify", hog_inotify},
        {"epoll", hog_epoll},
        {"spin", hog_spin},
        {"spin-children", hog_spin_children},
        {"deaf", hog_deaf},
        {"stopped", hog_stopped},
        {"stop-games", hog_stop_games},
        {"flood", hog_flood},
};

int main(int argc, char *argv[]) {
        memset(chunk, 'x', sizeof(chunk));
        for (size_t i = 0; argc == 2 && i < ELEMENTSOF(ways); i++)
                if (strcmp(ways[i].name, argv[1]) == 0) {
                        ways[i].run();
                        return EXIT_FAILURE;
                }
        fprintf(stderr, "crate-hog: one of these ways, please:");
        for (size_t i = 0; i < ELEMENTSOF(ways); i++)
                fprintf(stderr, " %s", ways[i].name);
        fprintf(stderr, "\n");
        return EXIT_FAILURE;
}
