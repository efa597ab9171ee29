/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/sampler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/time-util.h"

#define INIT_PID 1
#define STAT_SIZE 1024U
#define ROLLUP_SIZE 4096U
#define STATUS_SIZE 4096U
/* A process can make measuring it slow, and there may be many of them. */
#define MEASURE_USEC (100 * USEC_PER_MSEC)
#define DIRENTS_SIZE 8192U
/* Descriptors that one look at memfds looks at, and memfds that it counts: beyond that they are the
 * next means' to find. */
#define DESCRIPTORS_MAX 2048U
#define MEMFDS_MAX 512U
/* What the kernel calls a memfd. */
#define MEMFD_PREFIX "/memfd:"
/* How young a process is that may still be on its way from a fork to an exec. */
#define YOUNG_USEC (100 * USEC_PER_MSEC)

/* Fields of /proc/PID/stat behind the name, the state being the first; see proc_pid_stat(5). */
enum {
        STAT_PARENT = 1,
        STAT_GROUP,
        STAT_SESSION,
        STAT_UTIME = 11,
        STAT_STIME,
        STAT_CUTIME,
        STAT_CSTIME,
        STAT_NICE = 16,
        STAT_THREADS,
        STAT_START = 19,
        STAT_VSIZE,
        STAT_RSS,
        _STAT_MAX,
};

/* The file system that all memfds of the host lie in. 0: there is none. */
static dev_t memfd_device(void) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct stat st;

        fd = memfd_create("device", MFD_CLOEXEC);
        return fd >= 0 && fstat(fd, &st) >= 0 ? st.st_dev : 0;
}

void sampler_init(Sampler *sampler, int proc_fd) {
        *sampler = (Sampler){.proc_fd = proc_fd, .measure_usec = MEASURE_USEC};
}

void sampler_done(Sampler *sampler) {
        free(sampler->processes);
        *sampler = (Sampler){.proc_fd = -EBADF};
}

int sampler_copy(const Sampler *sampler, int proc_fd, Sampler *ret_copy) {
        Sampler copy = *sampler;

        copy.proc_fd = proc_fd;
        copy.n_allocated = copy.n_processes;
        copy.processes = calloc(copy.n_processes + 1, sizeof(*copy.processes));
        if (!copy.processes)
                return error_origin(-ENOMEM);
        if (copy.n_processes > 0)
                memcpy(copy.processes, sampler->processes,
                       copy.n_processes * sizeof(*copy.processes));
        *ret_copy = copy;
        return 0;
}

/* Reads what fits of a file of a process; the text ends with a NUL. Bytes read; 0: nothing. */
static size_t read_entry(int proc_fd, pid_t pid, const char *name, char *text, size_t size) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char path[64];
        ssize_t n;

        errno = 0;
        (void) snprintf(path, sizeof(path), "%d/%s", pid, name);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return 0;
        n = read(fd, text, size - 1);
        text[n > 0 ? n : 0] = 0;
        return n > 0 ? (size_t) n : 0;
}

/* A number in decimal; *p is moved behind it. */
static uint64_t take_number(const char **p) {
        uint64_t value = 0;

        for (; **p >= '0' && **p <= '9'; (*p)++)
                value = value * 10 + (uint64_t) (**p - '0');
        return value;
}

/* Splits what follows the name, which may itself hold any byte: the last parenthesis ends it. */
static bool parse_stat(const char *text, char *ret_state, uint64_t fields[_STAT_MAX]) {
        const char *p = strrchr(text, ')');
        bool negative;

        if (!p || p[1] != ' ' || !p[2])
                return false;
        *ret_state = p[2];
        p += 3;
        for (size_t i = 1; i < _STAT_MAX; i++) {
                if (*p++ != ' ')
                        return false;
                negative = *p == '-';
                if (negative)
                        p++;
                fields[i] = take_number(&p);
                if (negative)
                        fields[i] = -fields[i];
        }
        return true;
}

static uint64_t ticks_to_usec(uint64_t ticks) {
        return ticks * (USEC_PER_SEC / (uint64_t) sysconf(_SC_CLK_TCK));
}

/* --- the list of processes --- */

