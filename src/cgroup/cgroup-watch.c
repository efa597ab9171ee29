/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether, and at which level, a crate has met a ceiling.
 *
 * Memory: the kernel counts a kill in the memory.events of the victim's cgroups, and the want that
 * led to it in the memory.events.local of the one whose ceiling it was. So the crate's own file
 * tells that, and the .local of each level, compared with what it was at the start, tells where.
 *
 * Pids: until 6.10 a refused fork is counted in the pids.events of the cgroup that wanted to fork,
 * whatever the ceiling was; which one that is shows only by comparing use and ceiling of each
 * level. From 6.11 on it is counted in pids.events.local of the ceiling, and nowhere where the fork
 * was: of a ceiling that several crates share only they together know whose it is, and the crate
 * with the most tasks is taken.
 */

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-text.h"

/* --- the levels of a crate --- */

static CgroupShared *crate_shared(const CgroupCrate *crate, CgroupLevel level) {
        return level == CGROUP_LEVEL_TENANT ? &crate->tenant->shared : &crate->tree->jobs;
}

static int level_dir(const CgroupCrate *crate, CgroupLevel level) {
        switch (level) {
        case CGROUP_LEVEL_JOB:
                return crate->exec_fd;
        case CGROUP_LEVEL_SANDBOX:
                return crate->fd;
        default:
                return crate_shared(crate, level)->fd;
        }
}

static const CgroupLimits *level_limits(const CgroupCrate *crate, CgroupLevel level) {
        switch (level) {
        case CGROUP_LEVEL_JOB:
                return &crate->job_limits;
        case CGROUP_LEVEL_SANDBOX:
                return &crate->limits;
        default:
                return &crate_shared(crate, level)->limits;
        }
}

static uint64_t read_value(int dir, const char *name, uint64_t otherwise) {
        char text[CGROUP_FILE_SIZE];
        uint64_t value;

        if (cgroup_file_read(dir, name, text, sizeof(text)) < 0 ||
            cgroup_text_value(text, &value) != 0)
                return otherwise;
        return value;
}

static uint64_t get(const char *text, const char *key) {
        uint64_t value;

        return cgroup_text_get(text, key, &value) == 0 ? value : 0;
}

static uint64_t read_count(int dir, const char *name, const char *key) {
        char text[CGROUP_FILE_SIZE];

        return cgroup_file_read(dir, name, text, sizeof(text)) < 0 ? 0 : get(text, key);
}

/* A counter of a shared level by the file that is held open for it. */
static uint64_t shared_count(const CgroupShared *shared, int *fd, const char *name,
                             const char *key) {
        char text[CGROUP_FILE_SIZE];

        if (*fd < 0)
                *fd = openat(shared->fd, name, O_RDONLY | O_CLOEXEC);
        return *fd < 0 || cgroup_file_reread(*fd, text, sizeof(text)) < 0 ? 0 : get(text, key);
}

static uint64_t level_oom(const CgroupCrate *crate, CgroupLevel level) {
        CgroupShared *shared;

        if (level < CGROUP_LEVEL_TENANT)
                return read_count(level_dir(crate, level), "memory.events.local", "oom");
        shared = crate_shared(crate, level);
        return shared_count(shared, &shared->oom_fd, "memory.events.local", "oom");
}

/* Refused at this ceiling. */
static uint64_t level_pids(const CgroupCrate *crate, CgroupLevel level) {
        CgroupShared *shared;

        if (!crate->tree->pids_local)
                return 0;
        if (level < CGROUP_LEVEL_TENANT)
                return read_count(level_dir(crate, level), "pids.events.local", "max");
        shared = crate_shared(crate, level);
        return shared_count(shared, &shared->pids_fd, "pids.events.local", "max");
}

/* --- what is watched --- */

void cgroup_watch_init(CgroupWatch *watch) {
        *watch = (CgroupWatch){
                .epoll_fd = -EBADF, .memory_fd = -EBADF, .forks_fd = -EBADF, .end_fd = -EBADF};
        for (size_t i = 0; i < ELEMENTSOF(watch->pids_fds); i++)
                watch->pids_fds[i] = -EBADF;
}

