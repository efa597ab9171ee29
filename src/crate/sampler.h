/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Looks at the processes of a crate through the crate's own /proc, where there is no cgroup that
 * counts for us. What is seen is of one moment, and the processes are hostile: they fork, exec and
 * end while we look, choose their names, and forbid what they can. So nothing that is missing is an
 * error, and nothing is taken for more than it says.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SAMPLER_NAME_SIZE 64U

typedef struct SamplerProcess {
        pid_t pid, parent, group, session; /* session 0: its leader is not in there */
        int nice;
        char state;
        uint64_t start_ticks; /* since the boot: with the pid it tells a process from its successor
                               */
        uint64_t cpu_ticks;   /* its own */
        uint64_t address_space, resident; /* bytes */
        bool lends;                       /* its memory is that of a child as well */
        bool borrows;                     /* its memory is that of its parent, as it seems */
} SamplerProcess;

typedef struct Sampler {
        int proc_fd; /* borrowed */
        SamplerProcess *processes;
        size_t n_processes, n_allocated;
        dev_t memfd_device;    /* 0: not known yet */
        uint64_t measure_usec; /* how long a measuring may take */
        uint64_t seen_ticks;   /* used before the eyes of all looks, also by those that are gone */
} Sampler;

typedef struct SamplerLook {
        uint64_t pids;     /* processes and threads, without init */
        uint64_t resident; /* bytes: never less than the memory in use, pages that are shared or a
                              file's count for each process */
        uint64_t cpu_usec;
} SamplerLook;

typedef struct SamplerMemory {
        uint64_t private_bytes;  /* anonymous memory, each page once, in RAM or swapped out */
        uint64_t shared_bytes;   /* of files in memory (tmpfs, memfd, System V) that are mapped */
        uint64_t doubtful_bytes; /* not counted: of children that seem to have their parent's
                                    memory, which is right for moments only */
        /* The largest process. */
        pid_t pid;
        uint64_t bytes;
        char name[SAMPLER_NAME_SIZE]; /* readable, whatever it calls itself; "" of an estimate */
} SamplerMemory;

/* proc_fd is borrowed. */
void sampler_init(Sampler *sampler, int proc_fd);
void sampler_done(Sampler *sampler);
/* The same processes, for another thread to measure; proc_fd is borrowed. 0 or a negative errno. */
int sampler_copy(const Sampler *sampler, int proc_fd, Sampler *ret_copy);
/* Counts. 0 or a negative errno. */
int sampler_look(Sampler *sampler, SamplerLook *ret_look);
/* A process of the last look, or NULL. */
const SamplerProcess *sampler_find(const Sampler *sampler, pid_t pid);
/* Bytes of the memfds that processes of the last look have open, mapped or not, each once. Only as
 * many as can be looked at in a short time. */
uint64_t sampler_memfds(Sampler *sampler);
/* What the processes of the last look have at most: what two share after a fork counts for both.
 * Takes no lock that a process could hold. */
void sampler_estimate(Sampler *sampler, SamplerMemory *ret_memory);
/*
 * Measures them, in time that grows with their memory; those for which there is no time left are
 * estimated. Each waits for the lock of the process's address space, which it can be slow to give
 * back: on a busy host that has taken seconds.
 */
void sampler_measure(Sampler *sampler, SamplerMemory *ret_memory);