static int list_add(SamplerProcess **list, size_t *n, size_t *n_allocated,
                    const SamplerProcess *process) {
        if (*n == *n_allocated) {
                size_t more = *n_allocated > 0 ? *n_allocated * 2 : 16;
                SamplerProcess *grown = reallocarray(*list, more, sizeof(**list));

                if (!grown)
                        return error_origin(-ENOMEM);
                *list = grown;
                *n_allocated = more;
        }
        (*list)[(*n)++] = *process;
        return 0;
}

static int compare_pids(const void *a, const void *b) {
        const SamplerProcess *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* The kernel gives them in the order of pids; it costs little not to depend on that. */
static void list_sort(SamplerProcess *list, size_t n) {
        for (size_t i = 1; i < n; i++)
                if (list[i].pid < list[i - 1].pid) {
                        qsort(list, n, sizeof(*list), compare_pids);
                        return;
                }
}

static SamplerProcess *list_find(SamplerProcess *list, size_t n, pid_t pid) {
        size_t low = 0, high = n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (list[middle].pid == pid)
                        return &list[middle];
                if (list[middle].pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

const SamplerProcess *sampler_find(const Sampler *sampler, pid_t pid) {
        return list_find(sampler->processes, sampler->n_processes, pid);
}

/* What one look gathers. */
typedef struct Gathering {
        Sampler *sampler;
        SamplerProcess *list;
        size_t n, n_allocated;
        SamplerLook look;
        uint64_t tree_ticks; /* of those that live, and of those that they have waited for */
} Gathering;

/* Time of processes whose parent does not wait for them is nobody's in the end: what was seen of it
 * stays seen. */
static uint64_t fresh_ticks(const Sampler *sampler, const SamplerProcess *process) {
        const SamplerProcess *before =
                list_find(sampler->processes, sampler->n_processes, process->pid);

        if (!before || before->start_ticks != process->start_ticks)
                return process->cpu_ticks;
        return process->cpu_ticks > before->cpu_ticks ? process->cpu_ticks - before->cpu_ticks : 0;
}

static int gather_process(Gathering *gathering, pid_t pid) {
        SamplerProcess process = {.pid = pid};
        uint64_t fields[_STAT_MAX];
        char text[STAT_SIZE];

        if (read_entry(gathering->sampler->proc_fd, pid, "stat", text, sizeof(text)) == 0 ||
            !parse_stat(text, &process.state, fields))
                return 0;

        gathering->tree_ticks += fields[STAT_CUTIME] + fields[STAT_CSTIME];
        if (pid == INIT_PID)
                return 0;
        process.parent = (pid_t) fields[STAT_PARENT];
        process.group = (pid_t) fields[STAT_GROUP];
        process.session = (pid_t) fields[STAT_SESSION];
        process.nice = (int) (int64_t) fields[STAT_NICE];
        process.start_ticks = fields[STAT_START];
        process.cpu_ticks = fields[STAT_UTIME] + fields[STAT_STIME];
        process.address_space = fields[STAT_VSIZE];
        process.resident = fields[STAT_RSS] * (uint64_t) sysconf(_SC_PAGESIZE);
        gathering->tree_ticks += process.cpu_ticks;
        gathering->sampler->seen_ticks += fresh_ticks(gathering->sampler, &process);
        gathering->look.pids += fields[STAT_THREADS] > 0 ? fields[STAT_THREADS] : 1;
        gathering->look.resident += process.resident;
        return error_trace(
                list_add(&gathering->list, &gathering->n, &gathering->n_allocated, &process));
}

static int gather_entries(Gathering *gathering, const char *entries, size_t size) {
        for (size_t at = 0; at < size;) {
                const struct dirent64 *entry = (const struct dirent64 *) (entries + at);
                const char *name = entry->d_name;
                uint64_t pid = take_number(&name);
                int r;

                at += entry->d_reclen;
                if (*name || name == entry->d_name || pid > INT32_MAX)
                        continue;
                r = gather_process(gathering, (pid_t) pid);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int gather(Gathering *gathering) {
        _Alignas(struct dirent64) char entries[DIRENTS_SIZE];
        ssize_t n;
        int r;

        if (lseek(gathering->sampler->proc_fd, 0, SEEK_SET) < 0)
                return error_origin(negative_errno());
        for (;;) {
                n = getdents64(gathering->sampler->proc_fd, entries, sizeof(entries));
                if (n < 0)
                        return error_origin(negative_errno());
                if (n == 0)
                        return 0;
                r = gather_entries(gathering, entries, (size_t) n);
                if (r < 0)
                        return error_trace(r);
        }
}

int sampler_look(Sampler *sampler, SamplerLook *ret_look) {
        Gathering gathering = {.sampler = sampler};
        uint64_t ticks;
        int r;

        r = gather(&gathering);
        if (r < 0) {
                free(gathering.list);
                return error_trace(r);
        }
        list_sort(gathering.list, gathering.n);
        free(sampler->processes);
        sampler->processes = gathering.list;
        sampler->n_processes = gathering.n;
        sampler->n_allocated = gathering.n_allocated;

        ticks = gathering.tree_ticks > sampler->seen_ticks ? gathering.tree_ticks
                                                           : sampler->seen_ticks;
        gathering.look.cpu_usec = ticks_to_usec(ticks);
        *ret_look = gathering.look;
        return 0;
}

/* --- memory --- */

/* "Pss_Anon:     12 kB" of a text, in bytes. */
static uint64_t memory_field(const char *text, const char *name) {
        const char *p = strstr(text, name);

        if (!p)
                return 0;
        p += strlen(name);
        p += strspn(p, " \t");
        return take_number(&p) * 1024;
}

/*
 * A process between vfork and exec has its parent's memory, not memory of its own; as has, for its
 * first moments, one that was forked. Its parent sleeps, or it is young; and it has not changed its
 * address space. A parent sleeps for one child only: the others may look like it, and are not. Nor
 * is there memory to be had from a parent that has none of its own.
 */
static bool has_parents_memory(Sampler *sampler, SamplerProcess *process, uint64_t now_ticks) {
        SamplerProcess *parent =
                list_find(sampler->processes, sampler->n_processes, process->parent);
        uint64_t difference;

        if (!parent || parent->lends || parent->borrows || process->lends ||
            parent->address_space != process->address_space)
                return false;
        difference = parent->resident > process->resident ? parent->resident - process->resident
                                                          : process->resident - parent->resident;
        if (difference > parent->resident / 16)
                return false;
        parent->lends = process->borrows =
                parent->state == 'D' ||
                ticks_to_usec(now_ticks - process->start_ticks) < YOUNG_USEC;
        return process->borrows;
}

/* What the kernel has counted already, so that it takes no time: memory that is shared counts for
 * each who has it. */
static void estimate_process(const Sampler *sampler, const SamplerProcess *process,
                             uint64_t *ret_private, uint64_t *ret_shared) {
        char text[STATUS_SIZE];

        if (read_entry(sampler->proc_fd, process->pid, "status", text, sizeof(text)) == 0)
                text[0] = 0;
        *ret_private = memory_field(text, "\nRssAnon:") + memory_field(text, "\nVmSwap:");
        *ret_shared = memory_field(text, "\nRssShmem:");
}

static void measure_process(const Sampler *sampler, const SamplerProcess *process,
                            uint64_t *ret_private, uint64_t *ret_shared) {
        char text[ROLLUP_SIZE];

        if (read_entry(sampler->proc_fd, process->pid, "smaps_rollup", text, sizeof(text)) > 0) {
                *ret_private = memory_field(text, "\nPss_Anon:") + memory_field(text, "\nSwapPss:");
                *ret_shared = memory_field(text, "\nPss_Shmem:");
                return;
        }
        /* Gone, or closed to us: then it counts for what everybody may know. */
        estimate_process(sampler, process, ret_private, ret_shared);
}

/* What one look has found of memfds. */
typedef struct Memfds {
        uint64_t bytes;
        size_t n_descriptors, n;
        ino_t inodes[MEMFDS_MAX];
} Memfds;

static bool memfds_have(const Memfds *memfds, ino_t inode) {
        for (size_t i = 0; i < memfds->n; i++)
                if (memfds->inodes[i] == inode)
                        return true;
        return false;
}

/* The name is read first: looking at any other file could take as long as its file system likes. */
static void memfds_add(Memfds *memfds, const Sampler *sampler, int folder_fd, const char *name) {
        char target[sizeof(MEMFD_PREFIX) - 1];
        struct stat st;

        memfds->n_descriptors++;
        if (readlinkat(folder_fd, name, target, sizeof(target)) != (ssize_t) sizeof(target) ||
            memcmp(target, MEMFD_PREFIX, sizeof(target)) != 0 ||
            fstatat(folder_fd, name, &st, 0) < 0 || st.st_dev != sampler->memfd_device ||
            memfds->n >= ELEMENTSOF(memfds->inodes) || memfds_have(memfds, st.st_ino))
                return;
        memfds->inodes[memfds->n++] = st.st_ino;
        memfds->bytes += (uint64_t) st.st_blocks * 512U;
}

static void memfds_add_process(Memfds *memfds, const Sampler *sampler, pid_t pid) {
        _Alignas(struct dirent64) char entries[DIRENTS_SIZE];
        _cleanup_(fd_closep) int fd = -EBADF;
        char path[32];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "%d/fd", pid);
        fd = openat(sampler->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return;
        while (memfds->n_descriptors < DESCRIPTORS_MAX &&
               (n = getdents64(fd, entries, sizeof(entries))) > 0)
                for (ssize_t at = 0; at < n && memfds->n_descriptors < DESCRIPTORS_MAX;) {
                        const struct dirent64 *entry = (const struct dirent64 *) (entries + at);

                        at += entry->d_reclen;
                        if (entry->d_name[0] != '.')
                                memfds_add(memfds, sampler, fd, entry->d_name);
                }
}

uint64_t sampler_memfds(Sampler *sampler) {
        _uninitialized_ Memfds memfds;

        memfds.bytes = memfds.n_descriptors = memfds.n = 0;
        if (sampler->memfd_device == 0)
                sampler->memfd_device = memfd_device();
        for (size_t i = 0; i < sampler->n_processes && memfds.n_descriptors < DESCRIPTORS_MAX; i++)
                memfds_add_process(&memfds, sampler, sampler->processes[i].pid);
        return memfds.bytes;
}

static void take_name(const Sampler *sampler, SamplerMemory *memory) {
        char text[STAT_SIZE], *name, *end;
        size_t n = 0;

        if (read_entry(sampler->proc_fd, memory->pid, "stat", text, sizeof(text)) == 0)
                return;
        name = strchr(text, '(');
        end = strrchr(text, ')');
        if (!name || !end)
                return;
        for (name++; name < end && n < sizeof(memory->name) - 1; name++)
                memory->name[n++] = *name >= ' ' && *name <= '~' ? *name : '?';
        memory->name[n] = 0;
}

static uint64_t boot_ticks(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_BOOTTIME, &now);
        return (uint64_t) now.tv_sec * (uint64_t) sysconf(_SC_CLK_TCK) +
               (uint64_t) now.tv_nsec * (uint64_t) sysconf(_SC_CLK_TCK) / 1000000000U;
}

/* What all have together: measured until end_usec, then and with 0 estimated. */
static void add_up(Sampler *sampler, uint64_t end_usec, SamplerMemory *ret_memory) {
        uint64_t now_ticks = boot_ticks();
        SamplerMemory memory = {};

        for (size_t i = 0; i < sampler->n_processes; i++)
                sampler->processes[i].lends = sampler->processes[i].borrows = false;
        for (size_t i = 0; i < sampler->n_processes; i++) {
                SamplerProcess *process = &sampler->processes[i];
                uint64_t private_bytes, shared_bytes;

                if (process->address_space == 0)
                        continue;
                if (has_parents_memory(sampler, process, now_ticks)) {
                        estimate_process(sampler, process, &private_bytes, &shared_bytes);
                        memory.doubtful_bytes += private_bytes;
                        continue;
                }
                if (end_usec > 0 && now_usec() < end_usec)
                        measure_process(sampler, process, &private_bytes, &shared_bytes);
                else
                        estimate_process(sampler, process, &private_bytes, &shared_bytes);
                memory.private_bytes += private_bytes;
                memory.shared_bytes += shared_bytes;
                if (private_bytes + shared_bytes > memory.bytes) {
                        memory.bytes = private_bytes + shared_bytes;
                        memory.pid = process->pid;
                }
        }
        if (memory.pid > 0 && end_usec > 0)
                take_name(sampler, &memory);
        *ret_memory = memory;
}

void sampler_estimate(Sampler *sampler, SamplerMemory *ret_memory) {
        add_up(sampler, 0, ret_memory);
}

void sampler_measure(Sampler *sampler, SamplerMemory *ret_memory) {
        add_up(sampler, now_usec() + sampler->measure_usec, ret_memory);
}