/* What has vanished would wake its owner again and again. */
static void watch_lose(CgroupWatch *watch) {
        watch->memory_fd = fd_close(watch->memory_fd);
        watch->forks_fd = fd_close(watch->forks_fd);
        watch->end_fd = fd_close(watch->end_fd);
        for (size_t i = 0; i < ELEMENTSOF(watch->pids_fds); i++)
                watch->pids_fds[i] = fd_close(watch->pids_fds[i]);
        watch->is_lost = true;
}

void cgroup_watch_done(CgroupWatch *watch) {
        watch_lose(watch);
        watch->epoll_fd = fd_close(watch->epoll_fd);
}

/* The kernel tells of a change to a file since it was last read by an exceptional condition. */
static int watch_add(CgroupWatch *watch, int dir, const char *name, int *ret_fd) {
        struct epoll_event event = {.events = EPOLLPRI};
        _cleanup_(fd_closep) int fd = -EBADF;

        fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        if (watch->epoll_fd < 0) {
                watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
                if (watch->epoll_fd < 0)
                        return negative_errno();
        }
        if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
                return negative_errno();
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int start_memory(CgroupCrate *crate) {
        CgroupWatch *watch = &crate->watch;

        /* What is new has counted nothing yet. */
        for (CgroupLevel level = CGROUP_LEVEL_TENANT; level < CGROUP_LEVEL_OUTSIDE; level++)
                watch->oom_base[level] = level_oom(crate, level);
        return watch_add(watch, crate->fd, "memory.events", &watch->memory_fd);
}

static int start_pids(CgroupCrate *crate) {
        CgroupWatch *watch = &crate->watch;
        CgroupTree *tree = crate->tree;
        int r;

        if (!tree->probed) {
                tree->pids_local = faccessat(crate->exec_fd, "pids.events.local", F_OK, 0) == 0;
                tree->probed = true;
        }
        r = watch_add(watch, crate->exec_fd, "pids.events", &watch->pids_fds[CGROUP_LEVEL_JOB]);
        if (r < 0 || !tree->pids_local)
                return r;

        r = watch_add(watch, crate->exec_fd, "pids.events.local", &watch->forks_fd);
        for (CgroupLevel level = CGROUP_LEVEL_SANDBOX; r == 0 && level < CGROUP_LEVEL_OUTSIDE;
             level++) {
                if (level_limits(crate, level)->pids == CGROUP_UNLIMITED)
                        continue;
                watch->pids_base[level] = level_pids(crate, level);
                r = watch_add(watch, level_dir(crate, level), "pids.events",
                              &watch->pids_fds[level]);
        }
        return r;
}

int cgroup_watch_start(CgroupCrate *crate, CgroupFailure *ret_failure) {
        const char *name = JOB_LEAF "/pids.events";
        int r = 0;

        if (crate->tree->controllers & CGROUP_PIDS)
                r = start_pids(crate);
        if (r == 0 && (crate->tree->controllers & CGROUP_MEMORY)) {
                name = "memory.events";
                r = start_memory(crate);
        }
        return r < 0 ? cgroup_fail(ret_failure, -r, crate->path, name, NULL, NULL) : 0;
}

/* One that cannot be watched is looked at when its own events come. */
static void watch_level(CgroupCrate *crate, CgroupLevel level) {
        CgroupWatch *watch = &crate->watch;

        watch->pids_base[level] = level_pids(crate, level);
        if (watch->pids_fds[level] < 0)
                (void) watch_add(watch, level_dir(crate, level), "pids.events",
                                 &watch->pids_fds[level]);
}

void cgroup_watch_shared(CgroupTree *tree, const CgroupShared *shared) {
        CgroupCrate *crate;

        if (!tree->pids_local)
                return;
        LIST_FOREACH (crate, &tree->crates, entry) {
                /* One that is being made, or is lost, watches nothing. */
                if (crate->watch.epoll_fd < 0 || crate->watch.is_lost)
                        continue;
                for (CgroupLevel level = CGROUP_LEVEL_TENANT; level < CGROUP_LEVEL_OUTSIDE; level++)
                        if (crate_shared(crate, level) == shared)
                                watch_level(crate, level);
        }
}

int cgroup_crate_events_fd(const CgroupCrate *crate) {
        return crate->watch.epoll_fd;
}

/* --- memory --- */

/* What one of them has met is no news for those who live on: whatever ends them later is not that.
 * Those that were killed as well have still to find it. */
static void refresh_others(const CgroupCrate *crate, CgroupLevel level) {
        const CgroupShared *shared = crate_shared(crate, level);
        uint64_t oom = level_oom(crate, level);
        CgroupCrate *other;

        /* Not by the files that they hold open: reading those would take back their events. */
        LIST_FOREACH (other, &crate->tree->crates, entry)
                if (other != crate && other->watch.memory_fd >= 0 &&
                    crate_shared(other, level) == shared &&
                    read_count(other->fd, "memory.events", "oom_kill") == 0)
                        other->watch.oom_base[level] = oom;
}

static int check_memory(CgroupCrate *crate, CgroupBreaches *breaches) {
        CgroupBreach *breach = &breaches->memory;
        char text[CGROUP_FILE_SIZE];
        CgroupLevel level;
        uint64_t oom;
        int dir, r;

        r = cgroup_file_reread(crate->watch.memory_fd, text, sizeof(text));
        if (r < 0)
                return r;
        if (get(text, "oom_kill") == 0 && get(text, "oom") == 0)
                return 0;
        breach->hits = get(text, "oom_kill") > 0;
        r = cgroup_file_read(crate->exec_fd, "memory.events", text, sizeof(text));
        if (r < 0)
                return r;
        breaches->memory_oom = get(text, "oom");
        breaches->memory_oom_kill = get(text, "oom_kill");
        breaches->memory_max = get(text, "max");
        if (breach->hits == 0)
                return 0;

        for (level = CGROUP_LEVEL_JOB; level < CGROUP_LEVEL_OUTSIDE; level++) {
                oom = level_oom(crate, level);
                if (oom <= crate->watch.oom_base[level])
                        continue;
                breach->hits = oom - crate->watch.oom_base[level];
                break;
        }
        if (level == CGROUP_LEVEL_TENANT || level == CGROUP_LEVEL_INSTANCE)
                refresh_others(crate, level);
        breach->level = level;
        breach->max = level < CGROUP_LEVEL_OUTSIDE ? level_limits(crate, level)->memory
                                                   : CGROUP_UNLIMITED;
        dir = level < CGROUP_LEVEL_OUTSIDE ? level_dir(crate, level) : crate->exec_fd;
        breach->observed = read_value(dir, "memory.peak", read_value(dir, "memory.current", 0));
        return 0;
}

/* --- pids --- */

/* A ceiling below which its level has always stayed has refused nothing. Kernels that keep no peak
 * leave that open. */
static bool was_never_full(int dir, uint64_t max) {
        return read_value(dir, "pids.peak", CGROUP_UNLIMITED) < max;
}

/* The one with the least room left, the innermost of equals. */
static CgroupLevel fullest_level(const CgroupCrate *crate) {
        CgroupLevel fullest = CGROUP_LEVEL_OUTSIDE;
        uint64_t least = UINT64_MAX;

        for (CgroupLevel level = CGROUP_LEVEL_JOB; level < CGROUP_LEVEL_OUTSIDE; level++) {
                uint64_t max = level_limits(crate, level)->pids, current;

                if (max == CGROUP_UNLIMITED)
                        continue;
                current = read_value(level_dir(crate, level), "pids.current", 0);
                if (current >= max)
                        return level;
                if (was_never_full(level_dir(crate, level), max))
                        continue;
                if (max - current < least) {
                        least = max - current;
                        fullest = level;
                }
        }
        return fullest;
}

static const CgroupCrate *find_culprit(const CgroupCrate *asking, CgroupLevel level) {
        const CgroupCrate *crate, *most = NULL;
        uint64_t most_tasks = 0;

        LIST_FOREACH (crate, &asking->tree->crates, entry) {
                uint64_t tasks;

                if (level == CGROUP_LEVEL_TENANT && crate->tenant != asking->tenant)
                        continue;
                tasks = read_value(crate->exec_fd, "pids.current", 0);
                if (tasks <= most_tasks)
                        continue;
                most = crate;
                most_tasks = tasks;
        }
        return most;
}

/* Asked by each crate that the kernel wakes, and looked for once. */
static bool is_culprit(const CgroupCrate *crate, CgroupLevel level, uint64_t count) {
        CgroupShared *shared;

        if (level < CGROUP_LEVEL_TENANT)
                return true;
        shared = crate_shared(crate, level);
        if (shared->pids_seen != count) {
                shared->pids_crate = find_culprit(crate, level);
                shared->pids_seen = count;
        }
        return shared->pids_crate == crate;
}

static void add_pids(CgroupCrate *crate, CgroupLevel level, uint64_t hits) {
        CgroupBreach *breach = &crate->watch.pids;
        int dir = level < CGROUP_LEVEL_OUTSIDE ? level_dir(crate, level) : crate->exec_fd;

        breach->hits += hits;
        breach->level = level;
        breach->max =
                level < CGROUP_LEVEL_OUTSIDE ? level_limits(crate, level)->pids : CGROUP_UNLIMITED;
        breach->observed = read_value(dir, "pids.peak", read_value(dir, "pids.current", 0));
}

/* Kernels that count at the ceiling. */
static bool check_pids_local(CgroupCrate *crate) {
        bool found = false;

        for (CgroupLevel level = CGROUP_LEVEL_JOB; level < CGROUP_LEVEL_OUTSIDE; level++) {
                uint64_t *base = &crate->watch.pids_base[level], count;

                if (level_limits(crate, level)->pids == CGROUP_UNLIMITED)
                        continue;
                count = level_pids(crate, level);
                if (count <= *base)
                        continue;
                if (is_culprit(crate, level, count)) {
                        add_pids(crate, level, count - *base);
                        found = true;
                }
                *base = count;
        }
        return found;
}

static int check_pids(CgroupCrate *crate, CgroupBreaches *breaches) {
        CgroupWatch *watch = &crate->watch;
        char text[CGROUP_FILE_SIZE];
        bool counted;
        uint64_t forks;
        int r = 0;

        /* From the outside in, so that the job's own is what stays in text. */
        for (int level = CGROUP_LEVEL_INSTANCE; r == 0 && level >= CGROUP_LEVEL_JOB; level--)
                if (watch->pids_fds[level] >= 0)
                        r = cgroup_file_reread(watch->pids_fds[level], text, sizeof(text));
        if (r < 0)
                return r;
        forks = get(text, "max");
        if (watch->forks_fd >= 0)
                (void) cgroup_file_reread(watch->forks_fd, text, sizeof(text));
        breaches->pids_max = forks;

        counted = crate->tree->pids_local && check_pids_local(crate);
        /* Also on a newer kernel, if its hierarchy is mounted to count in the old way. */
        if (forks > watch->forks_seen && !counted)
                add_pids(crate, fullest_level(crate), forks - watch->forks_seen);
        watch->forks_seen = forks;
        breaches->pids = watch->pids;
        return 0;
}

int cgroup_crate_check(CgroupCrate *crate, CgroupBreaches *ret_breaches,
                       CgroupFailure *ret_failure) {
        CgroupBreaches breaches = {};
        CgroupWatch *watch = &crate->watch;
        const char *name = "memory.events";
        char text[CGROUP_FILE_SIZE];
        int r = watch->is_lost ? -ENODEV : 0;

        if (r == 0 && watch->memory_fd >= 0)
                r = check_memory(crate, &breaches);
        if (r == 0 && watch->pids_fds[CGROUP_LEVEL_JOB] >= 0) {
                name = JOB_LEAF "/pids.events";
                r = check_pids(crate, &breaches);
        }
        if (r == 0 && watch->end_fd >= 0)
                r = cgroup_file_reread(watch->end_fd, text, sizeof(text));
        if (r < 0) {
                watch_lose(watch);
                return cgroup_fail(ret_failure, -r, crate->path, name, NULL, NULL);
        }
        *ret_breaches = breaches;
        return 0;
}

/* --- use --- */

static void read_number(const CgroupCrate *crate, const char *name, unsigned bit, uint64_t *value,
                        CgroupUsage *usage) {
        char text[CGROUP_FILE_SIZE];

        if (cgroup_file_read(crate->exec_fd, name, text, sizeof(text)) == 0 &&
            cgroup_text_value(text, value) == 0)
                usage->has |= bit;
}

static void read_io(const CgroupCrate *crate, CgroupUsage *usage) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        if (cgroup_file_read_all(crate->exec_fd, "io.stat", &text) < 0)
                return;
        cgroup_text_io(text.data ?: "", &usage->io_read_bytes, &usage->io_write_bytes);
        usage->has |= CGROUP_USAGE_IO;
}

