/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks at a running job, from time to time and at its end: what it uses of its limits, and whether
 * it has met one that nothing else tells of. The private files and the CPU time are always looked
 * at here; memory and processes where there is no cgroup to count them.
 *
 * The first look comes early, for a hog is fast. After that the looks grow rarer while nothing
 * moves; they come as often as the room that is left asks for; and whatever happens, they take no
 * more than a small part of the host's time.
 */

#include "crate/crate-state.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>

#include "basic/error.h"

#define LOOK_MIN_USEC (20 * USEC_PER_MSEC)
#define LOOK_MAX_USEC (500 * USEC_PER_MSEC)
/* Between two looks at what grows fast. */
#define LOOK_BURST_USEC (2 * USEC_PER_MSEC)
/* What a few processors can fill in a microsecond, to know how long a look may wait for a job that
 * does nothing yet. */
#define FILL_BYTES_PER_USEC 4096U
/* How many looks may find the job within its limit only because some memory was left out, and for
 * how long; a look that finds it within takes two of them back. */
#define DOUBT_MAX 16U
#define DOUBT_GONE 2U
#define DOUBT_USEC (500 * USEC_PER_MSEC)

/* What this thread has really worked: on a busy host a look takes longer than it costs. */
static uint64_t worked_usec(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

static uint64_t least(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

static uint64_t limit_of(const Crate *crate, LimitName name) {
        return crate->job.limits.max[name];
}

static void note_peak(Crate *crate, LimitName name, uint64_t used) {
        CrateLimitState *state = &crate->result.limits[name];

        if (used > state->peak)
                state->peak = used;
}

/* Whether the processes are ours to count. */
static bool counts_processes(const Crate *crate) {
        return crate->proc_fd >= 0 && (crate->means.of[LIMIT_MEMORY] == LIMIT_BY_SAMPLER ||
                                       crate->means.of[LIMIT_PIDS] == LIMIT_BY_RLIMIT ||
                                       crate->means.of[LIMIT_CPU_TIME] == LIMIT_BY_SAMPLER);
}

/* --- the private files --- */

static void note_files(Crate *crate, LimitName name, uint64_t used, uint64_t left) {
        note_peak(crate, name, used);
        /* A full one has refused something. */
        if (left == 0)
                crate_hit(crate, name, used, crate->result.limits[name].hits + 1);
}

static void look_at_files(Crate *crate) {
        struct statfs fs;

        if (crate->private_fd < 0 || fstatfs(crate->private_fd, &fs) < 0)
                return;
        crate->looking.disk = (uint64_t) (fs.f_blocks - fs.f_bfree) * (uint64_t) fs.f_bsize;
        if (fs.f_blocks > 0)
                note_files(crate, LIMIT_DISK, crate->looking.disk, (uint64_t) fs.f_bfree);
        if (fs.f_files > 0)
                note_files(crate, LIMIT_INODES, (uint64_t) (fs.f_files - fs.f_ffree),
                           (uint64_t) fs.f_ffree);
}

/* --- the processes --- */

static bool host_swaps(void) {
        struct sysinfo info;

        return sysinfo(&info) == 0 && info.totalswap > info.freeswap;
}

/*
 * Pages of a file are left out: the kernel takes them back rather than end a job for them. A file
 * in memory that is mapped is seen twice, as memory and as a file; it counts once, which is right
 * unless a job hides one behind the other.
 */
static uint64_t memory_of(const SamplerMemory *memory, uint64_t files) {
        return memory->private_bytes +
               (memory->shared_bytes > files ? memory->shared_bytes : files);
}

/*
 * A child that is about to exec has its parent's memory for a moment, so that of one child for each
 * parent does not count. A job whose children copy that memory and never exec looks the same: but
 * it does so again and again, whatever the moment. It has twice its limit until then, no more.
 */
static bool doubt_memory(Crate *crate, bool is_doubtful) {
        Looking *looking = &crate->looking;

        if (!is_doubtful) {
                looking->doubt -= least(looking->doubt, DOUBT_GONE);
                return false;
        }
        if (looking->doubt++ == 0)
                looking->doubt_usec = now_usec();
        return looking->doubt >= DOUBT_MAX && now_usec() - looking->doubt_usec >= DOUBT_USEC;
}

/* What is a file in memory, whether a process has mapped it or not. */
static uint64_t files_of(const Looking *looking) {
        return looking->disk + looking->memfds;
}

void crate_note_memory(Crate *crate, const SamplerMemory *memory) {
        uint64_t used = memory_of(memory, files_of(&crate->looking)),
                 max = limit_of(crate, LIMIT_MEMORY);
        uint64_t doubtful = used + memory->doubtful_bytes;
        char text[LIMIT_TEXT_SIZE];

        crate->looking.memory = used;
        if (doubt_memory(crate, used <= max && doubtful > max))
                used = doubtful;
        note_peak(crate, LIMIT_MEMORY, used);
        if (used <= max)
                return;
        if (memory->pid > 0) {
                limit_format(LIMIT_MEMORY, memory->bytes, text, sizeof(text));
                (void) crate_result_add_evidence(&crate->result, crate_age_usec(crate), "sampler",
                                                 "%s (pid %d) was the largest process, %s in use",
                                                 memory->name, (int) memory->pid, text);
        }
        crate_breach(crate, LIMIT_MEMORY, used, false);
}

/* Measuring takes time, of which the job may decide: only where the estimate leaves it open whether
 * the limit holds, and an estimate only where the count leaves open whether there is anything new.
 */
static void look_at_memory(Crate *crate, const SamplerLook *look) {
        uint64_t max = limit_of(crate, LIMIT_MEMORY), bound;
        SamplerMemory memory;

        crate->looking.memfds = sampler_memfds(&crate->looking.sampler);
        bound = look->resident + files_of(&crate->looking);
        if (bound <= crate->result.limits[LIMIT_MEMORY].peak && bound <= max / 2 && !host_swaps()) {
                crate->looking.memory = bound;
                (void) doubt_memory(crate, false);
                return;
        }
        sampler_estimate(&crate->looking.sampler, &memory);
        if (memory_of(&memory, files_of(&crate->looking)) + memory.doubtful_bytes > max)
                crate_measure(crate, &memory);
        else
                crate_note_memory(crate, &memory);
}

static void note_cpu_time(Crate *crate, uint64_t used) {
        crate->looking.cpu_usec = used;
        note_peak(crate, LIMIT_CPU_TIME, used);
        if (used > limit_of(crate, LIMIT_CPU_TIME))
                crate_breach(crate, LIMIT_CPU_TIME, used, false);
}

void crate_note_processes(Crate *crate, uint64_t n) {
        CrateLimitState *state = &crate->result.limits[LIMIT_PIDS];

        if (crate->means.of[LIMIT_PIDS] != LIMIT_BY_RLIMIT)
                return;
        note_peak(crate, LIMIT_PIDS, n);
        /* Where the job lives on, the kernel refuses the next one, and tells nobody. */
        if (n > state->max || (n == state->max && crate->job.on_hit == ON_HIT_REFUSE))
                crate_hit(crate, LIMIT_PIDS, n, state->hits + 1);
}

static void look_at_processes(Crate *crate) {
        SamplerLook look;

        if (sampler_look(&crate->looking.sampler, &look) < 0)
                return;
        crate->looking.pids = look.pids;
        note_peak(crate, LIMIT_PIDS, look.pids);
        crate_note_processes(crate, look.pids);
        if (crate->means.of[LIMIT_CPU_TIME] == LIMIT_BY_SAMPLER)
                note_cpu_time(crate, look.cpu_usec);
        if (crate->means.of[LIMIT_MEMORY] == LIMIT_BY_SAMPLER)
                look_at_memory(crate, &look);
}

/* --- the cgroup --- */

static CrateLevel level_of(CgroupLevel level) {
        switch (level) {
        case CGROUP_LEVEL_SANDBOX:
                return CRATE_LEVEL_SANDBOX;
        case CGROUP_LEVEL_TENANT:
                return CRATE_LEVEL_TENANT;
        case CGROUP_LEVEL_INSTANCE:
                return CRATE_LEVEL_INSTANCE;
        default:
                return CRATE_LEVEL_JOB;
        }
}

static void note_counters(Crate *crate, const CgroupBreaches *breaches) {
        (void) crate_result_add_evidence(
                &crate->result, crate_age_usec(crate), "cgroup",
                "memory.events max %llu, oom %llu, oom_kill %llu; pids.events max %llu",
                (unsigned long long) breaches->memory_max,
                (unsigned long long) breaches->memory_oom,
                (unsigned long long) breaches->memory_oom_kill,
                (unsigned long long) breaches->pids_max);
}

/* What is met again and again is told once, or it would crowd out all other evidence. */
static void note_cgroup_breach(Crate *crate, LimitName name, const CgroupBreach *met,
                               const CgroupBreaches *breaches) {
        bool is_first = crate->result.limits[name].hits == 0;
        CrateBreach breach = {
                .name = name,
                .max = met->max,
                .observed = met->observed,
                .level = level_of(met->level),
                .enforced_by = "cgroup",
        };

        crate->result.limits[name].hits = met->hits;
        note_peak(crate, name, met->level == CGROUP_LEVEL_JOB ? met->observed : 0);
        if (is_first ||
            (met->level != CGROUP_LEVEL_OUTSIDE && crate->result.limit.name == _LIMIT_INVALID))
                note_counters(crate, breaches);
        if (met->level != CGROUP_LEVEL_OUTSIDE)
                crate_breach_at(crate, &breach, false);
        else if (is_first)
                (void) crate_result_add_evidence(
                        &crate->result, crate_age_usec(crate), limit_to_string(name),
                        "the ceiling that was met is none of ours: that of the machine, or of what "
                        "AgentCrate itself runs in");
}

/* Nothing holds the job any more. One that has died may have been removed: that is told otherwise.
 */
static void lose_cgroup(Crate *crate, const CgroupFailure *failure) {
        struct pollfd poll_fd = {.fd = crate->pid_fd, .events = POLLIN};
        _cleanup_(freep) char *text = NULL;

        if (crate->ladder == LADDER_INIT || poll(&poll_fd, 1, 0) > 0)
                return;
        text = cgroup_failure_format(failure);
        (void) crate_error_set(&crate->result.error, "cgroup", failure->error, failure->file, NULL,
                               "the job was ended, since its limits were in force no more: %s",
                               text ?: "its cgroup is gone");
        crate_kill_init(crate);
}

void crate_check_cgroup(Crate *crate) {
        CrateLimitState *limits = crate->result.limits;
        CgroupBreaches breaches;
        CgroupFailure failure;

        int r;

        if (!crate->cgroup)
                return;
        r = cgroup_crate_check(crate->cgroup, &breaches, &failure);
        if (r == CGROUP_E_FAILED && crate->state == CRATE_STATE_RUNNING)
                lose_cgroup(crate, &failure);
        if (r != 0)
                return;
        if (breaches.memory.hits > limits[LIMIT_MEMORY].hits)
                note_cgroup_breach(crate, LIMIT_MEMORY, &breaches.memory, &breaches);
        if (breaches.pids.hits <= limits[LIMIT_PIDS].hits)
                return;
        if (crate->job.on_hit == ON_HIT_REFUSE)
                limits[LIMIT_PIDS].hits = breaches.pids.hits;
        else
                note_cgroup_breach(crate, LIMIT_PIDS, &breaches.pids, &breaches);
}

static void look_at_cgroup_time(Crate *crate) {
        CgroupFailure failure;
        CgroupUsage usage;
        int r;

        if (!crate->cgroup || crate->means.of[LIMIT_CPU_TIME] != LIMIT_BY_CGROUP)
                return;
        r = cgroup_crate_read_usage(crate->cgroup, CGROUP_USAGE_CPU, &usage, &failure);
        if (r == CGROUP_E_FAILED)
                lose_cgroup(crate, &failure);
        else if (r == 0 && (usage.has & CGROUP_USAGE_CPU))
                note_cpu_time(crate, usage.cpu_usec);
}

static void note_usage(Crate *crate, const CgroupUsage *usage) {
        CrateResult *result = &crate->result;

        if (usage->has & CGROUP_USAGE_CPU)
                result->cpu_usec = usage->cpu_usec;
        if (usage->has & CGROUP_USAGE_MEMORY_PEAK)
                result->memory_peak_bytes = usage->memory_peak;
        if (usage->has & CGROUP_USAGE_PIDS_PEAK)
                note_peak(crate, LIMIT_PIDS, usage->pids_peak);
        if (usage->has & CGROUP_USAGE_IO) {
                result->io_read_bytes = usage->io_read_bytes;
                result->io_write_bytes = usage->io_write_bytes;
        }
}

/* --- when to look, and at the end --- */

/* For what grew by that much in that time; both are not 0, or nothing has passed. */
static uint64_t time_to_fill(uint64_t room, uint64_t grown, uint64_t passed) {
        uint64_t product;

        /* So much room that it needs no care. */
        if (__builtin_mul_overflow(room, passed, &product))
                return LOOK_MAX_USEC;
        return product / grown;
}

/* The nearest time at which a limit could be met, as things go; at least one microsecond. */
static uint64_t time_left(const Crate *crate, const Looking *before, uint64_t now) {
        const Looking *looking = &crate->looking;
        uint64_t memory = limit_of(crate, LIMIT_MEMORY), cpu = limit_of(crate, LIMIT_CPU_TIME);
        uint64_t left = LOOK_MAX_USEC, passed = now - before->last_usec;

        if (counts_processes(crate) && memory != LIMIT_UNLIMITED && looking->memory < memory) {
                uint64_t room = memory - looking->memory;

                left = least(left, room / FILL_BYTES_PER_USEC);
                if (left < LOOK_MIN_USEC)
                        left = LOOK_MIN_USEC;
                if (looking->memory > before->memory)
                        left = least(left, time_to_fill(room / 2, looking->memory - before->memory,
                                                        passed));
        }
        if (cpu != LIMIT_UNLIMITED && looking->cpu_usec < cpu)
                left = least(left,
                             (cpu - looking->cpu_usec) / (uint64_t) sysconf(_SC_NPROCESSORS_ONLN));
        return left > LOOK_BURST_USEC ? left : LOOK_BURST_USEC;
}

static bool has_moved(const Looking *a, const Looking *b) {
        return a->disk != b->disk || a->memory != b->memory || a->pids != b->pids ||
               a->cpu_usec != b->cpu_usec;
}

static void set_next_look(Crate *crate, const Looking *before, uint64_t worked) {
        Looking *looking = &crate->looking;
        uint64_t now = now_usec(), cost = worked * LOOK_COST, next;

        looking->interval_usec = has_moved(looking, before)
                                         ? LOOK_MIN_USEC
                                         : least(before->interval_usec * 2, LOOK_MAX_USEC);
        looking->last_usec = now;
        next = least(looking->interval_usec, time_left(crate, before, now));
        crate->sample_usec = now + (next > cost ? next : cost);
}

int crate_start_looking(Crate *crate) {
        int r;

        sampler_init(&crate->looking.sampler, crate->proc_fd);
        crate->looking.interval_usec = LOOK_MIN_USEC;
        crate->looking.last_usec = crate->start_usec;
        crate->sample_usec = crate->start_usec + LOOK_MIN_USEC;
        if (!crate->cgroup || cgroup_crate_events_fd(crate->cgroup) < 0)
                return 0;
        r = crate_watch(crate, cgroup_crate_events_fd(crate->cgroup), SOURCE_CGROUP, EPOLLIN);
        return r < 0 ? error_trace(r) : 0;
}

/* Of a job that is not being ended already. */
static void tell_usage(Crate *crate) {
        if (crate->callbacks.on_usage && crate->ladder == LADDER_NONE)
                crate->callbacks.on_usage(crate, crate->looking.memory, crate->looking.pids,
                                          crate->userdata);
}

void crate_look(Crate *crate) {
        Looking before = crate->looking;
        uint64_t worked = worked_usec();

        look_at_files(crate);
        if (counts_processes(crate)) {
                look_at_processes(crate);
                tell_usage(crate);
        } else if (crate_yields_by_nice(crate)) {
                SamplerLook look;

                (void) sampler_look(&crate->looking.sampler, &look);
        }
        look_at_cgroup_time(crate);
        crate_yield_if_greedy(crate);
        if (crate->state == CRATE_STATE_RUNNING)
                set_next_look(crate, &before, worked_usec() - worked);
}

/* The processes are gone; what counted them may still tell. */
void crate_look_back(Crate *crate) {
        CrateResult *result = &crate->result;
        CgroupFailure failure;
        CgroupUsage usage;

        look_at_files(crate);
        crate_check_cgroup(crate);
        if (crate->cgroup &&
            cgroup_crate_read_usage(crate->cgroup, CGROUP_USAGE_ALL, &usage, &failure) == 0)
                note_usage(crate, &usage);
        note_peak(crate, LIMIT_CPU_TIME, result->cpu_usec);
        if (result->cpu_usec < result->limits[LIMIT_CPU_TIME].peak)
                result->cpu_usec = result->limits[LIMIT_CPU_TIME].peak;
        note_peak(crate, LIMIT_MEMORY, result->memory_peak_bytes);
        result->memory_peak_bytes = result->limits[LIMIT_MEMORY].peak;
        note_peak(crate, LIMIT_PIDS, crate->start_usec > 0);
        result->pids_peak = result->limits[LIMIT_PIDS].peak;
}
