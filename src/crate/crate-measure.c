/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures what a job has in memory, in a thread of its own: the kernel does so under a lock that
 * the job can hold for long, and nobody else shall wait for that. What the thread works on is its
 * own; a crate that ends meanwhile leaves it behind.
 */

#include "crate/crate-state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "basic/error.h"

/* A job that cannot be measured for that long is judged by what is known without. */
#define MEASURING_MAX_USEC (10 * USEC_PER_SEC)
#define MEASURING_STACK_SIZE (256U * 1024U)

struct Measuring {
        atomic_uint n_refs; /* the crate's, the thread's */
        int proc_fd, done_fd;
        Sampler sampler;
        SamplerMemory memory;
        uint64_t cost_usec;
};

static void measuring_unref(Measuring *measuring) {
        if (atomic_fetch_sub(&measuring->n_refs, 1) > 1)
                return;
        sampler_done(&measuring->sampler);
        (void) fd_close(measuring->proc_fd);
        (void) fd_close(measuring->done_fd);
        free(measuring);
}

static Measuring *measuring_new(const Sampler *sampler) {
        Measuring *measuring = calloc(1, sizeof(*measuring));

        if (!measuring)
                return NULL;
        atomic_init(&measuring->n_refs, 1);
        measuring->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        measuring->proc_fd = fcntl(sampler->proc_fd, F_DUPFD_CLOEXEC, 0);
        if (measuring->done_fd < 0 || measuring->proc_fd < 0 ||
            sampler_copy(sampler, measuring->proc_fd, &measuring->sampler) < 0) {
                measuring_unref(measuring);
                return NULL;
        }
        return measuring;
}

static void *measuring_run(void *userdata) {
        Measuring *measuring = userdata;
        struct timespec ts;

        sampler_measure(&measuring->sampler, &measuring->memory);
        /* The thread has done nothing else. */
        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        measuring->cost_usec =
                (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
        (void) eventfd_write(measuring->done_fd, 1);
        measuring_unref(measuring);
        return NULL;
}

static int measuring_start(Measuring *measuring) {
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        r = pthread_attr_init(&attributes);
        if (r != 0)
                return -r;
        (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void) pthread_attr_setstacksize(&attributes, MEASURING_STACK_SIZE);
        atomic_fetch_add(&measuring->n_refs, 1);
        r = pthread_create(&thread, &attributes, measuring_run, measuring);
        if (r != 0)
                atomic_fetch_sub(&measuring->n_refs, 1);
        (void) pthread_attr_destroy(&attributes);
        return -r;
}

/* It was not to be measured: a job that sees to that is not better off. */
static void judge_by_estimate(Crate *crate, const SamplerMemory *estimate) {
        SamplerMemory memory = *estimate;

        memory.pid = 0;
        crate->looking.measuring_usec = now_usec();
        (void) crate_result_add_evidence(
                &crate->result, crate_age_usec(crate), "sampler",
                "its memory could not be measured for %u s, so that what it shares counts for each",
                (unsigned) (MEASURING_MAX_USEC / USEC_PER_SEC));
        crate_note_memory(crate, &memory);
}

void crate_measure(Crate *crate, const SamplerMemory *estimate) {
        Looking *looking = &crate->looking;
        uint64_t now = now_usec();
        SamplerMemory memory;

        if (looking->measuring) {
                if (now - looking->measuring_usec >= MEASURING_MAX_USEC)
                        judge_by_estimate(crate, estimate);
                return;
        }
        if (now < looking->measure_not_before)
                return;
        looking->measuring = measuring_new(&looking->sampler);
        looking->measuring_usec = now;
        if (looking->measuring &&
            crate_watch(crate, looking->measuring->done_fd, SOURCE_MEASURED, EPOLLIN) == 0 &&
            measuring_start(looking->measuring) == 0)
                return;
        /* On a host that has no room for a thread it is waited for. */
        crate_stop_measuring(crate);
        sampler_measure(&looking->sampler, &memory);
        crate_note_memory(crate, &memory);
}

void crate_on_measured(Crate *crate) {
        Looking *looking = &crate->looking;
        SamplerMemory memory;

        if (!looking->measuring)
                return;
        memory = looking->measuring->memory;
        looking->measure_not_before = now_usec() + looking->measuring->cost_usec * LOOK_COST;
        crate_stop_measuring(crate);
        if (crate->state == CRATE_STATE_RUNNING)
                crate_note_memory(crate, &memory);
}

void crate_stop_measuring(Crate *crate) {
        Measuring *measuring = TAKE_PTR(crate->looking.measuring);

        if (!measuring)
                return;
        (void) epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, measuring->done_fd, NULL);
        measuring_unref(measuring);
}