int cgroup_crate_read_usage(const CgroupCrate *crate, unsigned what, CgroupUsage *ret_usage,
                            CgroupFailure *ret_failure) {
        char text[CGROUP_FILE_SIZE];
        CgroupUsage usage = {};
        int r;

        /* This one is on every cgroup, so that it tells whether there still is one. */
        r = cgroup_file_read(crate->exec_fd, "cpu.stat", text, sizeof(text));
        if (r < 0)
                return cgroup_fail(ret_failure, -r, crate->path, JOB_LEAF "/cpu.stat", NULL, NULL);
        if ((what & CGROUP_USAGE_CPU) && cgroup_text_get(text, "usage_usec", &usage.cpu_usec) == 0)
                usage.has |= CGROUP_USAGE_CPU;
        if (what & CGROUP_USAGE_MEMORY)
                read_number(crate, "memory.current", CGROUP_USAGE_MEMORY, &usage.memory_current,
                            &usage);
        if (what & CGROUP_USAGE_MEMORY_PEAK)
                read_number(crate, "memory.peak", CGROUP_USAGE_MEMORY_PEAK, &usage.memory_peak,
                            &usage);
        if (what & CGROUP_USAGE_PIDS)
                read_number(crate, "pids.current", CGROUP_USAGE_PIDS, &usage.pids_current, &usage);
        if (what & CGROUP_USAGE_PIDS_PEAK)
                read_number(crate, "pids.peak", CGROUP_USAGE_PIDS_PEAK, &usage.pids_peak, &usage);
        if (what & CGROUP_USAGE_IO)
                read_io(crate, &usage);
        *ret_usage = usage;
        return 0;
}

/* --- the end --- */

int cgroup_crate_watch_end(CgroupCrate *crate) {
        if (crate->watch.end_fd >= 0)
                return 0;
        return error_trace(
                watch_add(&crate->watch, crate->fd, "cgroup.events", &crate->watch.end_fd));
}

/* One that is gone is empty. */
static bool is_populated(int dir) {
        char text[CGROUP_FILE_SIZE];
        uint64_t populated;
        int r;

        r = cgroup_file_read(dir, "cgroup.events", text, sizeof(text));
        if (r < 0)
                return r != -ENOENT && r != -ENODEV;
        return cgroup_text_get(text, "populated", &populated) != 0 || populated != 0;
}

bool cgroup_crate_is_populated(const CgroupCrate *crate) {
        return is_populated(crate->fd);
}

bool cgroup_crate_job_is_populated(const CgroupCrate *crate) {
        return is_populated(crate->exec_fd);
}
